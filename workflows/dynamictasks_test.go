package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

func foreachNode(name string, depends ...int) run.Node {
	n := node(name, depends...)
	n.Foreach = true
	return n
}

func TestRun_Foreach(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("plan"), foreachNode("a", 0), foreachNode("b", 0), node("join", 1, 2)))
	w.lists[1], w.lists[2] = 3, 2
	out := w.run()
	require.Equal(t, run.ResultSuccess, out.Result)
	require.Len(t, w.statuses(), 9)
	require.NotContains(t, w.statuses(), run.StatusNotStarted)
	requests := w.requests()
	require.ElementsMatch(t, []string{
		"execute a[0] 1.1 on pool:linux", "execute a[1] 1.1 on pool:linux", "execute a[2] 1.1 on pool:linux",
		"execute b[0] 1.1 on pool:linux", "execute b[1] 1.1 on pool:linux",
	}, requests[1:6])
	require.Equal(t, "execute join 1.1 on pool:linux", requests[6])
	require.Equal(t, 2, w.expands)
}

func TestRun_ForeachOfBadList(t *testing.T) {
	t.Parallel()
	handler := node("handler", 1)
	handler.Depends[0].On = run.MaskFailure
	w := newWorkflowEnv(t, newPlan(node("plan"), foreachNode("a", 0), node("join", 1), handler))
	out := w.run()
	require.Equal(t, run.ResultFailed, out.Result)
	require.Equal(t, "task a failed", out.Reason)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusSuccess}, w.statuses())
	require.Equal(t, "the list is null", w.tasks[1].Reason)
}

func TestRun_ForeachOfEmptyList(t *testing.T) {
	t.Parallel()
	handler := node("handler", 1)
	handler.Depends[0].On = run.MaskFailure
	skipped := node("skipped", 1)
	skipped.Depends[0].On = run.MaskSkipped
	w := newWorkflowEnv(t, newPlan(node("plan"), foreachNode("a", 0), node("join", 1), handler, skipped, foreachNode("b", 2)))
	w.lists[1], w.lists[5] = 0, 2
	out := w.run()
	require.Equal(t, run.ResultSuccess, out.Result)
	require.Equal(t, []run.Status{
		run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess,
	}, w.statuses())
	require.Equal(t, "its list has 0 items", w.tasks[1].Reason)
	requests := w.requests()
	require.Equal(t, "execute join 1.1 on pool:linux", requests[1])
	require.ElementsMatch(t, []string{"execute b[0] 1.1 on pool:linux", "execute b[1] 1.1 on pool:linux"}, requests[2:])
}

func TestRun_ForeachOfEmptyListStopped(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(foreachNode("a"), node("join", 0)))
	w.lists[0] = 0
	w.on("join", leaveQueued)
	w.at(time.Second, func() {
		w.fakeRecords.mu.Lock()
		w.stop = true
		w.fakeRecords.mu.Unlock()
		w.env.SignalWorkflow(contract.SignalStop, nil)
	})
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped}, w.statuses())
}

func TestRun_ForeachFails(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(foreachNode("a"), node("join", 0)))
	w.lists[0] = 3
	w.on("a[1]", failStep)
	out := w.run()
	require.Equal(t, "task a[1] failed", out.Reason)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped, run.StatusSuccess, run.StatusFailed, run.StatusSuccess}, w.statuses())
}

func TestRun_ForeachIsApprovedOnce(t *testing.T) {
	t.Parallel()
	list := foreachNode("a")
	list.Approvers = 1
	w := newWorkflowEnv(t, newPlan(list))
	w.lists[0] = 2
	w.signal(time.Second, contract.SignalApprove, contract.Approve{Task: 0})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, w.statuses())
}

func TestRun_ForeachInAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("plan"), foreachNode("a", 0)))
	w.lists[1] = 2
	w.on("plan", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		out, err := succeed(w, key)
		w.fakeRecords.mu.Lock()
		w.failures = 30
		w.fakeRecords.mu.Unlock()
		return out, err
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.statuses(), 4)
}

func TestRun_ForeachStopped(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(foreachNode("a"), node("join", 0)))
	w.lists[0] = 3
	w.on("a[1]", leaveQueued)
	w.at(time.Second, func() {
		w.fakeRecords.mu.Lock()
		w.stop = true
		w.fakeRecords.mu.Unlock()
		w.env.SignalWorkflow(contract.SignalStop, nil)
	})
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSkipped, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess}, w.statuses())
}
