package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// taskRun is one run of a task in a task set. Its assignment records the progress,
// so that another execution can continue from there.
//
// It has a coroutine of its own except while it waits for the answer to
// execute-task; then the task set wakes it. The SDK resumes every coroutine at
// every event of the workflow, and most task runs wait most of the time.
type taskRun struct {
	contract.Assignment
	taskSet *taskSet

	// ctx and cancel cover everything that a stop interrupts: waiting, and
	// execute-task. ctx belongs to the coroutine, base to none.
	ctx    workflow.Context
	base   workflow.Context
	cancel workflow.CancelFunc
	// cancelAdopt ends the wait for adopt-task; nil if there is none.
	cancelAdopt workflow.CancelFunc

	recorded         workflow.Future // of the change to queued
	answer           workflow.Future // of execute-task; nil while it is not scheduled
	holder           string          // executor that fell out of contact, "" before
	set              string          // the executor set that holder belongs to, "" for none
	orphanReason     string          // why no executor can adopt it any more, "" before
	skipped          bool            // the records have it as skipped
	ended            bool
	released         run.Release         // the journal that confirms that no step of the previous dispatch ran; zero for none
	stopAcknowledged bool                // the holder has acknowledged the stop
	acquireTimeout   time.Duration       // how long the next dispatch may wait for an executor; 0: no limit
	notAcquired      bool                // no executor took the previous dispatch within that time
	conditionWaits   int                 // how often the condition of the task could not be evaluated yet
	cancelStopRetry  workflow.CancelFunc // ends the retries of stop-task; nil if there are none
}

// newTaskRun records the task as queued and starts its coroutine.
func newTaskRun(ctx workflow.Context, c *taskSet, a contract.Assignment) *taskRun {
	j := &taskRun{Assignment: a, taskSet: c}
	j.Attempt, j.Dispatch = max(1, j.Attempt), max(1, j.Dispatch)
	if j.Adopt == nil && !j.Recover && !j.isStopped() {
		j.enqueue(ctx)
	}
	j.base, j.cancel = workflow.WithCancel(ctx)
	j.spawn(j.firstOutcome)
	return j
}

// spawn starts a coroutine that brings the task to its end, or to where it
// waits for an answer. Its context outlives a stop.
func (j *taskRun) spawn(from func(workflow.Context) outcome) {
	workflow.Go(j.base, func(ctx workflow.Context) {
		j.ctx = ctx
		detached, _ := workflow.NewDisconnectedContext(ctx)
		j.run(detached, from(detached))
	})
}

// enqueue records the dispatch as queued. The change is written before the
// dispatch is scheduled, so that a claim finds it. The records skip the change
// while another dispatch of the attempt is claimed, unless the journal of that
// claim has released it: this execution may have been reset and not know of the
// claim.
func (j *taskRun) enqueue(ctx workflow.Context) {
	j.recorded = j.taskSet.writes.putWithFuture(ctx, run.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusQueued, Reason: j.Reason,
		IfUnclaimed: true, Released: j.released, NotAcquired: j.notAcquired,
	})
	j.released, j.notAcquired = run.Release{}, false
}

// run brings the task to its end, through all necessary dispatches and
// attempts, or to where it waits for an answer.
func (j *taskRun) run(ctx workflow.Context, out outcome) {
	for j.handle(ctx, out) {
		if out = j.dispatch(ctx); j.answer != nil {
			return
		}
	}
	j.cancel()
}

// answered reports whether execute-task has returned.
func (j *taskRun) answered() bool { return j.answer != nil && j.answer.IsReady() }

// wake handles the result of execute-task. A task that simply ends needs no
// wait, and so no coroutine either.
func (j *taskRun) wake(ctx workflow.Context) {
	var result contract.ExecuteResult
	err := j.answer.Get(ctx, &result)
	j.answer = nil
	if err == nil && result.Ended != nil && result.Ended.Status.Final() &&
		(result.Ended.Status != run.StatusFailed || !j.retries(ctx, *result.Ended)) {
		j.handle(ctx, outcomeOf(result, run.Release{}))
		j.cancel()
		return
	}
	j.spawn(func(ctx workflow.Context) outcome { return j.read(ctx, result, err) })
}

// firstOutcome returns the first outcome of a task, before this execution dispatches
// it.
func (j *taskRun) firstOutcome(ctx workflow.Context) outcome {
	switch {
	case j.Adopt != nil:
		return j.adopt(ctx, *j.Adopt)
	case j.Recover:
		return j.recover(ctx)
	}
	return outcome{kind: outcomeQueued}
}

// dispatch waits until the task is recorded as queued and its backoff is over,
// and schedules execute-task. If the task must not be dispatched, it returns
// the outcome instead.
func (j *taskRun) dispatch(ctx workflow.Context) outcome {
	var status run.TaskStatus
	_ = j.recorded.Get(ctx, &status) // never fails: it is settled by value
	if out, ok := j.reconcile(ctx, status); !ok {
		return out
	}
	if j.Wait > 0 && !j.mustNotStart() {
		_ = workflow.Sleep(j.ctx, j.Wait.Std()) // cut short by a stop or withdrawal
	}
	j.Wait = 0
	if j.mustNotStart() {
		return outcome{kind: outcomeNotClaimed}
	}
	j.answer = j.taskSet.calls.execute(j.ctx, j.Assignment, j.acquireTimeout)
	return outcome{}
}

// reconcile handles the task's state in the records. ok is false if the state is
// not the one that this execution wrote: the workflow was reset, or the run was
// closed.
func (j *taskRun) reconcile(ctx workflow.Context, s run.TaskStatus) (out outcome, ok bool) {
	switch {
	case s.Status.Final():
		return outcome{kind: outcomeAlreadyFinal, status: s.Status}, false
	case s.Attempt == j.Attempt && s.Dispatch == j.Dispatch && s.Status == run.StatusQueued:
		j.acquireTimeout = s.AcquireTimeout.Std()
		return outcome{}, true
	}
	if s.Attempt == 0 && (s.Status == run.StatusNotStarted || s.Status == run.StatusWaitingApproval || s.Status == run.StatusWaitingChangeGroup) {
		// The task has a condition that reads outputs which have not arrived, or it lacks slots of
		// its change groups: see runner.checkSlots.
		j.conditionWaits++
		_ = workflow.Sleep(j.ctx, requeueBackoff(j.conditionWaits+1)) // cut short by a stop or withdrawal
		if j.mustNotStart() {
			return outcome{kind: outcomeNotClaimed}, false
		}
		return outcome{kind: outcomeCondition}, false
	}
	j.Attempt, j.Dispatch = max(1, s.Attempt), s.Dispatch
	return j.lookUp(ctx, "another execution of its workflow queued it"), false
}

// recover finds out how far another execution, which is gone, brought the task.
// The change that it writes is older than any other, so it has no effect except
// the answer.
func (j *taskRun) recover(ctx workflow.Context) outcome {
	j.Recover = false
	var s run.TaskStatus
	_ = j.taskSet.writes.putWithFuture(ctx, run.TaskChange{Task: j.Task, Status: run.StatusQueued, IfUnclaimed: true}).Get(ctx, &s)
	if s.Status.Final() {
		return outcome{kind: outcomeAlreadyFinal, status: s.Status}
	}
	j.Attempt, j.Dispatch = max(1, s.Attempt), s.Dispatch
	return j.lookUp(ctx, "the workflow that queued it is gone")
}

// lookUp reads the holder of the task from the records, and adopts the task
// from it. If no executor has claimed the task, it is queued again: the claim
// comes before any step. The records may be ahead of an execution that was
// reset.
func (j *taskRun) lookUp(ctx workflow.Context, reason string) outcome {
	out, err := j.taskSet.calls.holders(ctx, j.Task)
	if err != nil { // the records refuse: the next write reports it to the owner
		workflow.GetLogger(ctx).Warn("failed to read the holder of a task", "task", j.Name, "error", err)
	}
	for _, h := range out.Holders {
		if h.Task != j.Task || h.Attempt < j.Attempt {
			continue
		}
		j.Attempt, j.Dispatch = h.Attempt, h.Dispatch
		return j.adopt(ctx, contract.Heartbeat{Executor: h.Executor, Set: h.Set})
	}
	return outcome{kind: outcomeNotStarted, reason: reason}
}

// mustNotStart reports whether the task must not start any more.
func (j *taskRun) mustNotStart() bool { return j.isStopped() || j.Withdrawn != "" }

// stopping reports whether the task is to be stopped if an executor runs it.
func (j *taskRun) stopping() bool { return j.Stop || j.isStopped() }

// isStopped reports whether a stop of the run ends the task.
func (j *taskRun) isStopped() bool { return stops(j.taskSet.stopped, j.Finally) }

// withdraw forbids the task to start. The records decide whether an executor
// already holds it; then stop stops it.
func (j *taskRun) withdraw(ctx workflow.Context, reason string, stop bool) {
	if j.Withdrawn != "" || j.ended {
		return
	}
	j.Withdrawn, j.Stop = reason, stop
	if j.answer == nil {
		j.cancel() // ends a wait; adoption continues
		return
	}
	written := j.taskSet.writes.putWithFuture(ctx, run.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusSkipped, Reason: reason, IfUnclaimed: true,
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		var status run.TaskStatus
		_ = written.Get(ctx, &status)
		switch {
		case j.ended:
		case status.Status == run.StatusSkipped:
			j.skipped = true
			j.cancel()
		case stop:
			j.cancel()
		}
	})
}

// executorRemoved ends the wait for a removed executor.
func (j *taskRun) executorRemoved(id string) {
	if j.cancelAdopt != nil && j.holder == id {
		j.cancelAdopt()
	}
}

// end records how the task ended.
func (j *taskRun) end(c run.TaskChange) {
	c.Task, c.Attempt, c.Dispatch = j.Task, j.Attempt, j.Dispatch
	j.taskSet.writes.put(c)
	j.detach(ending{task: j.Task, status: c.Status})
}

// detach removes the task from the task set.
func (j *taskRun) detach(e ending) {
	j.ended = true
	if j.cancelStopRetry != nil {
		j.cancelStopRetry()
	}
	delete(j.taskSet.taskRuns, j.Task)
	j.taskSet.endings = append(j.taskSet.endings, e)
}

// returnToOwner returns the task to the owner, for another execution.
func (j *taskRun) returnToOwner() {
	back := j.Assignment
	j.detach(ending{task: j.Task, returned: &back})
}

// requeue queues the task again, with its current attempt and dispatch.
func (j *taskRun) requeue(ctx workflow.Context, reason string, wait time.Duration) (more bool) {
	j.Reason, j.Wait = trimReason(reason), run.Duration(wait)
	j.holder, j.set, j.Adopt, j.stopAcknowledged = "", "", nil, false
	if j.taskSet.historyExhausted(ctx) {
		j.returnToOwner()
		return false
	}
	j.enqueue(ctx)
	return true
}

// retryReason returns the reason of another attempt.
func retryReason(attempt int, why string, wait time.Duration) string {
	s := fmt.Sprintf("attempt %d failed", attempt)
	if why != "" {
		s += ": " + why
	}
	if wait > 0 {
		s += "; tried again after " + formatDuration(wait)
	}
	return s
}
