package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

func foreach(n *run.Node) { n.Foreach = true }

func TestGraph_AddDynamicTasks(t *testing.T) {
	t.Parallel()
	c := newChart(t).add("plan", nil).add("build", edges{"plan": 0}, foreach, approvers(1)).add("join", edges{"build": 0}).
		add("broken", edges{"build": run.MaskFailure})
	g := c.graph(false)
	g.Next()
	require.True(t, g.Set(0, run.StatusSuccess))
	require.Equal(t, []graph.Decision{{Task: 1, Status: run.StatusWaitingApproval, Reason: "waits for an approval"}}, g.Next())
	require.True(t, g.Approve(1))
	require.Equal(t, []graph.Decision{{Task: 1, Status: run.StatusQueued}}, g.Next())
	require.True(t, g.AwaitsDynamicTasks(1))
	require.False(t, g.AwaitsDynamicTasks(0))

	dynamic := graph.DynamicTasks{Task: 1, First: 4, Width: 2}
	for _, bad := range []graph.DynamicTasks{{Task: 0, First: 4, Width: 2}, {Task: 1, First: 3, Width: 2}, {Task: 1, First: 4}, {Task: 1, First: 4, Width: run.MaxTasks}, {Task: 9, First: 4, Width: 1}} {
		require.Equal(t, run.CodeInvalid, run.CodeOf(g.AddDynamicTasks(bad)))
	}
	require.NoError(t, g.AddDynamicTasks(dynamic))
	require.Error(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 1, First: 6, Width: 2}), "dynamic tasks are added once")
	require.False(t, g.AwaitsDynamicTasks(1))
	require.Equal(t, []string{"plan", "build", "join", "broken", "build[0]", "build[1]"}, names(g))
	require.Equal(t, run.StatusSuccess, g.Status(1))
	require.False(t, g.Done())
	require.Equal(t, []graph.Decision{{Task: 4, Status: run.StatusQueued}, {Task: 5, Status: run.StatusQueued}}, g.Next())
	require.Equal(t, run.StatusNotStarted, g.Status(2))
	require.Equal(t, 1, c.nodes[1].Width, "the caller's nodes are unchanged")

	other := c.graph(false)
	require.NoError(t, other.AddDynamicTasks(dynamic))
	require.NoError(t, other.Restore(g.Statuses()))
	require.Equal(t, []graph.DynamicTasks{dynamic}, other.DynamicTasks())
	for _, g := range []*graph.Graph{g, other} {
		require.Empty(t, g.Next())
		require.True(t, g.Set(4, run.StatusSuccess))
		require.Empty(t, g.Next())
		require.True(t, g.Set(5, run.StatusSuccess))
		next := g.Next()
		require.Len(t, next, 2)
		require.Equal(t, graph.Decision{Task: 2, Status: run.StatusQueued}, next[0])
		require.Equal(t, run.StatusSkipped, next[1].Status)
		require.Equal(t, "needs failure of build[0], which is success", next[1].Reason)
		require.True(t, g.Set(2, run.StatusSuccess))
		require.True(t, g.Done())
		require.Equal(t, run.ResultSuccess, g.Result())
		require.Equal(t, 5, g.Count(run.StatusSuccess))
	}
	require.Error(t, c.graph(false).Restore(g.Statuses()), "the graph has no dynamic tasks")
}

func TestGraph_AddDynamicTasks_after_failure(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("build", nil, foreach).add("join", edges{"build": 0}).graph(false)
	g.Next()
	require.True(t, g.Set(0, run.StatusFailed))
	require.Error(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 2, Width: 1}))
	require.Equal(t, "needs success of build, which is failed", g.Next()[0].Reason)
	require.Equal(t, run.ResultFailed, g.Result())
}

func TestGraph_AddDynamicTasks_failing_fast(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("build", nil, foreach).add("other", nil).graph(true)
	g.Next()
	require.True(t, g.Set(1, run.StatusFailed))
	require.Empty(t, g.Next())
	require.NoError(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 2, Width: 3}))
	next := g.Next()
	require.Len(t, next, 3)
	require.Equal(t, run.StatusSkipped, next[0].Status)
	require.True(t, g.Done())
}

func TestGraph_AddDynamicTasks_after_keep(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("plan", nil).add("build", edges{"plan": 0}, foreach).graph(false)
	require.NoError(t, g.Keep([]byte{run.StatusSuccess.Byte(), 0}))
	require.Equal(t, []graph.Decision{{Task: 1, Status: run.StatusQueued}}, g.Next())
	require.NoError(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 1, First: 2, Width: 1}))
	require.True(t, g.Kept(0))
	require.False(t, g.Kept(2))
	require.Equal(t, []graph.Decision{{Task: 2, Status: run.StatusQueued}}, g.Next())
}

func names(g *graph.Graph) []string {
	out := make([]string, g.Len())
	for task := range out {
		out[task] = g.Name(task)
	}
	return out
}
