package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// loseContactBeforeClaim loses contact with an executor before it claimed the task.
func loseContactBeforeClaim(executor string) behaviour {
	return func(_ *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		return contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError(contract.Heartbeat{Executor: executor, JournalID: "j", Key: key.String()})
	}
}

// The removal of an executor ends the deliveries that Temporal still awaits
// from it, and no delivery of other executors.
func TestExecutor_removed_before_its_heartbeat_times_out(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(wide("a", 4)))
	w.on("a[I=0]", holdOn("host-7"))
	w.on("a[I=1]", holdOn("host-8"))
	w.on("a[I=2]", leaveQueued)
	w.signal(time.Second, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7", Reason: "it burnt"})
	w.at(2*time.Second, func() {
		require.Equal(t, []run.Status{run.StatusFailed, run.StatusRunning, run.StatusQueued, run.StatusSuccess}, w.statuses())
		require.Equal(t, "executor host-7 was removed while it had the task: it burnt", w.tasks[0].Reason)
		w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
		w.complete(2, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, w.statuses())
}

// A late answer of a removed executor is ignored.
func TestExecutor_removed_answers_late(t *testing.T) {
	t.Parallel()
	n := retrying("a", run.Retry{MaxAttempts: 2})
	n.OnLost = run.OnLostRetry
	w := newWorkflowEnv(t, newPlan(n))
	w.on("a", holdOn("host-7"), holdOn("host-8"))
	w.signal(time.Second, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	w.at(2*time.Second, func() {
		_ = w.env.CompleteActivity(w.tokens[run.Key{Run: runID, Attempt: 1, Dispatch: 1}], ended(run.StatusSuccess, "", ""), nil)
	})
	w.at(3*time.Second, func() {
		require.Equal(t, []run.Status{run.StatusRunning}, w.statuses())
		w.complete(0, 2, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil)
	})
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "execute a 2.1 on pool:linux"}, w.requests())
}

// A removal also ends a stop in progress. (The scenarios have a case whose
// heartbeats had not timed out.)
func TestExecutor_removed_while_stopping(t *testing.T) {
	t.Parallel()
	n := retrying("a", run.Retry{MaxAttempts: 2})
	n.OnLost = run.OnLostRetry
	w := newWorkflowEnv(t, newPlan(n))
	w.on("a", loseContact("host-7"))
	w.onAdopt("a", hold)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.signal(time.Hour, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	out := w.run()
	require.Equal(t, run.PhaseFinished, out.Phase)
	require.Equal(t, []run.Status{run.StatusFailed}, w.statuses(), "there is no other attempt")
}

// If an executor was removed before the records listed the run as waiting for
// it, no signal reports the removal, so the run asks the records.
func TestExecutor_removed_before_it_was_awaited(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", loseContact("host-7"))
	w.onAdopt("a", leaveQueued)
	w.lost = map[string]string{"host-7": "it burnt"}
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, "executor host-7 was removed while it had the task: it burnt", w.tasks[0].Reason)
	require.Equal(t, "host-7", w.waitsFor[0], "and the records know from then on")
}

// A task that a removed executor had not claimed has not begun, and the
// executor can no longer claim it.
func TestExecutor_removed_before_it_claimed(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", loseContactBeforeClaim("host-7"), succeed)
	w.onAdopt("a", leaveQueued)
	w.signal(time.Hour, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7", "execute a 1.2 on pool:linux"}, w.requests())
}

// Another executor may have claimed a task that Temporal delivered twice.
func TestExecutor_removed_that_another_claimed(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, "host-8")
		return loseContactBeforeClaim("host-7")(w, key)
	})
	w.onAdopt("a", leaveQueued, answer(run.StatusSuccess, "", ""))
	w.signal(time.Hour, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7", "adopt a 1.1 on executor:host-8",
	}, w.requests())
}

func TestBatches_executor_removed_before_its_heartbeat_times_out(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(wide("a", 3)))
	w.on("a[I=1]", holdOn("host-7"))
	w.signal(time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, "executor host-7 was removed while it had the task", w.tasks[1].Reason)
}
