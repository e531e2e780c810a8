package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// job is one task in the hands of a crew. The assignment in it says how far
// the task has come, so that another execution can go on from there.
//
// It has a coroutine of its own while it does anything but wait for the answer
// to execute-task: then the crew wakes it. Every coroutine is resumed at every
// event of the workflow, and most jobs of a crew wait so most of their time.
type job struct {
	contract.Assignment
	crew *crew

	// ctx and cancel are of all that a wish to stop may cut short: waiting,
	// and execute-task. ctx is of the coroutine, base has none.
	ctx    workflow.Context
	base   workflow.Context
	cancel workflow.CancelFunc
	// abandon ends the wait for adopt-task; nil while there is none.
	abandon workflow.CancelFunc

	recorded workflow.Future // of the change to queued
	answer   workflow.Future // to execute-task; nil while that is not scheduled
	holder   string          // executor that fell out of contact, "" before
	set      string          // that it is a member of, "" for none
	forsaken string          // why nobody is left who could adopt it, "" before
	gone     bool            // the records have it as skipped
	ended    bool
	released *contract.Release   // who vouches that nothing of the dispatch before ran; nil for none
	told     bool                // whoever has it knows that it is to stop
	hush     workflow.CancelFunc // ends the telling; nil while there is none
}

// newJob notes the task as queued, and sets off its coroutine.
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

// proceed sets off a coroutine that brings the task to its end, or to where it
// waits for an answer. Its context outlives a wish to stop.
func (j *job) proceed(from func(workflow.Context) outcome) {
	workflow.Go(j.base, func(ctx workflow.Context) {
		j.ctx = ctx
		lasting, _ := workflow.NewDisconnectedContext(ctx)
		j.run(lasting, from(lasting))
	})
}

// enqueue notes the dispatch as queued. What is noted is written before the
// dispatch is scheduled, so that a claim finds it. The records leave it out
// while another dispatch of the attempt is claimed, unless the journal of that
// claim has released it: this execution may have been reset, and not know.
func (j *job) enqueue(ctx workflow.Context) {
	j.recorded = j.crew.ledger.putAndTell(ctx, contract.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusQueued, Reason: j.Reason,
		IfUnclaimed: true, Released: j.released,
	})
	j.released = nil
}

// run brings the task to its end, through as many dispatches and attempts as
// that takes, or to where it waits for an answer.
func (j *job) run(ctx workflow.Context, out outcome) {
	for j.follow(ctx, out) {
		if out = j.dispatch(ctx); j.answer != nil {
			return
		}
	}
	j.cancel()
}

// answered reports whether execute-task has its answer.
func (j *job) answered() bool { return j.answer != nil && j.answer.IsReady() }

// wake goes on from the answer to execute-task. The plain end of a task, which
// needs no waiting, needs no coroutine either.
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

// first returns what is known of a task before anything was dispatched here.
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
// and schedules execute-task. Where that is not to be, it returns what is
// instead.
func (j *job) dispatch(ctx workflow.Context) outcome {
	var standing contract.TaskStanding
	_ = j.recorded.Get(ctx, &standing) // never fails: it is settled by value
	if out, ok := j.compare(ctx, standing); !ok {
		return out
	}
	if j.Wait > 0 && !j.unwanted() {
		_ = workflow.Sleep(j.ctx, j.Wait.Std()) // cut short where it is unwanted
	}
	j.Wait = 0
	if j.unwanted() {
		return outcome{kind: outcomeUntaken}
	}
	j.answer = j.crew.calls.execute(j.ctx, j.Assignment)
	return outcome{}
}

// compare goes on from how the task stands in the records. ok is false where
// that is not as this execution wrote it: somebody reset the workflow, or
// closed the run.
func (j *job) compare(ctx workflow.Context, s contract.TaskStanding) (out outcome, ok bool) {
	switch {
	case s.Status.Final():
		return outcome{kind: outcomeStands, status: s.Status}, false
	case s.Attempt == j.Attempt && s.Dispatch == j.Dispatch && s.Status == run.StatusQueued:
		return outcome{}, true
	}
	j.Attempt, j.Dispatch = max(1, s.Attempt), s.Dispatch
	return j.lookUp(ctx, "another execution of its workflow had queued it"), false
}

// recover finds out how far another execution, which is gone, brought the
// task. The change that it writes for that is older than any other, so that
// nothing comes of it but the answer.
func (j *job) recover(ctx workflow.Context) outcome {
	j.Recover = false
	var s contract.TaskStanding
	_ = j.crew.ledger.putAndTell(ctx, contract.TaskChange{Task: j.Task, Status: run.StatusQueued, IfUnclaimed: true}).Get(ctx, &s)
	if s.Status.Final() {
		return outcome{kind: outcomeStands, status: s.Status}
	}
	j.Attempt, j.Dispatch = max(1, s.Attempt), s.Dispatch
	return j.lookUp(ctx, "the workflow that had queued it is gone")
}

// changeHolders is that a task is adopted from the executor that has another
// dispatch of it claimed than this execution knows of. It may go when no run is
// left that began without it.
const changeHolders = "adopt-any-dispatch"

// lookUp asks the records who has the task, and goes on with them. Where no
// executor has claimed it, it is queued again: the claim comes before any step.
// The records may be ahead of an execution that was reset.
func (j *job) lookUp(ctx workflow.Context, reason string) outcome {
	out, err := j.crew.calls.holders(ctx, j.Task)
	if err != nil { // the records refuse: the next thing written tells the owner
		workflow.GetLogger(ctx).Warn("asking who has a task failed", "task", j.Name, "error", err)
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

// unwanted reports whether the task must not begin any more.
func (j *job) unwanted() bool { return j.crew.stopped != nil || j.Withdrawn != "" }

// withdraw forbids the task to begin. Whether somebody has it already is for
// the records to say.
func (j *job) withdraw(ctx workflow.Context, reason string) {
	if j.Withdrawn != "" || j.ended {
		return
	}
	j.Withdrawn = reason
	if j.answer == nil {
		j.cancel() // it waits; an adopted one goes on
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

// executorRemoved ends the wait for an executor that was removed.
func (j *job) executorRemoved(id string) {
	if j.abandon != nil && j.holder == id {
		j.abandon()
	}
}

// end tells how the task ended.
func (j *job) end(c contract.TaskChange) {
	c.Task, c.Attempt, c.Dispatch = j.Task, j.Attempt, j.Dispatch
	j.crew.ledger.put(c)
	j.leave(ending{task: j.Task, status: c.Status})
}

// leave takes the task from the crew.
func (j *job) leave(e ending) {
	j.ended = true
	if j.hush != nil {
		j.hush()
	}
	delete(j.crew.jobs, j.Task)
	j.crew.endings = append(j.crew.endings, e)
}

// handBack gives the task to another execution.
func (j *job) handBack() {
	back := j.Assignment
	j.leave(ending{task: j.Task, back: &back})
}

// again queues the task anew, as the attempt and dispatch that it has now.
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

// retryReason says why there is another attempt.
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
