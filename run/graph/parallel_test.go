package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

func parallel(n int) func(*run.Node) { return func(x *run.Node) { x.MaxParallel = n } }

func width(n int) func(*run.Node) { return func(x *run.Node) { x.Width = n } }

func toQueue(tasks ...int) (out []graph.Decision) {
	for _, t := range tasks {
		out = append(out, graph.Decision{Task: t, Status: run.StatusQueued})
	}
	return out
}

func TestGraph_MaxParallel(t *testing.T) {
	t.Parallel()
	c := newChart(t).add("a", nil, width(5), parallel(2)).add("b", edges{"a": 0})
	g := c.graph(false)
	require.Equal(t, toQueue(0, 1), g.Next())
	require.True(t, g.Set(0, run.StatusRunning))
	require.Empty(t, g.Next(), "a task that runs has not ended")
	require.True(t, g.Set(1, run.StatusFailed))
	require.Equal(t, toQueue(2), g.Next())

	restored := c.graph(false)
	require.NoError(t, restored.Restore(g.Statuses()))
	for _, g := range []*graph.Graph{g, restored} {
		require.Empty(t, g.Next())
		require.True(t, g.Set(0, run.StatusSuccess))
		require.True(t, g.Set(2, run.StatusSuccess))
		require.Equal(t, toQueue(3, 4), g.Next())
		require.True(t, g.Set(3, run.StatusSuccess))
		require.Empty(t, g.Next(), "none is left")
		require.True(t, g.Set(4, run.StatusSuccess))
		require.Equal(t, run.StatusSkipped, g.Next()[0].Status, "the dependent is decided when all have ended")
		require.True(t, g.Done())
	}
}

// The tasks that wait for approvals or for slots count, and those that a restart kept do not.
func TestGraph_MaxParallel_of_waiting_tasks(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil, width(4), parallel(1), approvers(1), slots).graph(false)
	require.NoError(t, g.Keep([]byte{0, run.StatusSuccess.Byte(), 0, 0}))
	waits := func(task int) []graph.Decision {
		return []graph.Decision{{Task: task, Status: run.StatusWaitingApproval, Reason: "waits for an approval"}}
	}
	require.Equal(t, waits(0), g.Next())
	require.True(t, g.Approve(0))
	require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusWaitingChangeGroup}}, g.Next())
	require.True(t, g.Grant(0))
	require.Equal(t, toQueue(0), g.Next())
	require.True(t, g.Set(0, run.StatusSuccess))
	require.Equal(t, waits(2), g.Next(), "1 was kept")
	require.True(t, g.Set(2, run.StatusSkipped))
	require.Equal(t, waits(3), g.Next())
}

// A stop, fail_fast and unmet dependencies skip all tasks at once.
func TestGraph_MaxParallel_skips_at_once(t *testing.T) {
	t.Parallel()
	c := newChart(t).add("a", nil, width(3), parallel(1)).add("b", edges{"a": 0}, width(3), parallel(1))
	g := c.graph(false)
	require.Equal(t, toQueue(0), g.Next())
	require.Equal(t, []int{1, 2, 3, 4, 5}, g.SkipUnstarted())
	require.Empty(t, g.Next())

	g = c.graph(true)
	require.Equal(t, toQueue(0), g.Next())
	require.True(t, g.Set(0, run.StatusFailed))
	require.Len(t, g.Next(), 5)
	require.True(t, g.Done())
	require.Equal(t, 5, g.Count(run.StatusSkipped))

	g = c.graph(false)
	for task := range 3 {
		require.Equal(t, toQueue(task), g.Next())
		require.True(t, g.Set(task, run.StatusFailed))
	}
	require.Len(t, g.Next(), 3)
	require.True(t, g.Done())
}

func TestGraph_MaxParallel_of_foreach(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("list", nil, foreach, parallel(2)).graph(false)
	require.Equal(t, toQueue(0), g.Next())
	require.NoError(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 1, Width: 3}))
	require.Equal(t, toQueue(1, 2), g.Next())
	require.True(t, g.Set(2, run.StatusSuccess))
	require.Equal(t, toQueue(3), g.Next())
}
