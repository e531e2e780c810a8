package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// growth is the run's side of the tasks that are made of lists at run time: an
// activity makes them in the records, and tells how many they are.
type growth struct {
	r       *runner
	queue   []int // tasks that stand for a list, in the order of their turn
	asking  bool
	answers []growthAnswer
	fresh   bool // there are answers that take has not seen
}

type growthAnswer struct {
	task int
	contract.ExpandResult
}

// ask has the tasks made of the next list: of one after the other, since the
// records number them in the order in which they are asked.
func (g *growth) ask(ctx workflow.Context) {
	if g.asking || len(g.queue) == 0 {
		return
	}
	if g.r.stopped != nil {
		for _, task := range g.queue {
			g.r.ledger.put(contract.TaskChange{Task: task, Status: run.StatusSkipped, Reason: g.r.stopped.Reason})
			g.r.ended(task, run.StatusSkipped)
		}
		g.queue = nil
		return
	}
	g.asking = true
	task := g.queue[0]
	g.queue = g.queue[1:]
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := g.r.calls.expand(ctx, task)
		if err != nil { // the records refuse: what is written next tells why
			out = contract.ExpandResult{Fault: "its tasks could not be made: " + err.Error()}
		}
		g.answers = append(g.answers, growthAnswer{task, out})
		g.asking, g.fresh = false, true
	})
}

// take lets the graph grow by what was answered. Where an earlier execution,
// which was reset, had asked in another order, an answer waits for its turn.
func (g *growth) take() {
	g.fresh = false
	for i := 0; i < len(g.answers); {
		if !g.takeOne(g.answers[i]) {
			i++
			continue
		}
		g.answers = slices.Delete(g.answers, i, i+1)
		i = 0
	}
}

func (g *growth) takeOne(a growthAnswer) bool {
	r := g.r
	if a.Fault != "" {
		g.fail(a.task, a.Fault)
		return true
	}
	if a.First > r.graph.Len() {
		return false
	}
	if err := r.graph.Grow(run.Grown{Task: a.task, First: a.First, Width: a.Width}); err != nil {
		g.fail(a.task, err.Error())
		return true
	}
	r.open += a.Width
	r.ledger.put(contract.TaskChange{Task: a.task, Status: run.StatusSuccess, Reason: fmt.Sprintf("tasks made of its list: %d", a.Width)})
	if r.stopped != nil {
		r.skipUnstarted(*r.stopped)
	}
	return true
}

// fail ends a task whose list is none.
func (g *growth) fail(task int, why string) {
	g.r.ledger.put(contract.TaskChange{Task: task, Status: run.StatusFailed, Reason: why})
	g.r.ended(task, run.StatusFailed)
}

// news reports whether take or ask has something to do. It is fit for
// conditions.
func (g *growth) news() bool { return g.fresh || !g.asking && len(g.queue) > 0 }

// idle reports whether no list is waited for.
func (g *growth) idle() bool { return !g.asking && len(g.queue) == 0 && len(g.answers) == 0 }
