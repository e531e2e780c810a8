package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// The measures of one transaction: what it holds must also pass as the input
// of an activity (2 MB), and a step's result takes some 150 bytes.
const (
	maxChanges = 500
	maxSteps   = 4_000
)

// ledger collects what is to be written to the records until the main
// coroutine writes it: whatever one workflow task decides goes in one
// transaction.
type ledger struct {
	entries []*entry
	of      map[int]*entry // by task
}

// entry is the newest change of a task, and who waits for it to be written.
type entry struct {
	change  contract.TaskChange
	waiting []workflow.Settable
}

func newLedger() *ledger { return &ledger{of: map[int]*entry{}} }

// put takes a change; one of the same task that was not written is replaced.
func (l *ledger) put(c contract.TaskChange) *entry {
	c.Reason = trimReason(c.Reason)
	e := l.of[c.Task]
	if e == nil {
		e = &entry{}
		l.of[c.Task] = e
		l.entries = append(l.entries, e)
	}
	e.change = c
	return e
}

// putAndTell is like put; the future yields how the task stands (a
// contract.TaskStanding) once the change was written or refused.
func (l *ledger) putAndTell(ctx workflow.Context, c contract.TaskChange) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	e := l.put(c)
	e.waiting = append(e.waiting, settable)
	return future
}

// noteAndTell is like putAndTell, but what waits to be written of the task is
// not replaced: then the future is of that.
func (l *ledger) noteAndTell(ctx workflow.Context, c contract.TaskChange) workflow.Future {
	if e := l.of[c.Task]; e != nil {
		c = e.change
	}
	return l.putAndTell(ctx, c)
}

func (l *ledger) empty() bool { return len(l.entries) == 0 }

// fits reports whether one transaction takes all that there is.
func (l *ledger) fits() bool { return l.next() == len(l.entries) }

// next returns how many changes, oldest first, one transaction takes.
func (l *ledger) next() int {
	steps, n := 0, 0
	for n < min(len(l.entries), maxChanges) {
		if r := l.entries[n].change.Result; r != nil {
			steps += len(r.Steps)
		}
		if n > 0 && steps > maxSteps {
			break
		}
		n++
	}
	return n
}

// take removes what one transaction takes.
func (l *ledger) take() []*entry {
	n := l.next()
	taken := l.entries[:n:n]
	l.entries = l.entries[n:]
	for _, e := range taken {
		delete(l.of, e.change.Task)
	}
	return taken
}

// flush writes one transaction, and tells those who wait for it. in says what
// of the run itself is written.
func (l *ledger) flush(ctx workflow.Context, c calls, in contract.ApplyInput) (contract.Standing, error) {
	taken := l.take()
	in.Tasks = make([]contract.TaskChange, len(taken))
	for i, e := range taken {
		in.Tasks[i] = e.change
	}
	out, err := c.apply(ctx, in)
	if err != nil {
		return contract.Standing{}, err
	}
	differs := make(map[int]contract.TaskStanding, len(out.Differs))
	for _, d := range out.Differs {
		differs[d.Task] = d
	}
	for _, e := range taken {
		standing, ok := differs[e.change.Task]
		if !ok {
			standing = contract.TaskStanding{
				Task: e.change.Task, Attempt: e.change.Attempt, Dispatch: e.change.Dispatch, Status: e.change.Status,
			}
		}
		for _, s := range e.waiting {
			s.SetValue(standing)
		}
	}
	return out.Standing, nil
}

func trimReason(s string) string {
	if len(s) > run.MaxReason {
		return s[:run.MaxReason]
	}
	return s
}
