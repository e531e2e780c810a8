package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// waits are the waits of tasks that the records must have before they count. The records
// evaluate the condition of a task when it begins to wait, so that no client approves a
// task that is skipped, and no such task takes a slot; and they grant slots of change groups.
// Conditions of other tasks are evaluated when the task is queued: see taskRun.reconcile.
type waits struct {
	r    *runner
	open []*openWait // in the order of the decisions
	// granted says that tasks of the run may have got their slots: the records know which.
	granted bool
}

// openWait is a wait that the records have not confirmed yet.
type openWait struct {
	change  run.TaskChange
	written workflow.Future // of the change
	again   workflow.Future // the timer of the next attempt; nil for none
	tries   int
}

func (w *waits) put(ctx workflow.Context, change run.TaskChange) {
	w.open = append(w.open, &openWait{change: change, written: w.r.writes.putWithFuture(ctx, change)})
}

// apply handles the answers of the records, and reads which tasks got their slots.
func (w *waits) apply(ctx workflow.Context) error {
	w.open = slices.DeleteFunc(w.open, func(o *openWait) bool { return o.ready() && w.applyOne(ctx, o) })
	if !w.granted {
		return nil
	}
	w.granted = false
	out, err := w.r.calls.begin(ctx, false)
	if err != nil {
		return err
	}
	w.r.applyRunStatus(ctx, out.Status)
	return nil
}

// applyOne handles an answer, and reports whether the wait has begun or is over.
func (w *waits) applyOne(ctx workflow.Context, o *openWait) bool {
	if o.again != nil {
		o.again = nil
		if w.r.graph.Status(o.change.Task) != o.change.Status { // stopped or withdrawn meanwhile
			return true
		}
		o.written = w.r.writes.putWithFuture(ctx, o.change)
		return false
	}
	var s run.TaskStatus
	_ = o.written.Get(ctx, &s) // never fails: it is settled by value
	switch s.Status {
	case run.StatusNotStarted:
	case run.StatusWaitingApproval:
		if o.change.Status == run.StatusWaitingApproval {
			return true
		}
	case run.StatusQueued, run.StatusRunning: // by an execution of the workflow before it was reset
		w.r.graph.Grant(o.change.Task)
		return true
	case run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusCancelled, run.StatusStopped:
		w.r.ended(o.change.Task, s.Status)
		return true
	case run.StatusWaitingChangeGroup:
		return true
	}
	o.tries++
	o.again = workflow.NewTimer(ctx, requeueBackoff(o.tries+1))
	return false
}

func (o *openWait) ready() bool {
	if o.again != nil {
		return o.again.IsReady()
	}
	return o.written.IsReady()
}

// hasWork reports whether apply has work. It has no side effects, so conditions
// may call it.
func (w *waits) hasWork() bool { return w.granted || slices.ContainsFunc(w.open, (*openWait).ready) }

func (w *waits) idle() bool { return len(w.open) == 0 && !w.granted }

// signal returns the signal that tasks got their slots.
func (w *waits) signal(ctx workflow.Context) signal {
	return onBare(ctx, contract.SignalSlots, func(workflow.Context) { w.granted = true })
}
