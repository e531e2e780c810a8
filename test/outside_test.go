package test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestTerminated_from_outside terminates a run's workflow as an operator can in
// Temporal's own web UI: the run is closed with the reason, and what it
// executed is stopped and removed.
func TestTerminated_from_outside(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	dev := harness.StartDev(t, nil, "--executor", "shell", "--temporal", address)
	id := dev.Submit("name: t\ngroup: /test/outside\ntasks:\n  long: {steps: [{run: sleep 600}]}\n  next: {depends: [long], steps: [{run: 'true'}]}\n").ID
	dev.Await(id, time.Minute, func(r api.Run) bool { return running(r) == 1 })
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.TerminateWorkflow(t.Context(), contract.RunWorkflowID(run.ID(id)), "", "by hand"))

	r := dev.AwaitPhase(id, "finished", time.Minute)
	require.Equal(t, "failed", string(r.Result))
	require.Equal(t, "failed", string(r.Tasks["long"].Status))
	require.Contains(t, r.Tasks["long"].Reason, "terminated")
	require.Equal(t, "skipped", string(r.Tasks["next"].Status))
	testenv.Await(t, 2*time.Minute, func() (bool, string) {
		left, err := filepath.Glob(filepath.Join(dev.Dir, "data", "executors", "shell", "tasks", "*"))
		return err == nil && len(left) == 0, "the environment is still there"
	})
}
