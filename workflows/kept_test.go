package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// keeping makes a plan that of a restart. Tasks that are left out of kept run
// again.
func keeping(plan run.Plan, kept map[int]run.Status) run.Plan {
	tasks := 0
	for _, n := range plan.Nodes {
		tasks += n.Width
	}
	plan.Kept = make([]byte, tasks)
	for task, s := range kept {
		plan.Kept[task] = s.Byte()
	}
	return plan
}

func allBut(n int, s run.Status, but ...int) map[int]run.Status {
	kept := map[int]run.Status{}
	for task := range n {
		kept[task] = s
	}
	for _, task := range but {
		delete(kept, task)
	}
	return kept
}

func TestKept_runs_the_rest(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, keeping(newPlan(node("a"), node("b", 0), node("c", 1), node("d")),
		map[int]run.Status{0: run.StatusSuccess, 3: run.StatusSuccess}))
	out := w.run()
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultSuccess}, out)
	require.Equal(t, []string{"execute b 1.1 on pool:linux", "execute c 1.1 on pool:linux"}, w.requests())
	require.Empty(t, w.writes(0))
	require.Empty(t, w.writes(3))
}

func TestKept_failure(t *testing.T) {
	t.Parallel()
	for name, failFast := range map[string]bool{"slow": false, "fail_fast": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := keeping(newPlan(node("a"), node("b"), node("c", 1), node("d", 0), on(node("e", 0), run.MaskFailure)),
				map[int]run.Status{0: run.StatusFailed, 4: run.StatusSuccess})
			plan.FailFast = failFast
			w := newWorkflowEnv(t, plan)
			w.on("b", hold)
			w.at(time.Minute, func() {
				require.Equal(t, run.ResultFailed, w.result, "the result is written immediately")
				w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
			})
			out := w.run()
			require.Equal(t, run.ResultFailed, out.Result)
			require.Equal(t, "task a failed before the run was restarted", out.Reason)
			require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess}, w.statuses())
		})
	}
}

// Fail fast reacts to new failures, also if a kept task had failed.
func TestKept_failure_and_another(t *testing.T) {
	t.Parallel()
	plan := keeping(newPlan(node("a"), node("b"), node("queued"), node("c", 1)), map[int]run.Status{0: run.StatusFailed})
	plan.FailFast = true
	w := newWorkflowEnv(t, plan)
	w.on("b", hold)
	w.on("queued", leaveQueued)
	w.at(time.Minute, func() { w.complete(1, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil) })
	out := w.run()
	require.Equal(t, "task a failed before the run was restarted", out.Reason)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusFailed, run.StatusSkipped, run.StatusSkipped}, w.statuses())
}

func TestKept_failure_that_is_allowed(t *testing.T) {
	t.Parallel()
	allowed := node("a")
	allowed.AllowFailure = true
	plan := keeping(newPlan(allowed, node("b", 0), on(node("c", 0), run.MaskFailure)), map[int]run.Status{0: run.StatusFailed})
	plan.FailFast = true
	w := newWorkflowEnv(t, plan)
	out := w.run()
	require.Equal(t, run.ResultSuccess, out.Result)
	require.Equal(t, "with warnings: a failed", out.Reason)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSkipped}, w.statuses())
}

func TestKept_stopped(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, keeping(newPlan(node("a"), node("b")), map[int]run.Status{0: run.StatusStopped}))
	out := w.run()
	require.Equal(t, run.ResultStopped, out.Result)
	require.Equal(t, "task a was stopped before the run was restarted", out.Reason)
}

// A task that accepts the outcome stopped starts after a task that was stopped.
func TestKept_stopped_is_an_outcome(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), on(node("b", 0), run.MaskSuccess|run.MaskStopped), node("c", 0))
	w := newWorkflowEnv(t, keeping(plan, map[int]run.Status{0: run.StatusStopped}))
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Equal(t, []run.Status{run.StatusStopped, run.StatusSuccess, run.StatusSkipped}, w.statuses())
}

// All tasks are kept: the run has nothing to do and ends.
func TestKept_everything(t *testing.T) {
	t.Parallel()
	skipped := node("c")
	skipped.Skip = true
	w := newWorkflowEnv(t, keeping(newPlan(node("a"), node("b", 0), skipped), map[int]run.Status{0: run.StatusSuccess, 1: run.StatusSuccess}))
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Empty(t, w.requests())
	require.Equal(t, run.StatusSkipped, w.tasks[2].Status)
}

func TestKept_in_batches(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), wide("b", 20, 0), node("c", 1))
	w := inBatches(t, 3, keeping(plan, allBut(22, run.StatusSuccess, 3, 4, 5, 6, 7, 8, 9, 21)))
	w.pageSize = 1
	require.Equal(t, run.ResultSuccess, w.run().Result)
	requests := w.requests()
	require.Len(t, requests, 8)
	require.Equal(t, "execute c 1.1 on pool:linux", requests[7])
}

// A large run with few remaining tasks needs no batches.
func TestKept_needs_no_batches(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 3, keeping(newPlan(wide("a", 20), node("b", 0)), allBut(21, run.StatusSuccess, 4, 20)))
	w.env.SetOnChildWorkflowStartedListener(func(*workflow.Info, workflow.Context, converterArgs) { t.Error("a batch was started") })
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), 2)
}
