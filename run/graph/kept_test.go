package graph_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// restarted is the restart of a random run: kept has the tasks that keep their
// results, and outcomes the new outcomes of the others.
type restarted struct {
	graphCase
	kept []byte
}

// drawRestarted runs a random graph to its end and restarts it.
func drawRestarted(t *rapid.T, failFast bool, outcomes ...run.Status) restarted {
	w := drawGraphCase(t)
	s := newStepper(t, w, failFast)
	for {
		s.next(t)
		for _, task := range s.g.TasksToWithdraw() {
			s.g.Set(task, run.StatusSkipped)
		}
		moves := s.moves()
		if len(moves) == 0 {
			break
		}
		s.move(t, rapid.SampledFrom(moves).Draw(t, "move"), false)
		if rapid.IntRange(0, 15).Draw(t, "stop") == 0 {
			s.g.SkipUnstarted()
		}
	}
	names := func(task int) string { return s.g.Name(task) }
	from, tasks := run.RestartFailed, []string(nil)
	if rapid.Bool().Draw(t, "chosen tasks") {
		from = ""
		for _, task := range rapid.SliceOfNDistinct(rapid.IntRange(0, s.g.Len()-1), 1, 3, rapid.ID[int]).Draw(t, "tasks") {
			tasks = append(tasks, s.g.Name(task))
		}
	}
	kept, err := graph.Kept(w.nodes, statuses(s.g), restartTasks(s.g.Len(), names), from, tasks)
	if err != nil { // nothing failed
		kept = restartTasks(s.g.Len(), names)
	}
	r := restarted{graphCase: w, kept: graph.KeptStatuses(statuses(s.g), kept)}
	if r.kept == nil {
		r.kept = make([]byte, s.g.Len())
	}
	r.outcomes = nil
	for range s.g.Len() {
		r.outcomes = append(r.outcomes, rapid.SampledFrom(outcomes).Draw(t, "new outcome"))
	}
	return r
}

func (r restarted) isKept(task int) bool { return r.kept[task] != run.StatusNotStarted.Byte() }

// expected returns the final statuses if the kept tasks end as they did before.
func (r restarted) expected() []run.Status {
	w := graphCase{nodes: r.nodes, outcomes: slices.Clone(r.outcomes)}
	for task := range w.outcomes {
		if r.isKept(task) {
			w.outcomes[task] = run.StatusOf(r.kept[task])
		}
	}
	return w.expected()
}

func (r restarted) stepper(t *rapid.T, failFast bool) *stepper {
	s := newStepper(t, r.graphCase, failFast)
	require.NoError(t, s.g.Keep(r.kept))
	return s
}

var allOutcomes = []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusFailed, run.StatusStopped}

// TestGraph_KeptEndsAsNewRun: a restarted run ends like a new run in which the
// kept tasks end as they did before, and Next never returns a kept task.
func TestGraph_KeptEndsAsNewRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRestarted(t, false, allOutcomes...)
		s := r.stepper(t, false)
		s.finish(t)
		require.Equal(t, r.expected(), statuses(s.g))
		failed := false
		for task := range s.g.Len() {
			require.Equal(t, r.isKept(task), s.g.Kept(task))
			if s.g.Kept(task) {
				require.Empty(t, s.decided[task])
			}
			failed = failed || s.g.Status(task) == run.StatusFailed && !r.nodes[s.g.NodeOf(task)].AllowFailure
		}
		require.Equal(t, failed, s.g.Result() == run.ResultFailed)
	})
}

// TestGraph_FailFastIgnoresKeptFailures: if no task fails again, fail fast
// prevents no task from starting.
func TestGraph_FailFastIgnoresKeptFailures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRestarted(t, true, run.StatusSuccess)
		fast, slow := r.stepper(t, true), r.stepper(t, false)
		fast.finish(t)
		slow.finish(t)
		require.False(t, fast.g.FailingFast())
		require.Equal(t, statuses(slow.g), statuses(fast.g))
	})
}

// TestGraph_KeptRestoreContinuesTheSame: kept tasks stay kept in a graph that is
// restored in the middle of the run.
func TestGraph_KeptRestoreContinuesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		failFast := rapid.Bool().Draw(t, "fail fast")
		r := drawRestarted(t, failFast, allOutcomes...)
		s := r.stepper(t, failFast)
		for {
			restored := r.stepper(t, failFast).g
			require.NoError(t, restored.Restore(s.g.Statuses()))
			require.Equal(t, s.g.Result(), restored.Result())
			require.Equal(t, s.g.FailingFast(), restored.FailingFast())
			require.Equal(t, s.g.TasksToWithdraw(), restored.TasksToWithdraw())
			waited := waitingForSlots(s.g)
			want, got := s.g.Next(), restored.Next()
			require.Equal(t, want, withoutWaits(t, got, waited, s.g, restored))
			require.Equal(t, s.g.Statuses(), restored.Statuses())
			if rapid.Bool().Draw(t, "continue with the restored graph") {
				s.g = restored
			}
			moves := s.moves()
			if len(moves) == 0 {
				break
			}
			s.move(t, rapid.SampledFrom(moves).Draw(t, "move"), rapid.Bool().Draw(t, "running first"))
		}
		require.True(t, s.g.Done())
		for task := range s.g.Len() {
			if r.isKept(task) {
				require.Equal(t, run.StatusOf(r.kept[task]), s.g.Status(task))
			}
		}
	})
}

func TestGraph_Keep(t *testing.T) {
	t.Parallel()
	nodes := []run.Node{
		{Name: "a", First: 0, Width: 1},
		{Name: "b", First: 1, Width: 2, Axes: []run.Axis{{Name: "A", Values: []string{"1", "2"}}}, Depends: []run.Edge{{Node: 0}}},
		{Name: "c", First: 3, Width: 1, Depends: []run.Edge{{Node: 1}}},
		{Name: "d", First: 4, Width: 1, Depends: []run.Edge{{Node: 1, On: run.MaskFailure}}},
	}
	status := func(list ...run.Status) []byte {
		var out []byte
		for _, s := range list {
			out = append(out, s.Byte())
		}
		return out
	}
	newGraph := func(kept ...run.Status) *graph.Graph {
		g, err := graph.New(nodes, true)
		require.NoError(t, err)
		require.NoError(t, g.Keep(status(kept...)))
		return g
	}
	const (
		open    = run.StatusNotStarted
		success = run.StatusSuccess
		failed  = run.StatusFailed
	)

	g := newGraph(success, success, open, open, open)
	require.Equal(t, []graph.Decision{{Task: 2, Status: run.StatusQueued}}, g.Next(), "one of an expansion")
	require.True(t, g.Set(2, success))
	require.Equal(t, []int{3, 4}, tasksOf(g.Next()))

	g = newGraph(success, failed, open, open, open)
	require.Equal(t, run.ResultFailed, g.Result(), "a kept failure counts for the result")
	require.Equal(t, []graph.Decision{{Task: 2, Status: run.StatusQueued}}, g.Next(), "fail fast ignores kept failures")
	require.False(t, g.FailingFast())
	require.True(t, g.MayStart(2))
	require.True(t, g.Set(2, failed))
	require.True(t, g.FailingFast())

	g = newGraph(success, success, success, open, success)
	g.Next()
	require.True(t, g.Set(3, success))
	require.True(t, g.Done())
	require.Equal(t, run.ResultSuccess, g.Result())

	for i := range nodes {
		nodes[i].AllowFailure = nodes[i].Name == "b"
	}
	g = newGraph(success, failed, success, open, open)
	require.Equal(t, []int{3, 4}, tasksOf(g.Next()))
	require.Equal(t, run.StatusQueued, g.Status(3), "a kept failure that is allowed is a success for dependents")
	require.Equal(t, run.StatusSkipped, g.Status(4))
	require.True(t, g.Set(3, success))
	require.Equal(t, run.ResultSuccess, g.Result())
	require.Equal(t, []int{1}, g.Warnings())

	for name, kept := range map[string][]byte{
		"too_few": status(success), "running": status(run.StatusRunning, open, open, open, open), "no_status": {99, 0, 0, 0, 0},
	} {
		require.Error(t, newGraph(open, open, open, open, open).Keep(kept), name)
	}
}

func tasksOf(decisions []graph.Decision) []int {
	var out []int
	for _, d := range decisions {
		out = append(out, d.Task)
	}
	return out
}

// TestSplitPlan_kept: the pages of the largest plan with kept tasks do not
// exceed the size of a page.
func TestSplitPlan_kept(t *testing.T) {
	t.Parallel()
	p := run.Plan{Group: "/a/b", Name: "n", Pools: []string{"linux"}, Kept: bytes.Repeat([]byte{run.StatusSuccess.Byte()}, run.MaxTasks)}
	for i := range run.MaxTasks {
		p.Nodes = append(p.Nodes, run.Node{Name: fmt.Sprintf("task-%d", i), First: i, Width: 1, Depends: []run.Edge{{Node: max(0, i-1)}}})
	}
	p.Nodes[0].Depends = nil
	pages := run.SplitPlan(p, run.MaxPlanPage)
	for i, page := range pages {
		text, err := json.Marshal(page)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), run.MaxPlanPage)
		require.Equal(t, i == 0, page.Kept != nil, "on the first page alone")
		require.NoError(t, json.Unmarshal(text, &pages[i]))
	}
	require.Equal(t, p, run.MergePlans(pages))
}
