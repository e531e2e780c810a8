package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

func slots(n *run.Node) { n.ChangeGroups = true }

func TestGraph_Grant(t *testing.T) {
	t.Parallel()
	c := newChart(t).add("a", nil, slots).add("b", nil, slots, approvers(1)).add("c", edges{"a": 0, "b": 0})
	g := c.graph(false)
	require.False(t, g.Grant(0), "the task does not wait yet")
	require.Equal(t, []graph.Decision{
		{Task: 0, Status: run.StatusWaitingChangeGroup}, {Task: 1, Status: run.StatusWaitingApproval, Reason: "waits for an approval"},
	}, g.Next())
	require.False(t, g.Grant(1), "it waits for its approval first")
	require.False(t, g.Approve(0))
	require.True(t, g.Approve(1))
	require.Equal(t, []graph.Decision{{Task: 1, Status: run.StatusWaitingChangeGroup}}, g.Next())
	require.True(t, g.Grant(1))
	require.False(t, g.Grant(1))
	require.False(t, g.Grant(7))

	// Another graph decides once more that the tasks wait for slots, and not for approvals.
	restored := c.graph(false)
	statuses := g.Statuses()
	require.Equal(t, []byte{run.StatusNotStarted.Byte(), run.StatusWaitingApproval.Byte() | 0x80, run.StatusNotStarted.Byte()}, statuses,
		"workers of earlier versions know these")
	require.NoError(t, restored.Restore(statuses))
	require.Error(t, restored.Restore([]byte{run.StatusWaitingChangeGroup.Byte(), 0, 0}))
	require.Equal(t, []graph.Decision{
		{Task: 0, Status: run.StatusWaitingChangeGroup}, {Task: 1, Status: run.StatusWaitingChangeGroup},
	}, restored.Next())
	require.True(t, restored.Grant(1))
	for _, g := range []*graph.Graph{g, restored} {
		require.Equal(t, []graph.Decision{{Task: 1, Status: run.StatusQueued}}, g.Next())
		require.True(t, g.Grant(0))
		require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusQueued}}, g.Next())
		require.True(t, g.Set(0, run.StatusSuccess))
		require.True(t, g.Set(1, run.StatusSuccess))
		require.Equal(t, []graph.Decision{{Task: 2, Status: run.StatusQueued}}, g.Next())
		require.False(t, g.Done())
	}
}

// A wait for slots is not an end, and ends with a stop, a cancellation and fail fast.
func TestGraph_waits_for_slots_end(t *testing.T) {
	t.Parallel()
	c := newChart(t).add("a", nil, slots).add("b", nil)
	for name, end := range map[string]func(g *graph.Graph) run.Status{
		"stop": func(g *graph.Graph) run.Status {
			require.Equal(t, []int{0}, g.SkipUnstarted())
			return run.StatusSkipped
		},
		"cancel": func(g *graph.Graph) run.Status {
			require.Equal(t, []int{0, 1}, g.CancelAll())
			return run.StatusCancelled
		},
		"fail fast": func(g *graph.Graph) run.Status {
			require.True(t, g.Set(1, run.StatusFailed))
			require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusSkipped, Reason: "fail_fast is set and a task has failed"}}, g.Next())
			return run.StatusSkipped
		},
	} {
		for _, granted := range []bool{false, true} {
			g := c.graph(true)
			require.Len(t, g.Next(), 2)
			require.False(t, g.Done())
			require.Equal(t, 1, g.Count(run.StatusWaitingChangeGroup))
			require.False(t, g.Set(0, run.StatusWaitingChangeGroup))
			if granted {
				require.True(t, g.Grant(0))
			}
			require.Equal(t, end(g), g.Status(0), name)
			require.Empty(t, g.Next())
		}
	}
}

// The tasks of a list take slots, and the foreach task does not.
func TestGraph_slots_of_foreach(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("list", nil, foreach, slots).graph(false)
	require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusQueued}}, g.Next())
	require.NoError(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 1, Width: 2}))
	require.Equal(t, []graph.Decision{{Task: 1, Status: run.StatusWaitingChangeGroup}, {Task: 2, Status: run.StatusWaitingChangeGroup}}, g.Next())
	require.True(t, g.Grant(2))
	require.Equal(t, []graph.Decision{{Task: 2, Status: run.StatusQueued}}, g.Next())
}

// A graph that continues with the tasks of a list asks for no approval of them.
func TestGraph_slots_of_foreach_restored(t *testing.T) {
	t.Parallel()
	c := newChart(t).add("list", nil, foreach, slots, approvers(1))
	g := c.graph(false)
	require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusWaitingApproval, Reason: "waits for an approval"}}, g.Next())
	require.True(t, g.Approve(0))
	require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusQueued}}, g.Next())
	require.NoError(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 1, Width: 2}))
	waits := []graph.Decision{{Task: 1, Status: run.StatusWaitingChangeGroup}, {Task: 2, Status: run.StatusWaitingChangeGroup}}
	require.Equal(t, waits, g.Next())

	restored := c.graph(false)
	for _, x := range g.DynamicTasks() {
		require.NoError(t, restored.AddDynamicTasks(x))
	}
	require.NoError(t, restored.Restore(g.Statuses()))
	require.Equal(t, waits, restored.Next())
	require.True(t, restored.Grant(2))
	require.Equal(t, []graph.Decision{{Task: 2, Status: run.StatusQueued}}, restored.Next())
}
