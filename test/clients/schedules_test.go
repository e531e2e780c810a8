package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// schedules is a client of the schedules of a `drover dev`.
type schedules struct {
	t   *testing.T
	dev *harness.Client
}

func newSchedules(t *testing.T, dev *harness.Dev) schedules {
	t.Helper()
	return schedules{t: t, dev: harness.NewClient(t, dev.Server, dev.Token)}
}

// stop waits until a run is running, and stops it.
func (s schedules) stop(id string) {
	s.t.Helper()
	s.dev.AwaitPhase(id, api.PhaseRunning)
	s.dev.Post(id + "/stop")
}

func (s schedules) call(method, path, body string, want int) api.Schedule {
	s.t.Helper()
	media := ""
	if body != "" {
		media = "application/yaml"
	}
	var status int
	var answer string
	repeated := false
	testenv.Await(s.t, func() (bool, string) {
		var err error
		status, answer, err = s.dev.Do(s.t.Context(), method, "/api/v1/schedules/"+path, media, body)
		require.NoError(s.t, err)
		late := status == http.StatusServiceUnavailable // Temporal answers too late on a busy machine
		once := method == http.MethodPost && !strings.HasSuffix(path, "/pause") && !strings.HasSuffix(path, "/resume")
		done := !late || once || method == http.MethodDelete // the others can be repeated
		repeated = repeated || !done
		return done, answer
	})
	if repeated && want == http.StatusCreated && status == http.StatusOK {
		want = status // the request before, which was answered too late, created it
	}
	require.Equal(s.t, want, status, answer)
	var x api.Schedule
	if want < 300 && want != http.StatusNoContent {
		require.NoError(s.t, json.Unmarshal([]byte(answer), &x))
	}
	return x
}

// put creates a schedule of runs with one step.
func (s schedules) put(name, script, times string) {
	s.t.Helper()
	s.call(http.MethodPut, name, fmt.Sprintf(`
spec:
  name: scheduled
  group: /test/%s
  tasks: {a: {steps: [{run: %q}]}}
%s
`, name, script, times), http.StatusCreated)
}

func (s schedules) act(name, verb, body string) {
	s.t.Helper()
	s.call(http.MethodPost, name+"/"+verb, body, http.StatusOK)
}

// await waits until the condition is true of the schedule, and returns it.
func (s schedules) await(name string, want func(api.Schedule) bool) api.Schedule {
	s.t.Helper()
	var x api.Schedule
	testenv.Await(s.t, func() (bool, string) {
		x = s.call(http.MethodGet, name, "", http.StatusOK)
		return want(x), fmt.Sprintf("paused %v (%s), fired %d, skipped %d, recent %+v", x.Paused, x.Note, x.Fired, x.OverlapSkipped, x.Recent)
	})
	return x
}

// ended returns a condition for await: the schedule has at least n recent
// firings, and all their runs have finished.
func ended(n int) func(api.Schedule) bool {
	return func(x api.Schedule) bool {
		for _, f := range x.Recent {
			if f.Phase != api.PhaseFinished {
				return false
			}
		}
		return len(x.Recent) >= n
	}
}

// TestSchedules checks schedules against the scheduler of an embedded Temporal
// server.
func TestSchedules(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=20"}, "--executor", "shell")
	const never = "cron: ['@daily']\nstart_at: 2099-01-01T00:00:00Z"
	for name, scenario := range map[string]func(t *testing.T, s schedules){
		"an_interval_fires": func(t *testing.T, s schedules) {
			// On a busy machine a run may last longer than the interval. The default overlap
			// policy then skips firings, so that the runs do not make it busier still.
			s.put("interval", "true", "intervals: [{every: 1s}]")
			x := s.await("interval", ended(2))
			require.NotEmpty(t, x.Next)
			first, second := x.Recent[1], x.Recent[0]
			require.Positive(t, second.For.Sub(first.For), "each scheduled time fires once")
			require.Zero(t, second.For.Sub(first.For)%time.Second)
			require.NotEqual(t, first.Run, second.Run)
			r := s.dev.Get(second.Run)
			require.Equal(t, api.ResultSuccess, r.Result)
			require.Equal(t, "interval", r.Annotations["drover.schedule"])
			require.Equal(t, second.For.Format(time.RFC3339), r.Annotations["drover.scheduled_for"])
			s.act("interval", "pause", "{note: enough}")
			x = s.await("interval", func(x api.Schedule) bool { return x.Paused })
			require.Equal(t, "enough", x.Note)
			require.Empty(t, x.Next)
			resumed := time.Now()
			s.act("interval", "resume", "")
			// Temporal lists the last firings only, so their number tells nothing.
			s.await("interval", func(x api.Schedule) bool { return !x.Paused && x.Recent[0].For.After(resumed) })
			s.call(http.MethodDelete, "interval", "", http.StatusNoContent)
			s.call(http.MethodGet, "interval", "", http.StatusNotFound)
			s.call(http.MethodPost, "interval/trigger", "", http.StatusNotFound)
		},
		"pause_stops_firings": func(t *testing.T, s schedules) {
			s.put("paused", "true", "intervals: [{every: 1s}]\npaused: true\nnote: not yet")
			s.put("running", "true", "intervals: [{every: 1s}]")
			s.await("running", ended(2))
			x := s.call(http.MethodGet, "paused", "", http.StatusOK)
			require.True(t, x.Paused)
			require.Equal(t, "not yet", x.Note)
			require.Empty(t, x.Recent)
			s.act("running", "pause", "")
			require.Equal(t, "paused by admin", s.await("running", func(x api.Schedule) bool { return x.Paused }).Note)
			// A trigger fires a paused schedule.
			s.act("paused", "trigger", "")
			s.await("paused", ended(1))
		},
		"trigger_fires_now": func(t *testing.T, s schedules) {
			s.put("trigger", "true", never)
			s.act("trigger", "trigger", "")
			x := s.await("trigger", ended(1))
			require.Len(t, x.Recent, 1)
			require.WithinDuration(t, time.Now(), x.Recent[0].At, time.Minute)
		},
		"backfill_fires_for_the_past": func(t *testing.T, s schedules) {
			s.put("backfill", "true", "cron: ['*/10 * * * *']\npaused: true")
			s.act("backfill", "backfill", "{from: 2026-01-01T00:00:00Z, to: 2026-01-01T00:30:00Z, overlap: allow_all}")
			x := s.await("backfill", ended(4))
			var times []string
			for _, f := range x.Recent {
				times = append(times, f.For.Format("15:04"))
			}
			require.ElementsMatch(t, []string{"00:00", "00:10", "00:20", "00:30"}, times)
		},
		"overlap_skip": func(t *testing.T, s schedules) {
			s.put("skip", "sleep 4", "intervals: [{every: 1s}]")
			x := s.await("skip", func(x api.Schedule) bool { return x.OverlapSkipped >= 2 })
			s.act("skip", "pause", "")
			require.Len(t, x.Recent, 1, "one run at a time")
			s.await("skip", ended(1))
		},
		"overlap_buffer_one": func(t *testing.T, s schedules) {
			s.put("buffer", "sleep 2", never+"\noverlap: buffer_one")
			s.act("buffer", "trigger", "")
			s.await("buffer", func(x api.Schedule) bool { return len(x.Recent) == 1 })
			s.act("buffer", "trigger", "")
			x := s.await("buffer", ended(2))
			first, second := s.dev.Get(x.Recent[1].Run), s.dev.Get(x.Recent[0].Run)
			require.False(t, second.CreatedAt.Before(first.EndedAt), "the firing waited for the end of the run before")
		},
		"overlap_cancel_other": func(t *testing.T, s schedules) {
			s.put("cancel", "sleep 100", never+"\noverlap: cancel_other")
			first := s.fire("cancel", 1)
			s.act("cancel", "trigger", "")
			x := s.await("cancel", func(x api.Schedule) bool { return len(x.Recent) == 2 })
			stopped := s.dev.Get(first)
			require.Equal(t, api.ResultStopped, stopped.Result)
			require.False(t, s.dev.Get(x.Recent[0].Run).CreatedAt.Before(stopped.EndedAt), "the firing waited for the end of the run before")
			s.stop(x.Recent[0].Run)
		},
		"overlap_terminate_other": func(_ *testing.T, s schedules) {
			s.put("terminate", "sleep 100", never+"\noverlap: terminate_other")
			first := s.fire("terminate", 1)
			s.act("terminate", "trigger", "")
			x := s.await("terminate", func(x api.Schedule) bool { return len(x.Recent) == 2 })
			s.dev.AwaitPhase(first, api.PhaseFinished)
			s.stop(x.Recent[0].Run)
		},
		"overlap_allow_all": func(_ *testing.T, s schedules) {
			s.put("allow", "sleep 100", never+"\noverlap: allow_all")
			x := s.await("allow", func(x api.Schedule) bool {
				open := 0
				for _, f := range x.Recent {
					if f.Phase == api.PhaseRunning {
						open++
					}
				}
				if len(x.Recent) < 3 { // triggers of the same second are one firing
					s.act("allow", "trigger", "")
				}
				return open >= 3
			})
			s.call(http.MethodDelete, "allow", "", http.StatusNoContent)
			for _, f := range x.Recent {
				s.stop(f.Run)
			}
		},
		"pause_on_failure": func(t *testing.T, s schedules) {
			s.put("failing", "exit 1", "intervals: [{every: 1s}]\npause_on_failure: true")
			x := s.await("failing", func(x api.Schedule) bool { return x.Paused })
			require.Equal(t, api.ResultFailed, x.Recent[0].Result)
			require.Contains(t, x.Note, "failure")
		},
		"a_change_takes_effect": func(t *testing.T, s schedules) {
			s.put("change", "true", never+"\npaused: true\nnote: mine")
			x := s.call(http.MethodPut, "change", `
name: change
spec: {name: changed, group: /test/change, secrets: {A: quiet}, tasks: {b: {steps: [{run: 'test "$A" = quiet'}]}}}
cron: ['@hourly']`, http.StatusOK)
			require.True(t, x.Paused, "omitted fields keep their values")
			require.Equal(t, "mine", x.Note)
			require.Equal(t, []string{"@hourly"}, x.Cron)
			s.call(http.MethodPut, "change", `
spec: {name: again, group: /test/change, tasks: {b: {steps: [{run: 'test "$A" = quiet'}]}}}
cron: ['@hourly']`, http.StatusOK)
			s.act("change", "trigger", "")
			r := s.dev.Get(s.await("change", ended(1)).Recent[0].Run)
			require.Equal(t, "again", r.Name)
			require.Equal(t, api.ResultSuccess, r.Result, "the secrets are kept")
		},
		"faults_are_reported": func(t *testing.T, s schedules) {
			for body, path := range map[string]string{
				"spec: {name: x, group: /a/b, tasks: {a: {steps: [{run: x}]}}}\ncron: [x y]":                                 `"path":"cron[0]"`,
				"spec: {name: x, group: /a/b, tasks: {a: {steps: [{run: x}]}}}\ncron: ['@daily']\ntimezone: Nowhere":         `"path":"timezone"`,
				"spec: {name: x, group: /a/b, tasks: {a: {pool: none, steps: [{run: x}]}}}\ncron: ['@daily']":                `"path":"spec.tasks.a.pool"`,
				"spec: {name: x, group: /a/b, tasks: {a: {steps: []}}}\ncron: ['@daily']":                                    `"path":"spec.tasks.a.steps"`,
				"spec: {name: x, group: /a/b, tasks: {a: {steps: [{run: x}]}}}\nintervals: [{every: 1ms}]\noverlap: perhaps": `"path":"overlap"`,
			} {
				status, answer, err := s.dev.Do(t.Context(), http.MethodPut, "/api/v1/schedules/wrong", "application/yaml", body)
				require.NoError(t, err)
				require.Equal(t, http.StatusUnprocessableEntity, status, body)
				require.Contains(t, answer, path)
			}
			s.call(http.MethodGet, "wrong", "", http.StatusNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, newSchedules(t, dev))
		})
	}
}

// fire triggers a schedule and returns its n-th run once that is running.
func (s schedules) fire(name string, n int) string {
	s.t.Helper()
	s.act(name, "trigger", "")
	x := s.await(name, func(x api.Schedule) bool { return len(x.Recent) == n && x.Recent[0].Phase == api.PhaseRunning })
	return x.Recent[0].Run
}

// TestSchedules_survive_a_kill kills all of Drover. The schedule continues to
// fire, and the firing that the kill interrupted still produces its run.
func TestSchedules_survive_a_kill(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=20"}, "--executor", "shell")
	s := newSchedules(t, dev)
	s.put("lasting", "sleep 1", "intervals: [{every: 1s}]\noverlap: buffer_one")
	x := s.await("lasting", func(x api.Schedule) bool { return len(x.Recent) >= 2 })
	dev.Kill()
	dev.Restart()
	s = newSchedules(t, dev)
	y := s.await("lasting", func(y api.Schedule) bool { return len(y.Recent) >= 2 && y.Recent[1].For.After(x.Recent[0].For) })
	s.act("lasting", "pause", "")
	seen := map[time.Time]bool{}
	for _, f := range y.Recent {
		require.NotEmpty(t, f.Run)
		require.False(t, seen[f.For], "one run for each time")
		seen[f.For] = true
	}
	s.await("lasting", ended(4))
}
