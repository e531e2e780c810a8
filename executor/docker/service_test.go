package docker_test

import (
	"cmp"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestDriver_services(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Run("answer on localhost and by name", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "for host in 127.0.0.1 localhost web; do wget -q -O - http://$host:8123/greeting; done")
		def.Services = []run.ServiceSpec{{
			Name: "web", Image: b.image, Environment: map[string]string{"GREETING": "hello"},
			Command: []string{"/bin/sh", "-c", "mkdir /www && echo $GREETING >/www/greeting && exec httpd -f -p 8123 -h /www"},
		}, {
			Name: "other", Image: b.image, Command: []string{"sleep", "60"},
		}}
		s := b.finish(t, def)
		require.Equal(t, "hello\nhello\nhello\n", s.output)
	})
	t.Run("are waited for where the image names a port", func(t *testing.T) {
		t.Parallel()
		slow := b.variant(t, "EXPOSE 9/udp 8125 8124-8125/tcp")
		def := b.definition(t, "wget -q -O - http://localhost:8125/greeting")
		def.Services = []run.ServiceSpec{{
			Name: "slow", Image: slow,
			Command: []string{"/bin/sh", "-c", "mkdir /www && echo hello >/www/greeting && sleep 2 && exec httpd -f -p 8125 -h /www"},
		}}
		var log setupLog
		h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Log: log.add, Launch: launchAt(1)})
		require.NoError(t, err)
		b.removeAfter(t, h)
		require.Equal(t, "hello\n", follow(t, h, 1).output)
		require.Regexp(t, `service slow listens after [1-9]`, log.String())
	})
	late := b.variant(t, "EXPOSE 8126")
	for _, c := range []struct {
		name    string
		service run.ServiceSpec
		want    []string
		logged  string
	}{{
		"ended at once",
		run.ServiceSpec{Name: "db", Image: b.image, Command: []string{"/bin/sh", "-c", "(echo first; echo no disk) >&2; exit 7"}},
		[]string{"service db", "exit code 7", "no disk"},
		"service db: first",
	}, {
		"ended during the wait for its port",
		run.ServiceSpec{Name: "db", Image: late, Command: []string{"/bin/sh", "-c", "sleep 1; echo no password; exit 1"}},
		[]string{"service db", "exit code 1", "no password"},
		"service db: no password",
	}, {
		"ended before the wait for its port",
		run.ServiceSpec{Name: "db", Image: late, Command: []string{"/bin/sh", "-c", "echo no license; exit 3"}},
		[]string{"service db", "exit code 3", "no license"},
		"service db: no license",
	}, {
		"has no such command",
		run.ServiceSpec{Name: "db", Image: b.image, Command: []string{"/no/such/command"}},
		[]string{"service db", "/no/such/command"},
		"",
	}, {
		"has no image",
		run.ServiceSpec{Name: "db", Image: "drover-test/none:1"},
		[]string{"service db", "drover-test/none:1", "pull policy is never"},
		"",
	}} {
		for _, network := range []run.ServiceNetwork{"", run.ServiceNetworkOwn} {
			t.Run(c.name+", network "+cmp.Or(string(network), "shared"), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.driver.SetServiceWatch(time.Minute)
				def := b.definition(t, "echo must not run")
				def.ServiceNetwork = network
				def.Services = []run.ServiceSpec{{Name: "fine", Image: b.image, Command: []string{"sleep", "60"}}, c.service}
				var log setupLog
				_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Log: log.add, Launch: func() (int64, error) {
					t.Error("launched without its service")
					return 1, nil
				}})
				require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
				for _, want := range c.want {
					require.ErrorContains(t, err, want)
				}
				require.Contains(t, log.String(), c.logged)
				b.requireNothingLeft(t)
			})
		}
	}
}

// TestDriver_service_whose_end_is_known_late follows a failed task whose service has ended,
// which the daemon says later than usual: it does so on a loaded host.
func TestDriver_service_whose_end_is_known_late(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const ended = "; service db (%s) had ended: the container ended with exit code 7"
	for name, c := range map[string]struct {
		runs    bool
		service string // the answer about the processes of the service; "": the daemon's
		main    string // likewise, of the main container
		want    string
	}{
		"the daemon refuses to list processes": {want: ended},
		"it has no processes":                  {service: `{"Titles": ["PID"], "Processes": []}`, want: ended},
		"its runtime has gone":                 {service: "ttrpc: closed", want: ended},
		"it runs":                              {runs: true},
		"the daemon can list no processes":     {service: "no ps", main: "no ps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := b.definition(t, "touch stop; until [ -e go ]; do sleep 0.05; done; exit 3")
			def.WorkingDir = run.SharedWorkingDir
			def.Services = []run.ServiceSpec{{
				Name: "db", Image: b.image, ShareWorkingDir: true, Command: []string{"sh", "-c", "cd /workspace; until [ -e stop ]; do sleep 0.05; done; exit 7"},
			}}
			if c.runs {
				def.Services[0].Command = []string{"sleep", "300"}
			}
			h := b.start(t, def)
			db, err := b.cli.ContainerInspect(t.Context(), "drover-"+def.Key.String()+".service0")
			require.NoError(t, err)
			testenv.Await(t, func() (bool, string) {
				again, err := b.cli.ContainerInspect(t.Context(), db.ID)
				return err == nil && again.State.Running == c.runs, "the service runs"
			})
			require.NoError(t, h.CopyTo(t.Context(), run.SharedWorkingDir, fileNamed(t, "go")))
			var waits atomic.Int64
			late, err := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
				ofService := strings.Contains(r.URL.Path, db.ID)
				answer := c.main
				if ofService {
					answer = c.service
				}
				switch {
				case ofService && strings.HasSuffix(r.URL.Path, "/wait") && waits.Add(1) == 1:
					<-r.Context().Done()
					return http.StatusInternalServerError, "too late"
				case !strings.HasSuffix(r.URL.Path, "/top") || answer == "":
					return 0, ""
				case strings.HasPrefix(answer, "{"):
					return http.StatusOK, answer
				}
				return http.StatusInternalServerError, answer
			}).Attach(t.Context(), def.Key)
			require.NoError(t, err)
			require.Equal(t, "step 1 exited with code 3"+strings.ReplaceAll(c.want, "%s", b.image), follow(t, late, 1).result.Reason)
			if c.want == "" {
				require.EqualValues(t, 1, waits.Load(), "the task does not wait longer for a service that runs")
			}
		})
	}
}
