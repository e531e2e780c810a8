package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// outcomeKind is the kind of a dispatch's outcome.
type outcomeKind int

const (
	outcomeQueued       outcomeKind = iota // none yet: it is recorded as queued
	outcomeEnded                           // the task ended: result
	outcomeNotStarted                      // no step ran or will run, unless the records have a claim: dispatch again
	outcomeNotClaimed                      // it was withdrawn or stopped before any executor claimed it
	outcomeLost                            // its executor was removed: reason
	outcomeAlreadyFinal                    // the records have it as final: status
	outcomeReturned                        // another execution continues it
	outcomeCondition                       // its condition could not be evaluated yet: queue it again
)

// outcome is the outcome of a dispatch.
type outcome struct {
	kind   outcomeKind
	result *run.TaskResult
	status run.Status
	reason string
	// notAcquired belongs to outcomeNotStarted: no executor took the dispatch in
	// time.
	notAcquired bool
	// released belongs to outcomeNotStarted: the journal that confirms it. It
	// is nil if it is not known to be the claim's own journal; then the records
	// decide.
	released run.Release
}

// read interprets the result of execute-task. If the result does not say
// whether the task began, read asks the holder until that is known.
func (j *taskRun) read(ctx workflow.Context, result contract.ExecuteResult, err error) outcome {
	var timeout *temporal.TimeoutError
	switch {
	case err == nil && result.Claimed != nil:
		return j.adopt(ctx, *result.Claimed)
	case err == nil:
		return outcomeOf(result, run.Release{})
	case temporal.IsCanceledError(err):
		return outcome{kind: outcomeNotClaimed} // the holder of a task answers with its end
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		var last contract.Heartbeat
		if !timeout.HasLastHeartbeatDetails() || timeout.LastHeartbeatDetails(&last) != nil {
			// The first heartbeat comes before the claim, so nothing of this
			// delivery began.
			return outcome{kind: outcomeNotStarted, reason: "the executor that received it lost contact before it began"}
		}
		j.outOfContact(ctx, last)
		return j.adopt(ctx, last)
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		// If this execution was reset, another dispatch may be claimed.
		out := j.lookUp(ctx, "no instance took it within "+formatDuration(j.acquireTimeout))
		out.notAcquired = out.kind == outcomeNotStarted
		return out
	}
	if back, ok := requeued(err); ok {
		return outcome{
			kind: outcomeNotStarted, reason: fmt.Sprintf("executor %s requeued it: %s", back.Executor, back.Reason),
			released: run.Release{JournalID: back.JournalID},
		}
	}
	workflow.GetLogger(ctx).Warn("execute-task failed with an unknown error", "task", j.Name, "error", err)
	return j.lookUp(ctx, "its executor failed before it began: "+err.Error())
}

// outcomeOf interprets a result without a claim. asked is the holder that was
// asked about its claim; its answer is trusted even if it names no journal.
func outcomeOf(r contract.ExecuteResult, asked run.Release) outcome {
	switch {
	case r.Ended != nil:
		return outcome{kind: outcomeEnded, result: r.Ended}
	case r.NeverStarted == "": // an operator completed the activity manually
		return outcome{kind: outcomeNotStarted, reason: "its executor had not begun it"}
	case r.JournalID != "":
		asked = run.Release{JournalID: r.JournalID}
	}
	return outcome{kind: outcomeNotStarted, reason: r.NeverStarted, released: asked}
}

// requeued returns the details of an error by which an executor requeues a
// task.
func requeued(err error) (contract.Requeue, bool) {
	var application *temporal.ApplicationError
	if !errors.As(err, &application) || application.Type() != contract.ErrorRequeued {
		return contract.Requeue{}, false
	}
	var back contract.Requeue
	if application.Details(&back) != nil || back.Reason == "" {
		back.Reason = application.Message()
	}
	return back, true
}

// handle acts on an outcome. more is true if the task is recorded as queued and
// is to be dispatched.
func (j *taskRun) handle(ctx workflow.Context, out outcome) (more bool) {
	if j.skipped {
		j.skip()
		return false
	}
	switch out.kind {
	case outcomeQueued:
		if j.recorded == nil { // it was not recorded, because the task set was stopped before
			j.skip()
			return false
		}
		return true
	case outcomeAlreadyFinal:
		j.detach(ending{task: j.Task, status: out.status})
		return false
	case outcomeReturned:
		j.returnToOwner()
		return false
	case outcomeNotClaimed:
		j.skip()
		return false
	case outcomeNotStarted:
		if j.mustNotStart() {
			j.skip()
			return false
		}
		j.Dispatch++
		j.Requeued++
		j.released, j.notAcquired = out.released, out.notAcquired
		return j.requeue(ctx, out.reason, requeueBackoff(j.Requeued))
	case outcomeCondition:
		return j.requeue(ctx, "", 0)
	case outcomeEnded:
		return j.handleEnd(ctx, *out.result, j.retries(ctx, *out.result))
	case outcomeLost:
		lost := run.TaskResult{Status: run.StatusFailed, Cause: run.CauseExecutorLost, Reason: out.reason, Ended: workflow.Now(ctx)}
		return j.handleEnd(ctx, lost, j.OnLost == run.OnLostRetry)
	}
	return false
}

// handleEnd ends the task, or begins its next attempt.
func (j *taskRun) handleEnd(ctx workflow.Context, result run.TaskResult, retry bool) (more bool) {
	if !result.Status.Final() {
		result.Status, result.Reason = run.StatusFailed, fmt.Sprintf("its executor reported the status %q as its end", result.Status)
	}
	if result.Status == run.StatusStopped && j.Stop && !j.isStopped() {
		result.Reason = j.Withdrawn
	}
	if result.Status != run.StatusFailed || !retry || j.mustNotStart() || j.Attempt >= max(1, j.Retry.MaxAttempts) {
		j.end(run.TaskChange{Status: result.Status, Reason: result.Reason, Result: &result})
		return false
	}
	wait := j.Retry.Delay(j.Attempt, fmt.Sprintf("%s/%d", j.taskSet.calls.run, j.Task))
	reason := retryReason(j.Attempt, result.Reason, wait)
	result.Steps = nil // the records have the attempt's steps; this copy may move to another execution
	j.Last = &result
	j.Attempt++
	j.Dispatch, j.Requeued = 1, 0
	return j.requeue(ctx, reason, wait)
}

// retries reports whether the retry policy allows another attempt after a
// failure.
func (j *taskRun) retries(ctx workflow.Context, r run.TaskResult) bool {
	if r.Cause == run.CauseExecutorLost {
		return j.OnLost == run.OnLostRetry
	}
	policy := j.Retry
	fine := func(on run.RetryOn) bool { return on != run.RetryFailed && on != run.RetryStartFailed }
	if (len(policy.ExitCodes) > 0 || slices.ContainsFunc(policy.On, fine)) &&
		workflow.GetVersion(ctx, changeRetryConditions, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		// A control worker that did not know these conditions has decided so.
		policy.ExitCodes = nil
		policy.On = slices.DeleteFunc(slices.Clone(policy.On), fine)
	}
	return policy.Allows(r.Cause, r.ExitCode)
}

// skip ends a task that no executor holds and that must not start.
func (j *taskRun) skip() {
	if j.skipped {
		j.detach(ending{task: j.Task, status: run.StatusSkipped})
		return
	}
	j.end(skippedChange(j.Assignment, j.taskSet.stopped))
}

// skippedChange returns the last change of a task that must not start. If an earlier
// attempt ran, the task keeps that attempt's result.
func skippedChange(a contract.Assignment, stopped *contract.Stop) run.TaskChange {
	c := run.TaskChange{Task: a.Task, Attempt: a.Attempt, Dispatch: a.Dispatch, Status: run.StatusSkipped}
	switch {
	case stops(stopped, a.Finally) && a.Attempt > 1:
		c.Status, c.Result = run.StatusStopped, a.Last
		c.Reason = fmt.Sprintf("%s before attempt %d", reasonOf(stopped, a.Finally), a.Attempt)
	case stops(stopped, a.Finally):
		c.Reason = reasonOf(stopped, a.Finally)
	case a.Last != nil:
		c.Status, c.Result = a.Last.Status, a.Last
		c.Reason = retryReason(a.Attempt-1, a.Last.Reason, 0) + "; not tried again: " + a.Withdrawn
	default:
		c.Reason = a.Withdrawn
	}
	return c
}

// requeueBackoff returns how long a task waits after its n-th requeue in a row: not at
// all at first, then longer each time. It needs no jitter, because the
// executors' polls spread tasks that become due together.
func requeueBackoff(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return min(maxBackoff, firstBackoff<<min(n-2, 10))
}
