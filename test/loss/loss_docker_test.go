//go:build linux

package loss

import (
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestLoss_docker_restarted restarts the Docker daemon while an executor's tasks
// run. Tasks continue if their containers do; otherwise they fail with the reason.
// The executor takes queued tasks once the daemon is back.
func TestLoss_docker_restarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  []string
		status api.Status
	}{
		"containers continue": {[]string{"--live-restore"}, api.StatusSuccess},
		"containers end":      {nil, api.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			daemon := testenv.NewDaemon(t, c.flags...)
			image := testenv.BusyboxImage(t, daemon.Client())
			parts := harness.StartPartsWithout(t, "1")
			harness.NewMember(t, parts, "host", "DROVER_EXECUTOR__DOCKER__HOST="+daemon.Host(), "DROVER_EXECUTOR__DOCKER__NETWORK=none",
				"DROVER_EXECUTOR__DRIVER=docker", "DROVER_EXECUTOR__POOL=containers", "DROVER_EXECUTOR__SLOTS=2")
			parts.AwaitExecutor("online")
			spec := "name: restarted\ngroup: /test/docker\ntasks:\n  a: {pool: containers, image: '" + image + "', steps: [{run: 'echo begin; until [ -e /continue ]; do sleep 0.1; done; echo end'}]}\n" +
				"  b: {pool: containers, image: '" + image + "', depends: [{task: a, on: [success, failure]}], steps: [{run: echo next}]}\n"
			id := parts.Submit(spec).ID
			parts.Await(id, func(r api.Run) bool { return parts.Logs(r.ID, "a") == "begin\n" })
			daemon.Stop()
			daemon.Start()
			if c.status == api.StatusSuccess {
				release(t, daemon.Client())
			}
			r := parts.AwaitPhase(id, "finished")
			require.Equal(t, c.status, r.Tasks["a"].Status, r.Tasks["a"].Reason)
			require.Equal(t, 1, r.Tasks["a"].Attempt)
			if c.status == api.StatusSuccess {
				parts.AwaitLogs(id, "a", "begin\nend\n")
			} else {
				require.Contains(t, r.Tasks["a"].Reason, "daemon was restarted")
				parts.AwaitLogs(id, "a", "begin\n"+r.Tasks["a"].Reason+"\n")
			}
			require.Equal(t, api.StatusSuccess, r.Tasks["b"].Status, r.Tasks["b"].Reason)
		})
	}
}

// release creates the file that the step in the daemon's container waits for.
func release(t *testing.T, cli *client.Client) {
	t.Helper()
	running, err := cli.ContainerList(t.Context(), container.ListOptions{})
	require.NoError(t, err)
	require.Len(t, running, 1)
	touch, err := cli.ContainerExecCreate(t.Context(), running[0].ID, container.ExecOptions{User: "0", Cmd: []string{"touch", "/continue"}})
	require.NoError(t, err)
	require.NoError(t, cli.ContainerExecStart(t.Context(), touch.ID, container.ExecStartOptions{Detach: true}))
}
