package graph_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// graphCase is a random graph with the outcome that each of its tasks has if it
// runs.
type graphCase struct {
	nodes    []run.Node
	outcomes []run.Status
}

func drawGraphCase(t *rapid.T) graphCase {
	var w graphCase
	first := 0
	nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
	ordinary := nodes - max(0, rapid.IntRange(-2, min(2, nodes-1)).Draw(t, "finally"))
	for i := range nodes {
		n := run.Node{Name: string(rune('a' + i)), First: first, Width: rapid.IntRange(1, 4).Draw(t, "width")}
		if n.Width > 1 {
			n.Axes = []run.Axis{{Name: "A", Values: []string{"1", "2", "3", "4"}[:n.Width]}}
		}
		first += n.Width
		low := 0
		if i >= ordinary {
			n.Finally, low = true, ordinary
		}
		if i > low {
			parents := rapid.SliceOfNDistinct(rapid.IntRange(low, i-1), 0, min(i-low, 3), rapid.ID[int]).Draw(t, "parents")
			for _, p := range parents {
				n.Depends = append(n.Depends, run.Edge{Node: p, On: run.OnMask(rapid.IntRange(0, 7).Draw(t, "on"))})
			}
		}
		n.Skip = rapid.IntRange(0, 9).Draw(t, "skip") == 0
		n.AllowFailure = rapid.IntRange(0, 4).Draw(t, "allow failure") == 0
		n.Approvers = max(0, rapid.IntRange(-4, 2).Draw(t, "approvers"))
		n.MaxParallel = max(0, rapid.IntRange(-3, n.Width).Draw(t, "max parallel"))
		n.ChangeGroups = rapid.IntRange(0, 4).Draw(t, "change groups") == 0
		w.nodes = append(w.nodes, n)
	}
	for range first {
		w.outcomes = append(w.outcomes, rapid.SampledFrom([]run.Status{
			run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusFailed, run.StatusFailed, run.StatusStopped,
		}).Draw(t, "outcome"))
	}
	return w
}

// expected returns the final statuses by the documented rules, without fail
// fast.
func (w graphCase) expected() []run.Status {
	out := make([]run.Status, len(w.outcomes))
	for _, n := range w.nodes { // parents come first
		holds := !n.Skip
		for _, e := range n.Depends {
			on := e.On
			if on == 0 {
				on = run.MaskSuccess
			}
			parent := w.nodes[e.Node]
			for _, s := range out[parent.First : parent.First+parent.Width] {
				if s == run.StatusFailed && parent.AllowFailure {
					s = run.StatusSuccess
				}
				holds = holds && (s == run.StatusSuccess && on&run.MaskSuccess != 0 ||
					s == run.StatusFailed && on&run.MaskFailure != 0 ||
					s == run.StatusSkipped && on&run.MaskSkipped != 0 ||
					s == run.StatusStopped && on&run.MaskStopped != 0)
			}
		}
		for task := n.First; task < n.First+n.Width; task++ {
			out[task] = run.StatusSkipped
			if holds {
				out[task] = w.outcomes[task]
			}
		}
	}
	return out
}

// stepper drives a graph like a workflow does, in a random order.
type stepper struct {
	w       graphCase
	g       *graph.Graph
	decided map[int][]run.Status // decisions by task
}

func newStepper(t *rapid.T, w graphCase, failFast bool) *stepper {
	g, err := graph.New(w.nodes, failFast)
	require.NoError(t, err)
	return &stepper{w: w, g: g, decided: make(map[int][]run.Status)}
}

// next calls Next and checks the decisions.
func (s *stepper) next(t *rapid.T) []graph.Decision {
	decisions := s.g.Next()
	last := -1
	for _, d := range decisions {
		require.Greater(t, d.Task, last, "ascending, and one for a task")
		last = d.Task
		require.Equal(t, d.Status, s.g.Status(d.Task), "applied already")
		require.NotContains(t, s.decided[d.Task], d.Status, "returned once")
		s.decided[d.Task] = append(s.decided[d.Task], d.Status)
		require.Equal(t, d.Status == run.StatusQueued || d.Status == run.StatusWaitingChangeGroup, d.Reason == "")
		n := s.w.nodes[s.g.NodeOf(d.Task)]
		if d.Status == run.StatusSkipped {
			continue
		}
		require.False(t, n.Skip)
		waits := []run.Status{run.StatusWaitingApproval, run.StatusWaitingChangeGroup, run.StatusQueued}
		waits = slices.DeleteFunc(waits, func(w run.Status) bool {
			return w == run.StatusWaitingApproval && n.Approvers == 0 || w == run.StatusWaitingChangeGroup && !n.ChangeGroups
		})
		require.Equal(t, waits[:len(s.decided[d.Task])], s.decided[d.Task])
		for _, e := range n.Depends {
			p := s.w.nodes[e.Node]
			for parent := p.First; parent < p.First+p.Width; parent++ {
				require.True(t, s.g.Status(parent).Final(), "nothing starts before its parents are final")
			}
		}
		for other := range s.g.Len() {
			require.True(t, !n.Finally || s.g.IsFinally(other) || s.g.Status(other).Final(), "a finally task starts after all others")
		}
	}
	require.Empty(t, s.g.Next())
	for _, n := range s.w.nodes {
		open := 0
		for _, status := range statuses(s.g)[n.First : n.First+n.Width] {
			if status != run.StatusNotStarted && !status.Final() {
				open++
			}
		}
		require.True(t, n.MaxParallel == 0 || open <= n.MaxParallel, "%d tasks of node %s have begun and not ended", open, n.Name)
	}
	return decisions
}

// moves returns the tasks whose status can change now.
func (s *stepper) moves() []int {
	var out []int
	for task := range s.g.Len() {
		switch s.g.Status(task) {
		case run.StatusQueued, run.StatusRunning, run.StatusWaitingApproval, run.StatusWaitingChangeGroup:
			out = append(out, task)
		default:
		}
	}
	return out
}

// move changes the status of a task.
func (s *stepper) move(t *rapid.T, task int, runFirst bool) {
	switch s.g.Status(task) {
	case run.StatusWaitingApproval:
		require.True(t, s.g.Approve(task))
	case run.StatusWaitingChangeGroup:
		require.True(t, s.g.Grant(task))
	case run.StatusQueued:
		if runFirst {
			require.True(t, s.g.Set(task, run.StatusRunning))
			return
		}
		fallthrough
	default:
		require.True(t, s.g.Set(task, s.w.outcomes[task]))
		require.False(t, s.g.Set(task, run.StatusSkipped), "a final status does not change")
	}
}

func (s *stepper) finish(t *rapid.T) {
	for {
		s.next(t)
		moves := s.moves()
		if len(moves) == 0 {
			break
		}
		s.move(t, rapid.SampledFrom(moves).Draw(t, "move"), rapid.Bool().Draw(t, "running first"))
	}
	require.True(t, s.g.Done(), "every task becomes final")
}

func statuses(g *graph.Graph) []run.Status {
	out := make([]run.Status, g.Len())
	for task := range out {
		out[task] = g.Status(task)
	}
	return out
}

func TestGraph_AnyOrderEndsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawGraphCase(t)
		s := newStepper(t, w, false)
		s.finish(t)
		require.Equal(t, w.expected(), statuses(s.g))
		failed := false
		var warnings []int
		for task, status := range w.expected() {
			switch {
			case status != run.StatusFailed:
			case w.nodes[s.g.NodeOf(task)].AllowFailure:
				warnings = append(warnings, task)
			default:
				failed = true
			}
		}
		require.Equal(t, failed, s.g.Result() == run.ResultFailed)
		require.Equal(t, warnings, s.g.Warnings())
	})
}

// TestGraph_AllowedFailureIsASuccess: a run with allowed failures ends like the same
// run in which these tasks succeed, but for their own status, with and without fail
// fast.
func TestGraph_AllowedFailureIsASuccess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawGraphCase(t)
		failFast := rapid.Bool().Draw(t, "fail fast")
		mild := graphCase{nodes: w.nodes, outcomes: slices.Clone(w.outcomes)}
		for _, n := range w.nodes {
			for task := n.First; task < n.First+n.Width; task++ {
				if n.AllowFailure && w.outcomes[task] == run.StatusFailed {
					mild.outcomes[task] = run.StatusSuccess
				}
			}
		}
		a, b := newStepper(t, w, failFast), newStepper(t, mild, failFast)
		for {
			require.Equal(t, withoutReasons(a.next(t)), withoutReasons(b.next(t)))
			withdrawn := a.g.TasksToWithdraw()
			require.Equal(t, withdrawn, b.g.TasksToWithdraw())
			for _, task := range withdrawn {
				require.True(t, a.g.Set(task, run.StatusSkipped))
				require.True(t, b.g.Set(task, run.StatusSkipped))
			}
			require.Equal(t, a.g.Result(), b.g.Result())
			if len(withdrawn) > 0 {
				continue
			}
			moves := a.moves()
			require.Equal(t, moves, b.moves())
			if len(moves) == 0 {
				break
			}
			task := rapid.SampledFrom(moves).Draw(t, "move")
			a.move(t, task, false)
			b.move(t, task, false)
		}
		require.True(t, a.g.Done())
		for task := range a.g.Len() {
			if a.g.Status(task) != b.g.Status(task) {
				require.Contains(t, a.g.Warnings(), task)
				require.Equal(t, run.StatusSuccess, b.g.Status(task))
			}
		}
		require.Empty(t, b.g.Warnings())
	})
}

// withoutReasons returns decisions without their reasons, which name the status of other tasks.
func withoutReasons(decisions []graph.Decision) []graph.Decision {
	out := slices.Clone(decisions)
	for i := range out {
		out[i].Reason = ""
	}
	return out
}

func TestGraph_FailFastProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawGraphCase(t)
		s := newStepper(t, w, true)
		for {
			before := s.g.Result()
			for _, d := range s.next(t) {
				if before != run.ResultFailed || d.Status == run.StatusSkipped {
					continue
				}
				require.True(t, s.g.MayStart(d.Task))
				if s.g.IsFinally(d.Task) {
					continue
				}
				require.True(t, slices.ContainsFunc(w.nodes[s.g.NodeOf(d.Task)].Depends, func(e run.Edge) bool {
					p := w.nodes[e.Node]
					return e.On&run.MaskFailure != 0 && !p.AllowFailure && slices.Contains(statuses(s.g)[p.First:p.First+p.Width], run.StatusFailed)
				}), "only what depends on a failure starts")
			}
			for _, task := range s.g.TasksToWithdraw() {
				require.True(t, s.g.Set(task, run.StatusSkipped))
			}
			moves := s.moves()
			if len(moves) == 0 && len(s.next(t)) == 0 {
				break
			}
			if moves = s.moves(); len(moves) > 0 {
				s.move(t, rapid.SampledFrom(moves).Draw(t, "move"), rapid.Bool().Draw(t, "running first"))
			}
		}
		require.True(t, s.g.Done())
	})
}

func waitingForSlots(g *graph.Graph) (tasks []int) {
	for task, status := range statuses(g) {
		if status == run.StatusWaitingChangeGroup {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// withoutWaits leaves out of the decisions of a restored graph that tasks wait for slots which
// waited before, and grants theirs to those that the other graph has queued since.
func withoutWaits(t *rapid.T, decisions []graph.Decision, waited []int, g, restored *graph.Graph) []graph.Decision {
	var again []int
	decisions = slices.DeleteFunc(decisions, func(d graph.Decision) bool {
		repeated := d.Status == run.StatusWaitingChangeGroup && slices.Contains(waited, d.Task)
		if repeated {
			again = append(again, d.Task)
		}
		return repeated
	})
	for _, task := range again {
		if g.Status(task) == run.StatusQueued {
			require.True(t, restored.Grant(task))
		}
	}
	decisions = append(decisions, restored.Next()...)
	slices.SortFunc(decisions, func(a, b graph.Decision) int { return a.Task - b.Task })
	if len(decisions) == 0 {
		return nil
	}
	return decisions
}

func TestGraph_RestoreContinuesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawGraphCase(t)
		failFast := rapid.Bool().Draw(t, "fail fast")
		s := newStepper(t, w, failFast)
		for {
			restored, err := graph.New(w.nodes, failFast)
			require.NoError(t, err)
			require.NoError(t, restored.Restore(s.g.Statuses()))
			require.Equal(t, s.g.Result(), restored.Result())
			require.Equal(t, s.g.TasksToWithdraw(), restored.TasksToWithdraw())
			waited := waitingForSlots(s.g)
			want, got := s.g.Next(), restored.Next()
			require.Equal(t, want, withoutWaits(t, got, waited, s.g, restored))
			require.Equal(t, s.g.Statuses(), restored.Statuses())
			if rapid.Bool().Draw(t, "continue with the restored graph") {
				s.g = restored
			}
			if rapid.IntRange(0, 20).Draw(t, "stop") == 0 {
				s.g.SkipUnstarted()
				for _, d := range s.g.Next() {
					require.True(t, s.g.IsFinally(d.Task), "finally tasks start after a stop")
				}
				if rapid.Bool().Draw(t, "force") {
					s.g.SkipFinally()
					require.Empty(t, s.g.Next())
				}
			}
			moves := s.moves()
			if len(moves) == 0 {
				break
			}
			s.move(t, rapid.SampledFrom(moves).Draw(t, "move"), rapid.Bool().Draw(t, "running first"))
		}
		require.True(t, s.g.Done())
		require.Nil(t, s.g.SkipUnstarted())
		require.Nil(t, s.g.SkipFinally())
		require.Nil(t, s.g.CancelAll())
	})
}
