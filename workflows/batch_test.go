package workflows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// inBatches returns an environment in which a run of more than two tasks needs
// batches, of at most size tasks.
func inBatches(t *testing.T, size int, plan run.Plan) *workflowEnv {
	t.Helper()
	w := newWorkflowEnv(t, plan)
	w.limits = &contract.Limits{InlineTasks: 2, BatchTasks: size}
	return w
}

func TestBatches_fan_out_and_in(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(node("a"), wide("b", 100, 0), node("c", 1)))
	out := w.run()
	require.Equal(t, run.ResultSuccess, out.Result)
	require.Equal(t, run.PhaseFinished, w.phase)
	requests := w.requests()
	require.Len(t, requests, 102)
	require.Equal(t, "execute a 1.1 on pool:linux", requests[0])
	require.Equal(t, "execute c 1.1 on pool:linux", requests[101])
}

func TestBatches_chain_joins_the_newest_batch(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(chainOfPairs(15)...))
	var started []string
	w.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converterArgs) {
		started = append(started, info.WorkflowExecution.ID)
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), 30)
	require.Equal(t, []string{contract.BatchWorkflowID(runID, 1), contract.BatchWorkflowID(runID, 2), contract.BatchWorkflowID(runID, 3)}, started)
}

// chainOfPairs is a chain of pairs of tasks.
func chainOfPairs(n int) []run.Node {
	nodes := []run.Node{wide("n0", 2)}
	for i := 1; i < n; i++ {
		nodes = append(nodes, wide(fmt.Sprintf("n%d", i), 2, i-1))
	}
	return nodes
}

// A task for which all others wait needs no batch.
func TestBatches_chain_needs_none(t *testing.T) {
	t.Parallel()
	nodes := []run.Node{node("n0")}
	for i := 1; i < 30; i++ {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), i-1))
	}
	w := inBatches(t, 10, newPlan(nodes...))
	w.env.SetOnChildWorkflowStartedListener(func(*workflow.Info, workflow.Context, converterArgs) { t.Error("a batch was started") })
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), 30)
}

func TestBatches_after_a_pause_longer_than_a_batch_lingers(t *testing.T) {
	t.Parallel()
	approved := node("b", 0)
	approved.Approvers = 1
	w := inBatches(t, 10, newPlan(node("a"), approved, node("c", 1)))
	w.signal(time.Hour, contract.SignalApprove, contract.Approve{Task: 1})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), 3)
}

func TestBatches_stop(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 3, newPlan(wide("a", 8), node("b", 0)))
	for i := range 8 {
		if i > 0 {
			w.on(fmt.Sprintf("a[I=%d]", i), leaveQueued)
		}
	}
	w.signal(time.Minute, contract.SignalStop, nil)
	out := w.run()
	require.Equal(t, run.ResultStopped, out.Result)
	require.Equal(t, run.StatusSuccess, w.tasks[0].Status)
	for i := 1; i < 9; i++ {
		require.Equal(t, run.StatusSkipped, w.tasks[i].Status)
		require.Equal(t, "the run was stopped", w.tasks[i].Reason)
	}
}

func TestBatches_fail_fast(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), wide("b", 4), on(node("c", 0), run.MaskFailure))
	plan.FailFast = true
	w := inBatches(t, 3, plan)
	w.on("a", hold)
	w.on("b[I=0]", hold)
	for i := 1; i < 4; i++ {
		w.on(fmt.Sprintf("b[I=%d]", i), leaveQueued)
	}
	w.at(time.Minute, func() { w.completeIn(1, 0, 1, 1, ended(run.StatusFailed, run.CauseStep, "no")) })
	w.at(2*time.Minute, func() { w.completeIn(1, 1, 1, 1, ended(run.StatusSuccess, "", "")) })
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []run.Status{
		run.StatusFailed, run.StatusSuccess, run.StatusSkipped, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess,
	}, w.statuses())
}

func TestBatches_executor_removed(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(wide("a", 3)))
	w.on("a[I=1]", loseContact("host-7"))
	w.onAdopt("a[I=1]", leaveQueued)
	w.signal(time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, "executor host-7 was removed while it had the task", w.tasks[1].Reason)
}

func TestBatches_retry_inside(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(wide("a", 3), retrying("b", run.Retry{MaxAttempts: 3})))
	w.on("b", failStep, failStep, succeed)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, 3, w.tasks[3].Attempt)
}

func TestBatches_cancellation(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(wide("a", 3)))
	w.on("a[I=1]", leaveQueued)
	w.at(time.Minute, w.env.CancelWorkflow)
	require.Equal(t, run.ResultStopped, w.run().Result)
}

// A batch whose run's workflow is gone stops its tasks.
func TestBatch_without_a_run(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(wide("a", 2)))
	w.on("a[I=1]", leaveQueued)
	w.phase = run.PhaseRunning
	w.env.OnSignalExternalWorkflow(anything, contract.RunWorkflowID(runID), "", contract.SignalBatchReport, anything).Return(errWorkflowNotFound())
	w.env.SetStartWorkflowOptions(startOptions(contract.BatchWorkflowID(runID, 1)))
	var tasks []contract.Assignment
	for i := range 2 {
		tasks = append(tasks, contract.Assignment{Task: i, Name: fmt.Sprintf("a[I=%d]", i), Pool: "linux"})
	}
	w.env.ExecuteWorkflow(contract.BatchWorkflow, contract.BatchInput{Run: runID, Batch: 1, Tasks: tasks})
	require.NoError(t, w.env.GetWorkflowError())
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped}, w.statuses())
	require.Equal(t, "the workflow of its run has ended", w.tasks[1].Reason)
}

// A new batch recovers the tasks of another execution from the records.
func TestBatch_recovers(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(wide("a", 4)))
	w.phase = run.PhaseRunning
	w.env.OnSignalExternalWorkflow(anything, contract.RunWorkflowID(runID), "", contract.SignalBatchReport, anything).Return(nil)
	w.env.SetStartWorkflowOptions(startOptions(contract.BatchWorkflowID(runID, 2)))
	w.onAdopt("a[I=2]", answer(run.StatusSuccess, "", ""))
	w.tasks[1].Status, w.tasks[1].Attempt, w.tasks[1].Dispatch = run.StatusFailed, 1, 1
	w.tasks[2].Status, w.tasks[2].Attempt, w.tasks[2].Dispatch = run.StatusQueued, 2, 3
	require.True(t, w.claim(run.Key{Run: runID, Task: 2, Attempt: 2, Dispatch: 3}, "host-9"))
	w.tasks[3].Status, w.tasks[3].Attempt, w.tasks[3].Dispatch = run.StatusQueued, 1, 4
	var tasks []contract.Assignment
	for i := range 4 {
		tasks = append(tasks, contract.Assignment{Task: i, Name: fmt.Sprintf("a[I=%d]", i), Pool: "linux", Recover: true})
	}
	w.env.ExecuteWorkflow(contract.BatchWorkflow, contract.BatchInput{Run: runID, Batch: 2, Tasks: tasks})
	require.NoError(t, w.env.GetWorkflowError())
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSuccess, run.StatusSuccess}, w.statuses())
	require.ElementsMatch(t, []string{
		"execute a[I=0] 1.1 on pool:linux", "adopt a[I=2] 2.3 on executor:host-9", "execute a[I=3] 1.5 on pool:linux",
	}, w.requests())
}
