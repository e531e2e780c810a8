package docker_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/run"
)

// unmarked removes the mark for a lack of memory from what the daemon tells of containers,
// as if it learned of the lack after the end.
type unmarked struct{ http.RoundTripper }

func (u unmarked) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := u.RoundTripper.RoundTrip(request)
	if err != nil || request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/json") {
		return response, err
	}
	text, err := io.ReadAll(response.Body)
	text = bytes.ReplaceAll(text, []byte(`"OOMKilled":true`), []byte(`"OOMKilled":false`))
	err = errors.Join(err, response.Body.Close())
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return response, err
}

// TestDriver_memory_known_late runs a service that needs more memory than it may use, and
// whose end the daemon tells before its cause.
func TestDriver_memory_known_late(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	transport := unmarked{b.cli.HTTPClient().Transport}
	cli, err := client.NewClientWithOpts(client.WithHost(b.cli.DaemonHost()), client.WithHTTPClient(&http.Client{Transport: transport}), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	def := b.definition(t, "true")
	def.Services = []run.ServiceSpec{{
		Name: "hungry", Image: b.image, Command: []string{"sh", "-c", "exec tail /dev/zero"}, Resources: run.Resources{Memory: "64Mi"},
		Health: &run.HealthCheck{Command: []string{"false"}},
	}}
	_, err = b.newDriver(t, docker.Options{Client: cli}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.ErrorContains(t, err, "out of memory: the container was killed at its memory limit")
	b.requireNothingLeft(t)
}

// TestHandle_Events_killed_after_a_lack_of_memory kills a container in which another process
// than its first was killed at the memory limit before.
func TestHandle_Events_killed_after_a_lack_of_memory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "tail /dev/zero || sleep 300")
	def.Resources.Memory = "64Mi"
	h, name := b.start(t, def), "drover-"+def.Key.String()
	lacks, fault := b.cli.Events(t.Context(), events.ListOptions{
		Since:   "0",
		Filters: filters.NewArgs(filters.Arg("container", name), filters.Arg("event", string(events.ActionOOM))),
	})
	select {
	case <-lacks:
	case err := <-fault:
		require.NoError(t, err)
	}
	require.NoError(t, b.cli.ContainerKill(t.Context(), name, "SIGKILL"))
	err := followToError(t, h)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.Equal(t, run.CauseVanished, executor.CauseOf(err), "%v", err)
	require.ErrorContains(t, err, "killed from outside")
}

// TestDriver_memory_runs_out_between_steps: a process that an earlier step left is killed
// while no step of its container runs.
func TestDriver_memory_runs_out_between_steps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const (
		leave   = "(until [ -e go ]; do sleep 0.05; done; tail /dev/zero || touch ended) > /dev/null 2>&1 &"
		provoke = "touch go; until [ -e ended ]; do sleep 0.05; done"
	)
	for name, inHelper := range map[string]map[int]bool{
		"of the task":             {1: true},
		"of the helper container": {0: true, 2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := b.definition(t, leave, provoke, "exit 3")
			def.WorkingDir, def.Resources.Memory = run.SharedWorkingDir, "64Mi"
			for n := range inHelper {
				def.Steps[n].Image = b.image
			}
			r := b.finish(t, def).result
			require.Equal(t, run.CauseStep, r.Cause, r.Reason)
			require.Equal(t, "step 3 exited with code 3; the kernel killed 1 process because memory ran out (limit 64Mi), before step 3", r.Reason)
		})
	}
}
