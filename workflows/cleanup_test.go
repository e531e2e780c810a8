package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// TestForceStop stops a run whose tasks take long to clean up. The workflow waits for
// them, and a stop by force reaches their executors at once, also if those have
// acknowledged the first stop long ago.
func TestForceStop(t *testing.T) {
	t.Parallel()
	const plain, forced = "0.1.1 on executor:host-7", "0.1.1 on executor:host-7 by force"
	end := func(w *workflowEnv) { w.complete(0, 1, 1, ended(run.StatusStopped, "", "stopped"), nil) }
	t.Run("after_a_stop", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0)))
		w.on("a", loseContact("host-7"))
		w.onAdopt("a", hold)
		w.signal(time.Minute, contract.SignalStop, nil)
		w.at(time.Hour, func() {
			require.Equal(t, run.PhaseRunning, w.phase, "the run waits for the cleanup")
			require.Contains(t, w.stops, plain)
			require.NotContains(t, w.stops, forced, "a repeated request is not forced")
		})
		w.signal(time.Hour, contract.SignalForceStop, nil)
		w.at(time.Hour+10*time.Second, func() {
			require.Contains(t, w.stops, forced)
			end(w)
		})
		require.Equal(t, run.ResultStopped, w.run().Result)
		require.Equal(t, []run.Status{run.StatusStopped, run.StatusSkipped}, w.statuses())
	})
	t.Run("at_once", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a")))
		w.on("a", loseContact("host-7"))
		w.onAdopt("a", hold)
		w.signal(time.Minute, contract.SignalForceStop, nil)
		w.at(2*time.Minute, func() {
			require.Contains(t, w.stops, forced)
			require.NotContains(t, w.stops, plain)
			end(w)
		})
		require.Equal(t, run.ResultStopped, w.run().Result)
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a")))
		w.on("a", loseContact("host-7"))
		w.onAdopt("a", hold)
		w.signal(time.Minute, contract.SignalForceStop, nil)
		w.signal(2*time.Minute, contract.SignalForceStop, nil)
		w.signal(3*time.Minute, contract.SignalStop, nil)
		w.at(time.Hour, func() {
			require.NotContains(t, w.stops, plain)
			require.Less(t, len(w.stops), 20, "an acknowledged stop is repeated rarely")
			end(w)
		})
		require.Equal(t, run.ResultStopped, w.run().Result)
	})
}
