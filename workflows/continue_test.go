package workflows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// continued returns the input with which the workflow continues as new.
func (w *workflowEnv) continued() contract.RunInput {
	w.t.Helper()
	require.True(w.t, w.env.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.t, w.env.GetWorkflowError(), &next, "ended with %v", w.env.GetWorkflowError())
	require.Equal(w.t, contract.RunWorkflow, next.WorkflowType.Name)
	var in contract.RunInput
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	return in
}

// A run with open batches continues as new, and its next execution receives
// their reports.
func TestContinueAsNew_with_open_batches(t *testing.T) {
	t.Parallel()
	p := newPlan(wide("a", 3), node("b", 0))
	p.Timeout = run.Duration(3 * time.Hour)
	w := inBatches(t, 2, p)
	w.on("a[I=1]", hold)
	w.on("a[I=2]", leaveQueued)
	w.signal(time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-3"})
	w.signal(time.Hour, contract.SignalForceContinue, nil)
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	in := w.continued()
	require.Equal(t, runID, in.Run)
	require.Equal(t, w.limits, in.Limits)
	require.Equal(t, 2, in.State.LastBatch)
	require.Equal(t, []contract.OpenBatch{{Batch: 1, Assigned: 2, Tasks: []int{1}}, {Batch: 2, Assigned: 1, Tasks: []int{2}}}, in.State.Batches)
	require.Equal(t, []contract.ExecutorRemoved{{Executor: "host-3"}}, in.State.Removed)
	require.Equal(t, 1, in.State.Continued)

	next := adopted(t, w)
	next.env.SetStartTime(in.State.Started.Add(2 * time.Hour))
	next.signal(time.Minute, contract.SignalBatchReport, contract.BatchReport{Batch: 1, Ended: []contract.TaskEnd{{Task: 0, Status: run.StatusSuccess}, {Task: 1, Status: run.StatusSuccess}}})
	next.signal(2*time.Minute, contract.SignalBatchReport, contract.BatchReport{Batch: 1, Ended: []contract.TaskEnd{{Task: 1, Status: run.StatusFailed}}})
	next.signal(3*time.Minute, contract.SignalBatchReport, contract.BatchReport{Batch: 2, Ended: []contract.TaskEnd{{Task: 2, Status: run.StatusSuccess}}})
	next.env.OnSignalExternalWorkflow(anything, contract.BatchWorkflowID(runID, 2), "", contract.SignalBatchAddTasks, anything).Return(errWorkflowNotFound())
	next.finishTask(1, run.StatusSuccess)
	next.finishTask(2, run.StatusSuccess)
	next.env.ExecuteWorkflow(contract.RunWorkflow, in)
	next.output()
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, next.statuses())
	require.Equal(t, []string{"execute b 1.1 on pool:linux"}, next.requests(), "the batch that was open is gone, so a new one runs b")
}

// The timeout counts from the start of the run, not of the execution.
func TestContinueAsNew_keeps_the_timeout(t *testing.T) {
	t.Parallel()
	p := newPlan(wide("a", 3))
	p.Timeout = run.Duration(3 * time.Hour)
	w := inBatches(t, 10, p)
	w.on("a[I=0]", leaveQueued)
	w.on("a[I=1]", leaveQueued)
	w.on("a[I=2]", leaveQueued)
	w.signal(2*time.Hour, contract.SignalForceContinue, nil)
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	in := w.continued()

	next := adopted(t, w)
	begin := in.State.Started.Add(2 * time.Hour)
	next.env.SetStartTime(begin)
	next.env.OnSignalExternalWorkflow(anything, contract.BatchWorkflowID(runID, 1), "", contract.SignalBatchAddTasks, anything).Return(nil)
	var stops []contract.Stop
	next.env.OnSignalExternalWorkflow(anything, contract.BatchWorkflowID(runID, 1), "", contract.SignalBatchStop, anything).
		Return(func(_, _, _, _ string, payload any) error {
			stops = append(stops, payload.(contract.Stop))
			return nil
		})
	next.at(61*time.Minute, func() {
		for i := range 3 {
			next.finishTask(i, run.StatusSkipped)
		}
		next.env.SignalWorkflow(contract.SignalBatchReport, contract.BatchReport{Batch: 1, Ended: []contract.TaskEnd{
			{Task: 0, Status: run.StatusSkipped}, {Task: 1, Status: run.StatusSkipped}, {Task: 2, Status: run.StatusSkipped},
		}})
	})
	next.env.ExecuteWorkflow(contract.RunWorkflow, in)
	next.output()
	require.Equal(t, []contract.Stop{{Reason: "run timed out after 3h", TimedOut: true}}, stops)
	require.Equal(t, run.ResultFailed, next.result)
}

// A terminated batch is noticed, also by an execution that did not start it,
// and its tasks continue.
func TestContinueAsNew_finds_a_lost_batch(t *testing.T) {
	t.Parallel()
	p := newPlan(wide("a", 3))
	w := inBatches(t, 10, p)
	w.on("a[I=0]", hold)
	w.on("a[I=1]", leaveQueued)
	w.signal(time.Hour, contract.SignalForceContinue, nil)
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	in := w.continued()

	next := adopted(t, w)
	next.env.OnSignalExternalWorkflow(anything, contract.BatchWorkflowID(runID, 1), "", contract.SignalBatchAddTasks, anything).Return(errWorkflowNotFound())
	next.onAdopt("a[I=0]", answer(run.StatusSuccess, "", ""))
	next.env.ExecuteWorkflow(contract.RunWorkflow, in)
	next.output()
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, next.statuses())
	require.ElementsMatch(t, []string{"adopt a[I=0] 1.1 on executor:host-1", "execute a[I=1] 1.2 on pool:linux"}, next.requests())
}

// A small run whose history is long hands new tasks to a batch, and continues
// as new once it runs no task itself.
func TestLongHistory_of_a_small_run(t *testing.T) {
	t.Parallel()
	p := newPlan(node("a"), retrying("b", run.Retry{MaxAttempts: 3, Backoff: run.Duration(time.Hour)}), node("c", 1))
	w := newWorkflowEnv(t, p)
	w.on("a", hold)
	w.on("b", failStep, succeed)
	w.on("c", leaveQueued)
	w.at(time.Minute, func() { w.env.SetCurrentHistoryLength(5_000) })
	w.at(2*time.Hour, func() {
		require.Equal(t, run.StatusQueued, w.statuses()[2])
		w.complete(0, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID})
	asked := w.requests()
	slices.Sort(asked[:2]) // they are scheduled at the same moment
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "execute b 1.1 on pool:linux", "execute b 2.1 on pool:linux", "execute c 1.1 on pool:linux"}, asked)
	in := w.continued()
	require.Len(t, in.State.Batches, 1)
	require.Equal(t, []int{2}, in.State.Batches[0].Tasks)
}

// A batch whose history is long returns the tasks that it would start again.
func TestLongHistory_of_a_batch(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 3, Backoff: run.Duration(time.Minute)})))
	w.phase = run.PhaseRunning
	w.on("a", failStep)
	w.env.SetStartWorkflowOptions(startOptions(contract.BatchWorkflowID(runID, 1)))
	var reports []contract.BatchReport
	w.env.OnSignalExternalWorkflow(anything, contract.RunWorkflowID(runID), "", contract.SignalBatchReport, anything).
		Return(func(_, _, _, _ string, payload any) error {
			reports = append(reports, payload.(contract.BatchReport))
			return nil
		})
	w.at(time.Second, func() { w.env.SetCurrentHistoryLength(5_000) })
	w.env.ExecuteWorkflow(contract.BatchWorkflow, contract.BatchInput{Run: runID, Batch: 1, Tasks: []contract.Assignment{
		{Task: 0, Name: "a", Pool: "linux", Retry: run.Retry{MaxAttempts: 3, Backoff: run.Duration(time.Minute)}},
	}})
	require.NoError(t, w.env.GetWorkflowError())
	require.Len(t, reports, 1)
	require.Len(t, reports[0].Returned, 1)
	back := reports[0].Returned[0]
	require.Equal(t, 3, back.Attempt)
	require.Equal(t, time.Minute, back.Wait.Std())
	require.Equal(t, "step 1 exited with code 3", back.Last.Reason)
}

// adopted returns an environment with the records of another.
func adopted(t *testing.T, w *workflowEnv) *workflowEnv {
	t.Helper()
	next := newWorkflowEnvWith(t, w.fakeRecords)
	next.limits = w.limits
	return next
}

// finishTask makes a task final in the records.
func (w *workflowEnv) finishTask(task int, s run.Status) {
	w.fakeRecords.mu.Lock()
	defer w.fakeRecords.mu.Unlock()
	w.tasks[task].Status = s
}
