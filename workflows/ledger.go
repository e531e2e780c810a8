package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// The limits of one transaction: its changes must also fit the input of an
// activity (2 MB). The result of a step takes some 150 bytes.
const (
	maxChanges = 500
	maxSteps   = 4_000
)

// ledger collects changes to the records until the main coroutine writes them:
// all changes of one workflow task go into one transaction.
type ledger struct {
	entries []*entry
	of      map[int]*entry // by task
}

// entry is the newest change of a task, with the futures that wait until it is
// written.
type entry struct {
	change  contract.TaskChange
	waiting []workflow.Settable
}

func newLedger() *ledger { return &ledger{of: map[int]*entry{}} }

// put adds a change. It replaces an unwritten change of the same task.
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

// putAndTell is like put. The future yields the state of the task (a
// contract.TaskStatus) once the change is written or refused.
func (l *ledger) putAndTell(ctx workflow.Context, c contract.TaskChange) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	e := l.put(c)
	e.waiting = append(e.waiting, settable)
	return future
}

// noteAndTell is like putWithFuture, but keeps an unwritten change of the task.
// The future is then that of the kept change.
func (l *ledger) noteAndTell(ctx workflow.Context, c contract.TaskChange) workflow.Future {
	if e := l.of[c.Task]; e != nil {
		c = e.change
	}
	return l.putAndTell(ctx, c)
}

func (l *ledger) empty() bool { return len(l.entries) == 0 }

// fits reports whether one transaction takes all changes.
func (l *ledger) fits() bool { return l.next() == len(l.entries) }

// next returns the number of changes that one transaction takes, oldest first.
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

// take removes and returns the changes of one transaction.
func (l *ledger) take() []*entry {
	n := l.next()
	taken := l.entries[:n:n]
	l.entries = l.entries[n:]
	for _, e := range taken {
		delete(l.of, e.change.Task)
	}
	return taken
}

// flush writes one transaction and resolves the futures of its changes. in has
// the changes of the run itself.
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
