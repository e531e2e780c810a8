package graph_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// chart builds a graph of nodes of width 1, in order; edges go by name.
type chart struct {
	t     testing.TB
	nodes []run.Node
	index map[string]int
}

func newChart(t testing.TB) *chart { return &chart{t: t, index: make(map[string]int)} }

type edges map[string]run.OnMask

func (c *chart) add(name string, depends edges, change ...func(*run.Node)) *chart {
	c.t.Helper()
	n := run.Node{Name: name, Width: 1}
	for i := range c.nodes {
		if on, ok := depends[c.nodes[i].Name]; ok {
			n.Depends = append(n.Depends, run.Edge{Node: i, On: on})
		}
	}
	require.Len(c.t, n.Depends, len(depends), "an edge to an unknown node")
	for _, f := range change {
		f(&n)
	}
	if len(c.nodes) > 0 {
		last := c.nodes[len(c.nodes)-1]
		n.First = last.First + last.Width
	}
	c.index[name] = n.First
	c.nodes = append(c.nodes, n)
	return c
}

func (c *chart) graph(failFast bool) *graph.Graph {
	c.t.Helper()
	g, err := graph.New(c.nodes, failFast)
	require.NoError(c.t, err)
	return g
}

func skip(n *run.Node)         { n.Skip = true }
func allowFailure(n *run.Node) { n.AllowFailure = true }
func approvers(count int) func(*run.Node) {
	return func(n *run.Node) { n.Approvers = count }
}

// axis makes a node an expansion over A.
func axis(values ...string) func(*run.Node) {
	return func(n *run.Node) {
		n.Width, n.Axes = len(values), []run.Axis{{Name: "A", Values: values}}
	}
}

// drive completes queued tasks, lowest first, with the given outcomes (success
// if not given), and returns the final statuses by name.
func drive(t testing.TB, g *graph.Graph, outcomes map[string]run.Status) map[string]run.Status {
	t.Helper()
	for {
		for _, d := range g.Next() {
			if d.Status == run.StatusWaitingApproval {
				require.True(t, g.Approve(d.Task))
			}
		}
		moved := false
		for task := range g.Len() {
			if g.Status(task) != run.StatusQueued {
				continue
			}
			s, ok := outcomes[g.Name(task)]
			if !ok {
				s = run.StatusSuccess
			}
			require.True(t, g.Set(task, s))
			moved = true
			break
		}
		if !moved && len(g.Next()) == 0 {
			break
		}
	}
	require.True(t, g.Done())
	out := make(map[string]run.Status)
	for task := range g.Len() {
		out[g.Name(task)] = g.Status(task)
	}
	return out
}

func TestGraph_Conditions(t *testing.T) {
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
		warnings []string
	}{
		"success starts dependents": {
			chart: func(c *chart) { c.add("a", nil).add("b", edges{"a": 0}) },
			want:  outcomes{"a": success, "b": success}, result: run.ResultSuccess,
		},
		"failure skips and cascades": {
			chart:    func(c *chart) { c.add("a", nil).add("b", edges{"a": 0}).add("c", edges{"b": 0}).add("other", nil) },
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": skipped, "c": skipped, "other": success}, result: run.ResultFailed,
		},
		"one of several parents is skipped": {
			chart: func(c *chart) { c.add("a", nil).add("s", nil, skip).add("b", edges{"a": 0, "s": 0}) },
			want:  outcomes{"a": success, "s": skipped, "b": skipped}, result: run.ResultSuccess,
		},
		"all skipped is success": {
			chart: func(c *chart) { c.add("a", nil, skip).add("b", edges{"a": 0}) },
			want:  outcomes{"a": skipped, "b": skipped}, result: run.ResultSuccess,
		},
		"on failure": {
			chart:    func(c *chart) { c.add("a", nil).add("b", edges{"a": run.MaskFailure}) },
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": success}, result: run.ResultFailed,
		},
		"on failure without one": {
			chart: func(c *chart) { c.add("a", nil).add("b", edges{"a": run.MaskFailure}) },
			want:  outcomes{"a": success, "b": skipped}, result: run.ResultSuccess,
		},
		"on skipped": {
			chart: func(c *chart) { c.add("a", nil, skip).add("b", edges{"a": run.MaskSkipped}) },
			want:  outcomes{"a": skipped, "b": success}, result: run.ResultSuccess,
		},
		"or within one parent": {
			chart: func(c *chart) {
				c.add("a", nil).add("b", edges{"a": run.MaskFailure | run.MaskSuccess})
			},
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": success}, result: run.ResultFailed,
		},
		"and across parents": {
			chart: func(c *chart) {
				c.add("a", nil).add("b", nil).add("c", edges{"a": run.MaskFailure, "b": 0})
			},
			want: outcomes{"a": success, "b": success, "c": skipped}, result: run.ResultSuccess,
		},
		"a stopped parent matches stopped": {
			chart: func(c *chart) {
				c.add("a", nil).add("b", edges{"a": run.MaskStopped}).add("c", edges{"a": run.MaskSuccess | run.MaskStopped}).
					add("d", edges{"b": run.MaskStopped})
			},
			outcomes: outcomes{"a": stopped},
			want:     outcomes{"a": stopped, "b": success, "c": success, "d": skipped}, result: run.ResultStopped,
		},
		"a stopped parent matches nothing else": {
			chart: func(c *chart) {
				c.add("a", nil).add("b", edges{"a": run.MaskFailure | run.MaskSuccess | run.MaskSkipped}).
					add("c", edges{"b": 0}).add("d", edges{"b": run.MaskSkipped})
			},
			outcomes: outcomes{"a": stopped},
			want:     outcomes{"a": stopped, "b": skipped, "c": skipped, "d": success}, result: run.ResultStopped,
		},
		"a cancelled parent matches nothing": {
			chart: func(c *chart) {
				c.add("a", nil).add("b", edges{"a": run.MaskFailure | run.MaskSuccess | run.MaskSkipped})
			},
			outcomes: outcomes{"a": run.StatusCancelled},
			want:     outcomes{"a": run.StatusCancelled, "b": skipped}, result: run.ResultUnknown,
		},
		"an allowed failure is a success for dependents": {
			chart: func(c *chart) {
				c.add("a", nil, allowFailure).add("b", edges{"a": 0}).add("c", edges{"b": 0}).
					add("either", edges{"a": run.MaskSuccess | run.MaskFailure}).
					add("handler", edges{"a": run.MaskFailure}).add("no skip", edges{"a": run.MaskSkipped})
			},
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": success, "c": success, "either": success, "handler": skipped, "no skip": skipped},
			result:   run.ResultSuccess, warnings: []string{"a"},
		},
		"an allowed failure beside another": {
			chart: func(c *chart) {
				c.add("a", nil, allowFailure).add("b", nil).add("both", edges{"a": 0, "b": 0}).
					add("handler", edges{"a": run.MaskFailure, "b": run.MaskFailure}).add("cleanup", edges{"a": 0, "b": run.MaskFailure})
			},
			outcomes: outcomes{"a": failed, "b": failed},
			want:     outcomes{"a": failed, "b": failed, "both": skipped, "handler": skipped, "cleanup": success},
			result:   run.ResultFailed, warnings: []string{"a"},
		},
		"an expansion with allowed failures": {
			chart: func(c *chart) {
				c.add("a", nil, axis("1", "2", "3"), allowFailure).add("b", edges{"a": 0}).add("c", edges{"a": run.MaskFailure})
			},
			outcomes: outcomes{"a[A=1]": failed, "a[A=3]": failed},
			want:     outcomes{"a[A=1]": failed, "a[A=2]": success, "a[A=3]": failed, "b": success, "c": skipped},
			result:   run.ResultSuccess, warnings: []string{"a[A=1]", "a[A=3]"},
		},
		"only a failure is allowed": {
			chart:    func(c *chart) { c.add("a", nil, allowFailure).add("b", edges{"a": 0}) },
			outcomes: outcomes{"a": stopped},
			want:     outcomes{"a": stopped, "b": skipped}, result: run.ResultStopped,
		},
		"an expansion must succeed whole": {
			chart:    func(c *chart) { c.add("a", nil, axis("1", "2")).add("b", edges{"a": 0}) },
			outcomes: outcomes{"a[A=2]": failed},
			want:     outcomes{"a[A=1]": success, "a[A=2]": failed, "b": skipped}, result: run.ResultFailed,
		},
		"a mixed expansion matches a condition that lists both": {
			chart: func(c *chart) {
				c.add("a", nil, axis("1", "2")).add("b", edges{"a": run.MaskSuccess | run.MaskFailure}).
					add("c", edges{"a": run.MaskFailure})
			},
			outcomes: outcomes{"a[A=2]": failed},
			want:     outcomes{"a[A=1]": success, "a[A=2]": failed, "b": success, "c": skipped}, result: run.ResultFailed,
		},
		"approval": {
			chart: func(c *chart) { c.add("a", nil).add("b", edges{"a": 0}, approvers(2)) },
			want:  outcomes{"a": success, "b": success}, result: run.ResultSuccess,
		},
		"approval is not asked when skipped": {
			chart:    func(c *chart) { c.add("a", nil).add("b", edges{"a": 0}, approvers(1)) },
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": skipped}, result: run.ResultFailed,
		},
		"fail fast": {
			chart: func(c *chart) {
				c.add("a", nil).
					add("cleanup", edges{"a": run.MaskFailure}).
					add("report", edges{"cleanup": 0}).
					add("slow", nil, approvers(1)).
					add("after-slow", edges{"slow": 0}).
					add("always", edges{"slow": run.MaskSuccess | run.MaskFailure | run.MaskSkipped})
			},
			failFast: true,
			outcomes: outcomes{"a": failed},
			want: outcomes{
				"a": failed, "cleanup": success, "report": skipped, "slow": skipped, "after-slow": skipped, "always": skipped,
			},
			result: run.ResultFailed,
		},
		"fail fast disregards allowed failures": {
			chart:    func(c *chart) { c.add("a", nil, allowFailure).add("b", nil).add("c", edges{"a": 0, "b": 0}) },
			failFast: true,
			outcomes: outcomes{"a": failed},
			want:     outcomes{"a": failed, "b": success, "c": success}, result: run.ResultSuccess, warnings: []string{"a"},
		},
		"fail fast starts no handler of an allowed failure": {
			chart: func(c *chart) {
				c.add("a", nil, allowFailure).add("b", nil).
					add("either", edges{"a": run.MaskSuccess | run.MaskFailure}, approvers(1)).add("cleanup", edges{"b": run.MaskFailure})
			},
			failFast: true,
			outcomes: outcomes{"a": failed, "b": failed},
			want:     outcomes{"a": failed, "b": failed, "either": skipped, "cleanup": success},
			result:   run.ResultFailed, warnings: []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ch := newChart(t)
			c.chart(ch)
			g := ch.graph(c.failFast)
			require.Equal(t, c.want, drive(t, g, c.outcomes))
			require.Equal(t, c.result, g.Result())
			var warnings []string
			for _, task := range g.Warnings() {
				warnings = append(warnings, g.Name(task))
			}
			require.Equal(t, c.warnings, warnings)
		})
	}
}

func TestGraph_Next(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("b", edges{"a": 0}).add("c", edges{"b": 0}).add("d", edges{"a": 0}, approvers(1)).graph(false)
	require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusQueued}}, g.Next())
	require.Nil(t, g.Next(), "a decision is returned once")
	require.True(t, g.Set(0, run.StatusRunning))
	require.True(t, g.Set(0, run.StatusQueued), "queued again as a new dispatch")
	require.False(t, g.Set(0, run.StatusNotStarted))
	require.True(t, g.Set(0, run.StatusFailed))
	require.Equal(t, run.ResultFailed, g.Result(), "at once")
	require.False(t, g.Set(0, run.StatusSuccess), "a final status does not change")
	require.Equal(t, []graph.Decision{
		{Task: 1, Status: run.StatusSkipped, Reason: "needs success of a, which is failed"},
		{Task: 2, Status: run.StatusSkipped, Reason: "needs success of b, which is skipped"},
		{Task: 3, Status: run.StatusSkipped, Reason: "needs success of a, which is failed"},
	}, g.Next())
	require.True(t, g.Done())
	require.Equal(t, 3, g.Count(run.StatusSkipped))
}

func TestGraph_ReasonOfAnAllowedFailure(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil, allowFailure).add("b", edges{"a": run.MaskFailure}).graph(false)
	require.Len(t, g.Next(), 1)
	require.True(t, g.Set(0, run.StatusFailed))
	require.Equal(t, []graph.Decision{
		{Task: 1, Status: run.StatusSkipped, Reason: "needs failure of a, whose failure is allowed"},
	}, g.Next())
}

func TestGraph_Approve(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil, approvers(1)).add("b", nil, approvers(3)).graph(false)
	require.False(t, g.Approve(0), "the task does not wait yet")
	require.Equal(t, []graph.Decision{
		{Task: 0, Status: run.StatusWaitingApproval, Reason: "waits for an approval"},
		{Task: 1, Status: run.StatusWaitingApproval, Reason: "waits for 3 approvals"},
	}, g.Next())
	require.True(t, g.Approve(1))
	require.False(t, g.Approve(1))
	require.True(t, g.Approve(0))
	require.Equal(t, run.StatusWaitingApproval, g.Status(0))
	require.Equal(t, []graph.Decision{{Task: 0, Status: run.StatusQueued}, {Task: 1, Status: run.StatusQueued}}, g.Next())
	require.False(t, g.Approve(0))
	require.False(t, g.Approve(7))
}

func TestGraph_SkipUnstarted(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("b", edges{"a": 0}).add("w", nil, approvers(1)).add("x", nil, approvers(1)).
		add("y", edges{"b": run.MaskSkipped}).graph(false)
	require.Len(t, g.Next(), 3)
	require.True(t, g.Approve(3))
	require.Equal(t, []int{1, 2, 3, 4}, g.SkipUnstarted(), "an approved task that Next has not returned is unstarted too")
	require.Nil(t, g.Next())
	require.Equal(t, run.StatusQueued, g.Status(0))
	require.True(t, g.Set(0, run.StatusStopped))
	require.Nil(t, g.Next())
	require.Equal(t, run.ResultStopped, g.Result())
}

func TestGraph_CancelAll(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("b", edges{"a": 0}).graph(false)
	g.Next()
	require.Equal(t, []int{0, 1}, g.CancelAll())
	require.Nil(t, g.Next())
	require.True(t, g.Done())
	require.Equal(t, run.ResultUnknown, g.Result())
}

func TestGraph_FailFastWithdraws(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil, axis("1", "2", "3")).add("b", nil).
		add("on", edges{"b": run.MaskFailure}).graph(true)
	require.Len(t, g.Next(), 4)
	require.True(t, g.Set(1, run.StatusRunning))
	require.Nil(t, g.TasksToWithdraw())
	require.True(t, g.MayStart(0))
	require.True(t, g.Set(3, run.StatusFailed))
	require.Equal(t, []graph.Decision{{Task: 4, Status: run.StatusQueued}}, g.Next())
	require.Equal(t, []int{0, 2}, g.TasksToWithdraw())
	require.False(t, g.MayStart(0))
	require.False(t, g.MayStart(1), "not for another attempt")
	require.True(t, g.MayStart(4))
}

func TestGraph_FailFastSkipsWaitingTasks(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("b", nil, approvers(1)).add("c", nil, approvers(1)).
		add("d", edges{"a": run.MaskFailure}, approvers(1)).add("e", edges{"b": 0}).graph(true)
	require.Len(t, g.Next(), 3)
	require.True(t, g.Approve(2))
	require.True(t, g.Set(0, run.StatusFailed))
	const reason = "fail_fast is set and a task has failed"
	require.Equal(t, []graph.Decision{
		{Task: 1, Status: run.StatusSkipped, Reason: reason},
		{Task: 2, Status: run.StatusSkipped, Reason: reason},
		{Task: 3, Status: run.StatusWaitingApproval, Reason: "waits for an approval"},
		{Task: 4, Status: run.StatusSkipped, Reason: reason},
	}, g.Next())
	require.False(t, g.Approve(1))
	require.True(t, g.Approve(3))
	require.Equal(t, []graph.Decision{{Task: 3, Status: run.StatusQueued}}, g.Next())
}

func TestGraph_Names(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).add("b", edges{"a": 0}, func(n *run.Node) {
		n.Width, n.Axes = 4, []run.Axis{{Name: "GO", Values: []string{"1.25", "1.26"}}, {Name: "OS", Values: []string{"linux", "a/b c"}}}
	}).graph(false)
	var names []string
	for task := range g.Len() {
		names = append(names, g.Name(task))
	}
	require.Equal(t, []string{"a", "b[GO=1.25,OS=linux]", "b[GO=1.25,OS=a-b-c]", "b[GO=1.26,OS=linux]", "b[GO=1.26,OS=a-b-c]"}, names)
	require.Equal(t, 1, g.NodeOf(4))
	require.Equal(t, -1, g.NodeOf(5))
	require.Empty(t, g.Name(-1))
}

func TestNewGraph_Refuses(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]run.Node{
		"a cycle":         {{First: 0, Width: 1, Depends: []run.Edge{{Node: 1}}}, {First: 1, Width: 1, Depends: []run.Edge{{Node: 0}}}},
		"itself":          {{First: 0, Width: 1, Depends: []run.Edge{{Node: 0}}}},
		"an unknown node": {{First: 0, Width: 1, Depends: []run.Edge{{Node: 1}}}},
		"a gap":           {{First: 0, Width: 1}, {First: 2, Width: 1}},
		"no width":        {{First: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := graph.New(nodes, false)
			require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		})
	}
	g, err := graph.New(nil, false)
	require.NoError(t, err)
	require.Equal(t, run.ResultSuccess, g.Result(), "nothing to do is success")
}

func TestGraph_RestoreRefuses(t *testing.T) {
	t.Parallel()
	g := newChart(t).add("a", nil).graph(false)
	for _, state := range [][]byte{nil, {0, 0}, {10}, {0x80}, {0x84}} {
		require.Equal(t, run.CodeInvalid, run.CodeOf(g.Restore(state)))
	}
	require.Len(t, g.Next(), 1, "the graph is unchanged")
}

// shapes are graphs of 10,000 tasks and more.
func shapes(t testing.TB) map[string]*graph.Graph {
	const n = 10_000
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	explicit, chain := newChart(t), newChart(t)
	all := make(edges)
	for i := range n - 1 {
		name := fmt.Sprintf("t%d", i)
		explicit.nodes = append(explicit.nodes, run.Node{Name: name, First: i, Width: 1})
		all[name] = 0
		link := run.Node{Name: name, First: i, Width: 1}
		if i > 0 {
			link.Depends = []run.Edge{{Node: i - 1}}
		}
		chain.nodes = append(chain.nodes, link)
	}
	return map[string]*graph.Graph{
		"expansion": newChart(t).add("a", nil, axis(values[:n-1]...)).add("join", edges{"a": 0}).graph(false),
		"explicit":  explicit.add("join", all).graph(false),
		"chain":     chain.graph(false),
		"fail fast": newChart(t).add("a", nil, axis(values[:n-1]...)).add("join", edges{"a": 0}).graph(true),
	}
}

func BenchmarkGraph(b *testing.B) {
	for name, g := range shapes(b) {
		b.Run(name, func(b *testing.B) {
			fresh := make([]byte, g.Len())
			for b.Loop() {
				require.NoError(b, g.Restore(fresh))
				for queued := g.Next(); len(queued) > 0; {
					var next []graph.Decision
					for _, d := range queued {
						g.Set(d.Task, run.StatusRunning)
						g.Set(d.Task, run.StatusSuccess)
						next = append(next, g.Next()...)
					}
					queued = next
				}
				require.Equal(b, run.ResultSuccess, g.Result())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*g.Len()), "ns/task")
		})
	}
}
