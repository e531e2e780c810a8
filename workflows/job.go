package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// job is one run of a task in a task set. Its assignment records the progress,
// so that another execution can continue from there.
//
// It has a coroutine of its own except while it waits for the answer to
// execute-task; then the task set wakes it. The SDK resumes every coroutine at
// every event of the workflow, and most task runs wait most of the time.
type job struct {
	contract.Assignment
	crew *crew

	// ctx and cancel cover everything that a stop interrupts: waiting, and
	// execute-task. ctx belongs to the coroutine, base to none.
	ctx    workflow.Context
	base   workflow.Context
	cancel workflow.CancelFunc
	// abandon ends the wait for adopt-task; nil if there is none.
	abandon workflow.CancelFunc

	recorded workflow.Future // of the change to queued
	answer   workflow.Future // of execute-task; nil while it is not scheduled
	holder   string          // executor that fell out of contact, "" before
	set      string          // the executor set that holder belongs to, "" for none
	forsaken string          // why no executor can adopt it any more, "" before
	gone     bool            // the records have it as skipped
	ended    bool
	released *contract.Release   // the journal that confirms that no step of the previous dispatch ran; nil for none
	told     bool                // the holder has acknowledged the stop
	hush     workflow.CancelFunc // ends the retries of stop-task; nil if there are none
}

// newJob records the task as queued and starts its coroutine.
func newJob(ctx workflow.Context, c *crew, a contract.Assignment) *job {
	j := &job{Assignment: a, crew: c}
	j.Attempt, j.Dispatch = max(1, j.Attempt), max(1, j.Dispatch)
	if j.Adopt == nil && !j.Recover && c.stopped == nil {
		j.enqueue(ctx)
	}
	j.base, j.cancel = workflow.WithCancel(ctx)
	j.proceed(j.first)
	return j
}

// proceed starts a coroutine that brings the task to its end, or to where it
// waits for an answer. Its context outlives a stop.
func (j *job) proceed(from func(workflow.Context) outcome) {
	workflow.Go(j.base, func(ctx workflow.Context) {
		j.ctx = ctx
		lasting, _ := workflow.NewDisconnectedContext(ctx)
		j.run(lasting, from(lasting))
	})
}

// enqueue records the dispatch as queued. The change is written before the
// dispatch is scheduled, so that a claim finds it. The records skip the change
// while another dispatch of the attempt is claimed, unless the journal of that
// claim has released it: this execution may have been reset and not know of the
// claim.
func (j *job) enqueue(ctx workflow.Context) {
	j.recorded = j.crew.ledger.putAndTell(ctx, contract.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusQueued, Reason: j.Reason,
		IfUnclaimed: true, Released: j.released,
	})
	j.released = nil
}

// run brings the task to its end, through all necessary dispatches and
// attempts, or to where it waits for an answer.
func (j *job) run(ctx workflow.Context, out outcome) {
	for j.follow(ctx, out) {
		if out = j.dispatch(ctx); j.answer != nil {
			return
		}
	}
	j.cancel()
}

// answered reports whether execute-task has returned.
func (j *job) answered() bool { return j.answer != nil && j.answer.IsReady() }

// wake handles the result of execute-task. A task that simply ends needs no
// wait, and so no coroutine either.
func (j *job) wake(ctx workflow.Context) {
	var result contract.ExecuteResult
	err := j.answer.Get(ctx, &result)
	j.answer = nil
	if err == nil && result.Ended != nil && result.Ended.Status.Final() &&
		(result.Ended.Status != run.StatusFailed || !j.retries(*result.Ended)) {
		j.follow(ctx, answered(result, contract.Release{}))
		j.cancel()
		return
	}
	j.proceed(func(ctx workflow.Context) outcome { return j.read(ctx, result, err) })
}

// first returns the first outcome of a task, before this execution dispatches
// it.
func (j *job) first(ctx workflow.Context) outcome {
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
func (j *job) dispatch(ctx workflow.Context) outcome {
	var standing contract.TaskStanding
	_ = j.recorded.Get(ctx, &standing) // never fails: it is settled by value
	if out, ok := j.compare(ctx, standing); !ok {
		return out
	}
	if j.Wait > 0 && !j.unwanted() {
		_ = workflow.Sleep(j.ctx, j.Wait.Std()) // cut short by a stop or withdrawal
	}
	j.Wait = 0
	if j.unwanted() {
		return outcome{kind: outcomeUntaken}
	}
	j.answer = j.crew.calls.execute(j.ctx, j.Assignment)
	return outcome{}
}

// compare handles the task's state in the records. ok is false if the state is
// not the one that this execution wrote: the workflow was reset, or the run was
// closed.
func (j *job) compare(ctx workflow.Context, s contract.TaskStanding) (out outcome, ok bool) {
	switch {
	case s.Status.Final():
		return outcome{kind: outcomeStands, status: s.Status}, false
	case s.Attempt == j.Attempt && s.Dispatch == j.Dispatch && s.Status == run.StatusQueued:
		return outcome{}, true
	}
	j.Attempt, j.Dispatch = max(1, s.Attempt), s.Dispatch
	return j.lookUp(ctx, "another execution of its workflow queued it"), false
}

// recover finds out how far another execution, which is gone, brought the task.
// The change that it writes is older than any other, so it has no effect except
// the answer.
func (j *job) recover(ctx workflow.Context) outcome {
	j.Recover = false
	var s contract.TaskStanding
	_ = j.crew.ledger.putAndTell(ctx, contract.TaskChange{Task: j.Task, Status: run.StatusQueued, IfUnclaimed: true}).Get(ctx, &s)
	if s.Status.Final() {
		return outcome{kind: outcomeStands, status: s.Status}
	}
	j.Attempt, j.Dispatch = max(1, s.Attempt), s.Dispatch
	return j.lookUp(ctx, "the workflow that queued it is gone")
}

// changeHolders is the change that adopts a task from the executor that holds a
// claim for another dispatch than this execution knows. It can be removed once
// no run that began without it is left.
const changeHolders = "adopt-any-dispatch"

// lookUp reads the holder of the task from the records, and adopts the task
// from it. If no executor has claimed the task, it is queued again: the claim
// comes before any step. The records may be ahead of an execution that was
// reset.
func (j *job) lookUp(ctx workflow.Context, reason string) outcome {
	out, err := j.crew.calls.holders(ctx, j.Task)
	if err != nil { // the records refuse: the next write reports it to the owner
		workflow.GetLogger(ctx).Warn("failed to read the holder of a task", "task", j.Name, "error", err)
	}
	for _, h := range out.Holders {
		if h.Task != j.Task || h.Attempt < j.Attempt {
			continue
		}
		if h.Attempt != j.Attempt || h.Dispatch != j.Dispatch {
			if workflow.GetVersion(ctx, changeHolders, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
				continue
			}
			j.Attempt, j.Dispatch = h.Attempt, h.Dispatch
		}
		return j.adopt(ctx, contract.Heartbeat{Executor: h.Executor, Set: h.Set})
	}
	return outcome{kind: outcomeUnbegun, reason: reason}
}

// unwanted reports whether the task must not start any more.
func (j *job) unwanted() bool { return j.crew.stopped != nil || j.Withdrawn != "" }

// withdraw forbids the task to start. The records decide whether an executor
// already holds it.
func (j *job) withdraw(ctx workflow.Context, reason string) {
	if j.Withdrawn != "" || j.ended {
		return
	}
	j.Withdrawn = reason
	if j.answer == nil {
		j.cancel() // ends a wait; adoption continues
		return
	}
	written := j.crew.ledger.putAndTell(ctx, contract.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusSkipped, Reason: reason, IfUnclaimed: true,
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		var standing contract.TaskStanding
		_ = written.Get(ctx, &standing)
		if standing.Status == run.StatusSkipped && !j.ended {
			j.gone = true
			j.cancel()
		}
	})
}

// executorRemoved ends the wait for a removed executor.
func (j *job) executorRemoved(id string) {
	if j.abandon != nil && j.holder == id {
		j.abandon()
	}
}

// end records how the task ended.
func (j *job) end(c contract.TaskChange) {
	c.Task, c.Attempt, c.Dispatch = j.Task, j.Attempt, j.Dispatch
	j.crew.ledger.put(c)
	j.leave(ending{task: j.Task, status: c.Status})
}

// leave removes the task from the task set.
func (j *job) leave(e ending) {
	j.ended = true
	if j.hush != nil {
		j.hush()
	}
	delete(j.crew.jobs, j.Task)
	j.crew.endings = append(j.crew.endings, e)
}

// handBack returns the task to the owner, for another execution.
func (j *job) handBack() {
	back := j.Assignment
	j.leave(ending{task: j.Task, back: &back})
}

// again queues the task again, with its current attempt and dispatch.
func (j *job) again(ctx workflow.Context, reason string, wait time.Duration) (more bool) {
	j.Reason, j.Wait = trimReason(reason), run.Duration(wait)
	j.holder, j.set, j.Adopt, j.told = "", "", nil, false
	if j.crew.spent(ctx) {
		j.handBack()
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
		s += "; tried again after " + span(wait)
	}
	return s
}
