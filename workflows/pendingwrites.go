package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// The limits of one transaction: its changes must also fit the input of an
// activity (2 MB). The result of a step takes some 150 bytes.
const (
	maxChanges = 500
	maxSteps   = 4_000
)

// pendingWrites collects changes to the records until the main coroutine writes them:
// all changes of one workflow task go into one transaction.
type pendingWrites struct {
	entries []*pendingWrite
	byTask  map[int]*pendingWrite // by task
}

// pendingWrite is the newest change of a task, with the futures that wait until it is
// written.
type pendingWrite struct {
	change  run.TaskChange
	waiters []workflow.Settable
}

func newPendingWrites() *pendingWrites { return &pendingWrites{byTask: map[int]*pendingWrite{}} }

// put adds a change. It replaces an unwritten change of the same task.
func (l *pendingWrites) put(c run.TaskChange) *pendingWrite {
	c.Reason = trimReason(c.Reason)
	e := l.byTask[c.Task]
	if e == nil {
		e = &pendingWrite{}
		l.byTask[c.Task] = e
		l.entries = append(l.entries, e)
	}
	e.change = c
	return e
}

// putWithFuture is like put. The future yields the state of the task (a
// run.TaskStatus) once the change is written or refused.
func (l *pendingWrites) putWithFuture(ctx workflow.Context, c run.TaskChange) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	e := l.put(c)
	e.waiters = append(e.waiters, settable)
	return future
}

// noteWithFuture is like putWithFuture, but keeps an unwritten change of the task.
// The future is then that of the kept change.
func (l *pendingWrites) noteWithFuture(ctx workflow.Context, c run.TaskChange) workflow.Future {
	if e := l.byTask[c.Task]; e != nil {
		c = e.change
	}
	return l.putWithFuture(ctx, c)
}

func (l *pendingWrites) empty() bool { return len(l.entries) == 0 }

// fits reports whether one transaction takes all changes.
func (l *pendingWrites) fits() bool { return l.next() == len(l.entries) }

// next returns the number of changes that one transaction takes, oldest first.
func (l *pendingWrites) next() int {
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

// takeBatch removes and returns the changes of one transaction.
func (l *pendingWrites) takeBatch() []*pendingWrite {
	n := l.next()
	taken := l.entries[:n:n]
	l.entries = l.entries[n:]
	for _, e := range taken {
		delete(l.byTask, e.change.Task)
	}
	return taken
}

// flush writes one transaction and resolves the futures of its changes. in has
// the changes of the run itself.
func (l *pendingWrites) flush(ctx workflow.Context, c calls, in contract.ApplyInput) (run.Progress, error) {
	taken := l.takeBatch()
	in.Tasks = make([]run.TaskChange, len(taken))
	for i, e := range taken {
		in.Tasks[i] = e.change
	}
	out, err := c.apply(ctx, in)
	if err != nil {
		return run.Progress{}, err
	}
	differs := make(map[int]run.TaskStatus, len(out.Mismatched))
	for _, d := range out.Mismatched {
		differs[d.Task] = d
	}
	for _, e := range taken {
		status, ok := differs[e.change.Task]
		if !ok {
			status = run.TaskStatus{
				Task: e.change.Task, Attempt: e.change.Attempt, Dispatch: e.change.Dispatch, Status: e.change.Status,
			}
		}
		for _, s := range e.waiters {
			s.SetValue(status)
		}
	}
	return out.Status, nil
}

func trimReason(s string) string {
	return truncate.String(s, run.MaxReason, "")
}
