package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// dynamicTasks is the run's side of the tasks that are expanded from lists at run
// time. An activity creates them in the records and returns their number.
type dynamicTasks struct {
	r         *runner
	queue     []int // tasks that stand for a list, in order
	expanding bool
	answers   []expandAnswer
	unread    bool // answers has entries that apply has not seen
}

type expandAnswer struct {
	task int
	contract.ExpandResult
}

// expandNext expands the next list. Expansions run one after the other, because the
// records number the tasks in the order of the requests.
func (g *dynamicTasks) expandNext(ctx workflow.Context) {
	if g.expanding || len(g.queue) == 0 {
		return
	}
	if g.r.stopped != nil {
		for _, task := range g.queue {
			g.r.writes.put(run.TaskChange{Task: task, Status: run.StatusSkipped, Reason: g.r.stopped.Reason})
			g.r.ended(task, run.StatusSkipped)
		}
		g.queue = nil
		return
	}
	g.expanding = true
	task := g.queue[0]
	g.queue = g.queue[1:]
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := g.r.calls.expand(ctx, task)
		if err != nil { // the records refuse: the next write returns the reason
			out = contract.ExpandResult{Fault: "failed to create its tasks: " + err.Error()}
		}
		g.answers = append(g.answers, expandAnswer{task, out})
		g.expanding, g.unread = false, true
	})
}

// apply adds the expanded tasks to the graph. If an earlier execution, which was
// reset, requested the lists in another order, an answer waits for its turn.
func (g *dynamicTasks) apply() {
	g.unread = false
	for i := 0; i < len(g.answers); {
		if !g.applyOne(g.answers[i]) {
			i++
			continue
		}
		g.answers = slices.Delete(g.answers, i, i+1)
		i = 0
	}
}

func (g *dynamicTasks) applyOne(a expandAnswer) bool {
	r := g.r
	if a.Fault != "" {
		g.fail(a.task, a.Fault)
		return true
	}
	if a.Skipped != "" {
		r.writes.put(run.TaskChange{Task: a.task, Status: run.StatusSkipped, Reason: a.Skipped})
		r.ended(a.task, run.StatusSkipped)
		return true
	}
	if a.Width == 0 {
		r.writes.put(run.TaskChange{Task: a.task, Status: run.StatusSuccess, Reason: "its list has 0 items"})
		r.ended(a.task, run.StatusSuccess)
		return true
	}
	if a.First > r.graph.Len() {
		return false
	}
	if err := r.graph.AddDynamicTasks(graph.DynamicTasks{Task: a.task, First: a.First, Width: a.Width}); err != nil {
		g.fail(a.task, err.Error())
		return true
	}
	r.open += a.Width
	r.writes.put(run.TaskChange{Task: a.task, Status: run.StatusSuccess, Reason: fmt.Sprintf("tasks created from its list: %d", a.Width)})
	if r.stopped != nil {
		r.skipUnstarted(*r.stopped)
	}
	return true
}

// fail ends a task that has no valid list.
func (g *dynamicTasks) fail(task int, why string) {
	g.r.writes.put(run.TaskChange{Task: task, Status: run.StatusFailed, Reason: why})
	g.r.ended(task, run.StatusFailed)
}

// hasWork reports whether apply or expandNext has work. It has no side effects, so
// conditions may call it.
func (g *dynamicTasks) hasWork() bool { return g.unread || !g.expanding && len(g.queue) > 0 }

// idle reports whether no expansion is pending.
func (g *dynamicTasks) idle() bool { return !g.expanding && len(g.queue) == 0 && len(g.answers) == 0 }
