package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// The SDK's test environment answers a cancellation itself, as the server does
// for tasks that no worker received. Stops of running tasks are tested against
// a server (scenarios_test.go).

func TestStop_skips_unstarted_tasks(t *testing.T) {
	t.Parallel()
	approved := node("approved")
	approved.Approvers = 1
	w := newWorkflowEnv(t, newPlan(node("queued"), node("later", 0), approved,
		retrying("retried", run.Retry{MaxAttempts: 2, Backoff: run.Duration(time.Hour)}), node("given-back")))
	w.on("queued", leaveQueued)
	w.on("retried", failStep)
	w.on("given-back", requeueTask)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.signal(time.Minute, contract.SignalStop, nil)
	begin := w.env.Now()
	out := w.run()
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultStopped, Reason: "the run was stopped"}, out)
	require.Less(t, w.env.Now().Sub(begin), 2*time.Minute)
	require.Equal(t, []run.Status{
		run.StatusSkipped, run.StatusSkipped, run.StatusSkipped, run.StatusStopped, run.StatusSkipped,
	}, w.statuses())
	require.Equal(t, "the run was stopped before attempt 2", w.tasks[3].Reason)
}

func TestStop_by_the_records(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0)))
	w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.fakeRecords.mu.Lock()
		w.stop = true
		w.fakeRecords.mu.Unlock()
		return ended(run.StatusSuccess, "", ""), nil
	})
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped}, w.statuses())
}

func TestStop_after_everything_ended_changes_nothing(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", hold)
	w.at(time.Minute, func() {
		w.complete(0, 1, 1, ended(run.StatusSuccess, "", ""), nil)
		w.env.SignalWorkflow(contract.SignalStop, nil)
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
}

func TestStop_after_a_failure_stays_failed(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b")))
	w.on("a", failStep)
	w.on("b", leaveQueued)
	w.signal(time.Minute, contract.SignalStop, nil)
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSkipped}, w.statuses())
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), node("b", 0))
	plan.Timeout = run.Duration(2 * time.Hour)
	w := newWorkflowEnv(t, plan)
	w.on("a", leaveQueued)
	begin := w.env.Now()
	out := w.run()
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "run timed out after 2h"}, out)
	require.Equal(t, 2*time.Hour, w.env.Now().Sub(begin).Round(time.Minute))
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped}, w.statuses())
}

func TestCancellation_of_the_workflow_stops_the_run(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0)))
	w.on("a", leaveQueued)
	w.at(time.Minute, w.env.CancelWorkflow)
	out := w.run()
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultStopped, Reason: "its workflow was cancelled"}, out)
	require.Equal(t, run.PhaseFinished, w.phase)
}

func TestClosed_from_outside(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b"), node("c", 1)))
	w.on("a", hold)
	w.on("b", leaveQueued)
	w.at(time.Minute, func() {
		w.fakeRecords.mu.Lock()
		w.phase, w.result = run.PhaseFinished, run.ResultFailed
		for _, task := range w.tasks {
			task.Status = run.StatusFailed
		}
		w.fakeRecords.mu.Unlock()
		w.complete(0, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed}, w.run())
}
