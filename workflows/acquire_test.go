package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// acquiring has a task that waits for an executor that never comes: the records let
// it wait once more, and then fail it.
func acquiring() []scenario {
	plan := newPlan(node("a"), on(node("handler", 0), run.MaskFailure), node("after", 0))
	plan.Pools = append(plan.Pools, "nowhere")
	plan.Nodes[0].Pool = 1
	plan.Nodes[0].Retry = run.Retry{MaxAttempts: 3}
	return []scenario{{
		name: "acquire-timeout", plan: plan,
		before: func(g *scenarioRun) { g.acquire, g.extended = 5*time.Second, map[int]int{0: 1} },
		drive: func(g *scenarioRun) {
			g.finished(run.ResultFailed, run.StatusFailed, run.StatusSuccess, run.StatusSkipped)
			require.Equal(g.t, 2, g.tasks[0].Dispatch)
		},
	}}
}

// notTaken leaves the task in the queue for as long as it may wait.
func notTaken(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
}

func TestAcquireTimeout(t *testing.T) {
	t.Parallel()
	a := node("a")
	a.Retry.MaxAttempts = 3
	plan := newPlan(a, on(node("rescue", 0), run.MaskFailure), node("after", 0))
	for name, width := range map[string]int{"inline": 0, "in batches": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, plan)
			if width > 0 {
				w = inBatches(t, width, plan)
			}
			w.acquire, w.extended[0] = time.Minute, 1
			w.on("a", notTaken, notTaken)
			require.Equal(t, run.ResultFailed, w.run().Result)
			require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSkipped}, w.statuses())
			require.Equal(t, []change{
				{0, 1, 1, run.StatusQueued, ""}, {0, 1, 2, run.StatusQueued, "no instance took it within 1m"}, {0, 1, 2, run.StatusFailed, "no instance"},
			}, w.writes(0))
		})
	}
}

// A workflow that was reset may have queued the task again although an executor holds
// an earlier dispatch: that executor is asked.
func TestAcquireTimeout_of_a_claimed_task(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.acquire = time.Minute
	w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.setClaim(key, "host-1")
		return notTaken(w, key)
	}, answer(run.StatusSuccess, "", ""))
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-1"}, w.requests())
}
