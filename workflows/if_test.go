package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

func conditional(n run.Node, approvers int) run.Node {
	n.If, n.Approvers = true, approvers
	return n
}

// withConditions sets the answers of the records to the conditions of tasks.
func withConditions(w *workflowEnv, answers map[int][]run.Status) *workflowEnv {
	w.fakeRecords.mu.Lock()
	defer w.fakeRecords.mu.Unlock()
	w.conditions = answers
	return w
}

func TestRun_IfIsFalse(t *testing.T) {
	t.Parallel()
	instead := node("instead", 1)
	instead.Depends[0].On = run.MaskSkipped
	w := withConditions(newWorkflowEnv(t, newPlan(node("a"), conditional(node("b", 0), 0), node("c", 1), instead)), map[int][]run.Status{1: {run.StatusSkipped}})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess}, w.statuses())
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "execute instead 1.1 on pool:linux"}, w.requests())
}

func TestRun_IfFails(t *testing.T) {
	t.Parallel()
	n := conditional(node("a"), 0)
	n.Retry = run.Retry{MaxAttempts: 3}
	w := withConditions(newWorkflowEnv(t, newPlan(n, node("b", 0))), map[int][]run.Status{0: {run.StatusFailed}})
	out := w.run()
	require.Equal(t, run.ResultFailed, out.Result)
	require.Equal(t, "task a failed", out.Reason)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSkipped}, w.statuses())
	require.Empty(t, w.requests())
}

func TestRun_IfWaitsForOutputs(t *testing.T) {
	t.Parallel()
	later := []run.Status{run.StatusNotStarted, run.StatusNotStarted, run.StatusNotStarted}
	w := withConditions(newWorkflowEnv(t, newPlan(conditional(node("a"), 0), conditional(node("b"), 0))),
		map[int][]run.Status{0: later, 1: append(later[:2:2], run.StatusSkipped)})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped}, w.statuses())
	require.Equal(t, []string{"execute a 1.1 on pool:linux"}, w.requests())
}

func TestRun_IfIsStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	never := make([]run.Status, 1000)
	for i := range never {
		never[i] = run.StatusNotStarted
	}
	w := withConditions(newWorkflowEnv(t, newPlan(conditional(node("a"), 0), conditional(node("b"), 1))), map[int][]run.Status{0: never, 1: never})
	w.at(10*time.Second, func() {
		w.fakeRecords.mu.Lock()
		w.stop = true
		w.fakeRecords.mu.Unlock()
		w.env.SignalWorkflow(contract.SignalStop, nil)
	})
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped}, w.statuses())
	require.Empty(t, w.requests())
}

func TestRun_IfBeforeApproval(t *testing.T) {
	t.Parallel()
	w := withConditions(newWorkflowEnv(t, newPlan(conditional(node("a"), 1), conditional(node("b"), 1), conditional(node("c"), 1), node("d", 1))),
		map[int][]run.Status{0: {""}, 1: {run.StatusNotStarted, run.StatusSkipped}, 2: {run.StatusFailed}})
	w.signal(5*time.Second, contract.SignalApprove, contract.Approve{Task: 0})
	out := w.run()
	require.Equal(t, "task c failed", out.Reason)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped, run.StatusFailed, run.StatusSkipped}, w.statuses())
	require.Equal(t, []string{"execute a 1.1 on pool:linux"}, w.requests())
}

func TestRun_IfOfForeach(t *testing.T) {
	t.Parallel()
	list := foreachNode("a")
	list.If = true
	w := withConditions(newWorkflowEnv(t, newPlan(list, node("b", 0))), map[int][]run.Status{0: {run.StatusSkipped}})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped}, w.statuses())
	require.Empty(t, w.requests())
}

// TestRun_IfInBatches checks that batches report what the records decided.
func TestRun_IfInBatches(t *testing.T) {
	t.Parallel()
	const tasks = 20
	nodes, answers := make([]run.Node, tasks), map[int][]run.Status{}
	for i := range nodes {
		nodes[i] = conditional(node("n"+string(rune('a'+i))), 0)
		if i%2 == 1 {
			answers[i] = []run.Status{run.StatusSkipped}
		}
	}
	w := withConditions(inBatches(t, 5, newPlan(nodes...)), answers)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), tasks/2)
}
