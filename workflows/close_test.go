package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// closeStatus is how a workflow closed, as Temporal's lists show it.
type closeStatus string

const (
	closedCompleted closeStatus = "Completed"
	closedFailed    closeStatus = "Failed"
	closedCanceled  closeStatus = "Canceled"
)

func (w *workflowEnv) closeStatus() closeStatus {
	w.t.Helper()
	err := w.env.GetWorkflowError()
	switch {
	case err == nil:
		return closedCompleted
	case temporal.IsCanceledError(err):
		return closedCanceled
	}
	return closedFailed
}

// TestClose: a workflow closes with the outcome of its run, so that Temporal's
// own lists are right.
func TestClose(t *testing.T) {
	t.Parallel()
	allowed := node("a")
	allowed.AllowFailure = true
	limited := newPlan(node("a"))
	limited.Timeout = run.Duration(time.Hour)
	setPhase := func(p run.Phase, r run.Result) func(w *workflowEnv) {
		return func(w *workflowEnv) { w.phase, w.result = p, r }
	}
	for name, c := range map[string]struct {
		plan   run.Plan
		before func(w *workflowEnv)
		want   closeStatus
		out    contract.RunOutput
	}{
		"success": {newPlan(node("a")), nil, closedCompleted, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultSuccess}},
		"warnings": {
			newPlan(allowed), func(w *workflowEnv) { w.on("a", failStep) }, closedCompleted,
			contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultSuccess, Reason: "with warnings: a failed"},
		},
		"failed": {
			newPlan(node("a")), func(w *workflowEnv) { w.on("a", failStep) }, closedFailed,
			contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "task a failed"},
		},
		"timeout": {
			limited, func(w *workflowEnv) { w.on("a", leaveQueued) }, closedFailed,
			contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "run timed out after 1h"},
		},
		"setup_error": {newPlan(node("a")), setPhase(run.PhaseSetupError, run.ResultUnknown), closedFailed, contract.RunOutput{Phase: run.PhaseSetupError, Result: run.ResultUnknown}},
		"stopped": {
			newPlan(node("a")), func(w *workflowEnv) {
				w.on("a", leaveQueued)
				w.signal(time.Minute, contract.SignalStop, nil)
			}, closedCanceled,
			contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultStopped, Reason: "the run was stopped"},
		},
		"cancelled": {newPlan(node("a")), setPhase(run.PhaseCancelled, run.ResultUnknown), closedCanceled, contract.RunOutput{Phase: run.PhaseCancelled, Result: run.ResultUnknown}},
		// An execution of a run that ended before, after a reset.
		"ended_before_failed":  {newPlan(node("a")), setPhase(run.PhaseFinished, run.ResultFailed), closedFailed, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed}},
		"ended_before_stopped": {newPlan(node("a")), setPhase(run.PhaseFinished, run.ResultStopped), closedCanceled, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultStopped}},
		"ended_before_success": {newPlan(node("a")), setPhase(run.PhaseFinished, run.ResultSuccess), closedCompleted, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultSuccess}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, c.plan)
			if c.before != nil {
				c.before(w)
			}
			require.Equal(t, c.out, w.run())
			require.Equal(t, c.want, w.closeStatus())
		})
	}
}

// TestClose_error: the error of a failed run has a type and the reason, and is
// benign, so that it counts as no failure of the worker.
func TestClose_error(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", failStep)
	w.run()
	var failed *temporal.ApplicationError
	require.ErrorAs(t, w.env.GetWorkflowError(), &failed)
	require.Equal(t, "run_failed", failed.Type())
	require.Equal(t, "task a failed", failed.Message())
	require.True(t, failed.NonRetryable())
	require.Equal(t, temporal.ApplicationErrorCategoryBenign, failed.Category())
}

// TestClose_of_an_older_worker: a history whose end was decided before workflows
// closed with the outcome of their run completes.
func TestClose_of_an_older_worker(t *testing.T) {
	t.Parallel()
	for name, behave := range map[run.Result]behaviour{run.ResultFailed: failStep, run.ResultStopped: answer(run.StatusStopped, "", "")} {
		w := newWorkflowEnv(t, newPlan(node("a")))
		w.env.OnGetVersion("close-with-the-result", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
		w.on("a", behave)
		w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID})
		require.NoError(t, w.env.GetWorkflowError(), name)
		var out contract.RunOutput
		require.NoError(t, w.env.GetWorkflowResult(&out))
		require.Equal(t, name, out.Result)
	}
}

// currentDetails returns the details that Temporal's web UI shows.
func (w *workflowEnv) currentDetails() string {
	w.t.Helper()
	answer, err := w.env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(w.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(w.t, answer.Get(&metadata))
	return metadata.GetCurrentDetails()
}

func TestDetails(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", run.MaxNameLength)
	failing := wide(long, 30)
	w := newWorkflowEnv(t, newPlan(failing, node("later", 0), node("`<b>`")))
	w.plan.Name = "nightly | *test*"
	for _, x := range failing.Axes[0].Values {
		w.on(long+"[I="+x+"]", answer(run.StatusFailed, run.CauseStep, "the password is hunter2"))
	}
	w.on("`<b>`", hold)
	w.at(time.Minute, func() {
		text := w.currentDetails()
		require.Contains(t, text, "Run `nightly | *test*` is running, result **failed**: `task "+long)
		require.Contains(t, text, "| queued or running | 1 |\n")
		require.Contains(t, text, "drover runs explain "+string(runID)+"\n")
		require.NotContains(t, text, "restart")
		w.complete(31, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil)
	})
	w.run()
	text := w.currentDetails()
	require.Less(t, len(text), 8_000)
	for _, part := range []string{
		"is finished, result **failed**", "| status | tasks |\n|---|---:|\n", "| failed | 31 |\n", "| skipped | 1 |\n", " and 11 more\n",
		"```\ndrover runs get " + string(runID) + "\ndrover runs explain " + string(runID) + "\ndrover runs restart " + string(runID) + " --from failed\n```\n",
	} {
		require.Contains(t, text, part)
	}
	require.Equal(t, 21, strings.Count(text, "[I="), "the names of the failed tasks are bounded; the reason names one more")
	require.NotContains(t, text, "hunter2", "reasons of tasks may contain what a step wrote")
}
