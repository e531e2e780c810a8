package workflows_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// stopRunning are runs whose first failure stops running tasks, and runs whose retry
// policies have conditions.
func stopRunning() []scenario {
	small := &contract.Limits{InlineTasks: 2, BatchTasks: 5}
	plan := newPlan(node("a"), node("queued"), node("running"), on(node("handler", 0), run.MaskFailure), node("later", 2),
		retrying("deaf", run.Retry{MaxAttempts: 3}))
	plan.FailFast, plan.StopRunning = true, true
	plan.Pools = append(plan.Pools, "nowhere")
	plan.Nodes[1].Pool = 1
	wideOnes := newPlan(node("a"), wide("b", 8))
	wideOnes.FailFast, wideOnes.StopRunning = true, true
	var fail, failBatch atomic.Bool
	outOfMemory := func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		f.claim(ctx, in, "host-1")
		return ended(run.StatusFailed, run.CauseOOM, "step 1 ran out of memory"), nil
	}
	exits := func(code int) executorAction {
		return func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
			out, err := doFail(ctx, f, in)
			out.Ended.ExitCode = &code
			return out, err
		}
	}
	return []scenario{
		{
			name: "fail-fast-stop", plan: plan,
			actions: map[string][]executorAction{
				"execute a": {doUntilFailure(&fail)}, "execute running": {doUntil(false, never)}, "execute deaf": {doUntil(true, never)},
			},
			drive: func(g *scenarioRun) {
				g.awaitStatus(1, run.StatusQueued)
				g.awaitStatus(2, run.StatusRunning)
				g.awaitStatus(5, run.StatusRunning)
				fail.Store(true)
				g.finished(run.ResultFailed, run.StatusFailed, run.StatusSkipped, run.StatusStopped, run.StatusSuccess, run.StatusSkipped, run.StatusStopped)
				require.Equal(g.t, "fail_fast is set and a task has failed", g.tasks[2].Reason)
			},
		},
		{
			name: "batches-fail-fast-stop", limits: small, batches: 2, plan: wideOnes,
			actions: map[string][]executorAction{
				"execute a": {doUntilFailure(&failBatch)}, "execute b[I=1]": {doUntil(false, never)}, "execute b[I=6]": {doUntil(true, never)},
			},
			drive: func(g *scenarioRun) {
				g.awaitStatus(2, run.StatusRunning)
				g.awaitStatus(7, run.StatusRunning)
				failBatch.Store(true)
				g.finished(run.ResultFailed)
				require.Equal(g.t, run.StatusStopped, g.tasks[2].Status)
				require.Equal(g.t, run.StatusStopped, g.tasks[7].Status)
			},
		},
		{
			name: "retry-conditions",
			plan: newPlan(
				retrying("oom", run.Retry{MaxAttempts: 3, On: []run.RetryOn{run.RetryOOM}}), retrying("step", run.Retry{MaxAttempts: 3, On: []run.RetryOn{run.RetryOOM}}),
				retrying("code", run.Retry{MaxAttempts: 2, ExitCodes: []int{75}, Backoff: run.Duration(100 * time.Millisecond), BackoffJitter: 1}),
				retrying("other", run.Retry{MaxAttempts: 2, ExitCodes: []int{75}}),
			),
			actions: map[string][]executorAction{
				"execute oom": {outOfMemory, doSucceed}, "execute step": {doFail, doSucceed}, "execute code": {exits(75), doSucceed}, "execute other": {exits(1), doSucceed},
			},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusSuccess, run.StatusFailed, run.StatusSuccess, run.StatusFailed)
			},
		},
	}
}

// TestFailFast_of_an_older_worker: a control worker that did not stop running tasks
// decided something in this execution, so they continue.
func TestFailFast_of_an_older_worker(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), node("running"), node("queued"))
	plan.FailFast, plan.StopRunning = true, true
	w := newWorkflowEnv(t, plan)
	w.env.OnGetVersion("fail-fast-stops-running", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	w.on("a", hold)
	w.on("running", hold)
	w.on("queued", leaveQueued)
	w.at(time.Minute, func() { w.complete(0, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil) })
	w.at(2*time.Minute, func() { w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil) })
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSkipped}, w.statuses())
}

func TestRetry_conditions_of_an_older_worker(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 2, ExitCodes: []int{75}}), retrying("b", run.Retry{MaxAttempts: 2, On: []run.RetryOn{run.RetryOOM}})))
	w.env.OnGetVersion("retry-conditions", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	w.on("a", failStep)
	w.on("b", answer(run.StatusFailed, run.CauseOOM, ""))
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []int{2, 1}, []int{w.tasks[0].Attempt, w.tasks[1].Attempt})
}
