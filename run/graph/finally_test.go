package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

func finally(n *run.Node) { n.Finally = true }

func TestGraph_Finally(t *testing.T) {
	t.Parallel()
	const (
		success = run.StatusSuccess
		failed  = run.StatusFailed
		skipped = run.StatusSkipped
		stopped = run.StatusStopped
	)
	type outcomes = map[string]run.Status
	for name, c := range map[string]struct {
		chart    func(c *chart)
		failFast bool
		outcomes outcomes
		want     outcomes
		result   run.Result
	}{
		"after success": {
			chart: func(c *chart) { c.add("a", nil).add("z", nil, finally) },
			want:  outcomes{"a": success, "z": success}, result: run.ResultSuccess,
		},
		"after a failure, whose dependents are skipped": {
			chart:    func(c *chart) { c.add("a", nil).add("b", edges{"a": 0}).add("z", nil, finally) },
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": skipped, "z": success}, result: run.ResultFailed,
		},
		"fail fast has no effect on it": {
			chart:    func(c *chart) { c.add("a", nil).add("b", nil).add("y", nil, finally).add("z", nil, finally) },
			failFast: true, outcomes: outcomes{"a": failed, "y": failed},
			want: outcomes{"a": failed, "b": success, "y": failed, "z": success}, result: run.ResultFailed,
		},
		"its failure fails the run": {
			chart:    func(c *chart) { c.add("a", nil).add("z", nil, finally) },
			outcomes: outcomes{"z": failed},
			want:     outcomes{"a": success, "z": failed}, result: run.ResultFailed,
		},
		"its failure is allowed": {
			chart:    func(c *chart) { c.add("a", nil).add("z", nil, finally, allowFailure) },
			outcomes: outcomes{"z": failed},
			want:     outcomes{"a": success, "z": failed}, result: run.ResultSuccess,
		},
		"one depends on another": {
			chart: func(c *chart) {
				c.add("a", nil).add("x", nil, finally).add("y", edges{"x": run.MaskFailure}, finally).add("z", edges{"x": 0}, finally)
			},
			outcomes: outcomes{"a": stopped, "x": failed},
			want:     outcomes{"a": stopped, "x": failed, "y": success, "z": skipped}, result: run.ResultFailed,
		},
		"skip is set": {
			chart: func(c *chart) { c.add("a", nil).add("z", nil, finally, skip) },
			want:  outcomes{"a": success, "z": skipped}, result: run.ResultSuccess,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chart := newChart(t)
			c.chart(chart)
			g := chart.graph(c.failFast)
			require.Equal(t, c.want, drive(t, g, c.outcomes))
			require.Equal(t, c.result, g.Result())
		})
	}
}

// queued returns the names of the tasks that Next queues.
func queued(g *graph.Graph) []string {
	var out []string
	for _, d := range g.Next() {
		if d.Status == run.StatusQueued {
			out = append(out, g.Name(d.Task))
		}
	}
	return out
}

func TestGraph_Finally_begins_after_a_stop(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("b", edges{"a": 0}).add("z", nil, finally).add("late", edges{"z": 0}, finally).graph(true)
	require.Equal(t, []string{"a"}, queued(g))
	require.Equal(t, []int{1}, g.SkipUnstarted())
	require.Empty(t, g.Next(), "a has not ended")
	require.False(t, g.FinallyBegan())
	require.True(t, g.Set(0, run.StatusStopped))
	require.True(t, g.FinallyBegan())
	require.Equal(t, []string{"z"}, queued(g))
	require.Empty(t, g.SkipUnstarted())
	require.Equal(t, []int{3}, g.SkipFinally())
	require.True(t, g.Set(2, run.StatusStopped))
	require.True(t, g.Done())
	require.False(t, g.FinallyBegan())
	require.Equal(t, run.ResultStopped, g.Result())
}

func TestGraph_Finally_waits_for_dynamic_tasks(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("list", nil, func(n *run.Node) { n.Foreach = true }).add("z", nil, finally).graph(false)
	require.Equal(t, []string{"list"}, queued(g))
	require.NoError(t, g.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 2, Width: 2}))
	require.Equal(t, []string{"list[0]", "list[1]"}, queued(g))
	require.True(t, g.Set(2, run.StatusSuccess))
	require.Empty(t, g.Next())
	restored := newChart(t).add("list", nil, func(n *run.Node) { n.Foreach = true }).add("z", nil, finally).graph(false)
	require.NoError(t, restored.AddDynamicTasks(graph.DynamicTasks{Task: 0, First: 2, Width: 2}))
	require.NoError(t, restored.Restore(g.Statuses()))
	require.Empty(t, restored.Next())
	for _, g := range []*graph.Graph{g, restored} {
		require.True(t, g.Set(3, run.StatusFailed))
		require.Equal(t, []string{"z"}, queued(g))
	}
}

func TestGraph_Finally_of_a_restart_that_keeps_all_others(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("z", nil, finally).graph(false)
	require.NoError(t, g.Keep([]byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}))
	require.Equal(t, []string{"z"}, queued(g))
}

func TestNew_finally(t *testing.T) {
	t.Parallel()
	_, err := graph.New([]run.Node{
		{Name: "z", First: 0, Width: 1, Finally: true}, {Name: "a", First: 1, Width: 1, Depends: []run.Edge{{Node: 0}}},
	}, false)
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "the two wait for each other")
}

func TestLevels_of_a_finally_node(t *testing.T) {
	t.Parallel()
	nodes := newChart(t).add("a", nil).add("b", edges{"a": 0}).add("c", nil).add("y", nil, finally).add("z", edges{"y": 0}, finally).nodes
	require.Equal(t, map[int]int{0: 0, 1: 1, 2: 0}, graph.Levels(nodes, 3))
	require.Equal(t, map[int]int{0: 0, 1: 1, 2: 0, 3: 2}, graph.Levels(nodes, 4))
	require.Equal(t, map[int]int{0: 0}, graph.Levels(nodes, 1))
}
