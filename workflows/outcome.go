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

// outcomeKind is what became of a dispatch.
type outcomeKind int

const (
	outcomeQueued     outcomeKind = iota // nothing yet: it is noted as queued
	outcomeEnded                         // the task ended: result
	outcomeUnbegun                       // no step ran or will run, unless the records say that it is claimed: a new dispatch
	outcomeUntaken                       // it was withdrawn, or stopped, and nobody had it
	outcomeLost                          // its executor was removed: reason
	outcomeStands                        // the records have it as final: status
	outcomeHandedBack                    // another execution goes on with it
)

// outcome is what became of a dispatch.
type outcome struct {
	kind   outcomeKind
	result *run.TaskResult
	status run.Status
	reason string
	// released is, of outcomeUnbegun, who vouches for that; nil where it is not
	// known that the claim's own journal does: then the records are asked.
	released *contract.Release
}

// read tells what the answer to execute-task means. Where it leaves open
// whether the task began, whoever has it is asked until that is known.
func (j *job) read(ctx workflow.Context, result contract.ExecuteResult, err error) outcome {
	var timeout *temporal.TimeoutError
	switch {
	case err == nil && result.Claimed != nil:
		return j.adopt(ctx, *result.Claimed)
	case err == nil:
		return answered(result, contract.Release{})
	case temporal.IsCanceledError(err):
		return outcome{kind: outcomeUntaken} // whoever has a task answers with its end
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		var last contract.Heartbeat
		if !timeout.HasLastHeartbeatDetails() || timeout.LastHeartbeatDetails(&last) != nil {
			// The first heartbeat comes before the claim, so nothing began of
			// this delivery.
			return outcome{kind: outcomeUnbegun, reason: "the executor that took it fell silent before it began"}
		}
		j.outOfContact(ctx, last)
		return j.adopt(ctx, last)
	}
	if back, ok := givenBack(err); ok {
		return outcome{
			kind: outcomeUnbegun, reason: fmt.Sprintf("executor %s gave it back: %s", back.Executor, back.Reason),
			released: release(contract.Release{JournalID: back.JournalID}),
		}
	}
	workflow.GetLogger(ctx).Warn("a task was answered with an unknown error", "task", j.Name, "error", err)
	return j.lookUp(ctx, "its executor failed before it began: "+err.Error())
}

// answered reads an answer without claim. asked is who was asked about the
// claim that it has: the word of one that names no journal is taken for it.
func answered(r contract.ExecuteResult, asked contract.Release) outcome {
	switch {
	case r.Ended != nil:
		return outcome{kind: outcomeEnded, result: r.Ended}
	case r.NeverStarted == "": // an operator completed the activity by hand
		return outcome{kind: outcomeUnbegun, reason: "its executor had not begun it"}
	case r.JournalID != "":
		asked = contract.Release{JournalID: r.JournalID}
	}
	return outcome{kind: outcomeUnbegun, reason: r.NeverStarted, released: release(asked)}
}

// release returns nil where a release names no journal and no executor.
func release(r contract.Release) *contract.Release {
	if r == (contract.Release{}) {
		return nil
	}
	return &r
}

// givenBack returns the details of an error that gives a task back.
func givenBack(err error) (contract.GiveBack, bool) {
	var application *temporal.ApplicationError
	if !errors.As(err, &application) || application.Type() != contract.ErrorGivenBack {
		return contract.GiveBack{}, false
	}
	var back contract.GiveBack
	if application.Details(&back) != nil || back.Reason == "" {
		back.Reason = application.Message()
	}
	return back, true
}

// follow does what follows from an outcome. more says that the task is noted
// as queued and is to be dispatched.
func (j *job) follow(ctx workflow.Context, out outcome) (more bool) {
	if j.gone {
		j.drop()
		return false
	}
	switch out.kind {
	case outcomeQueued:
		if j.recorded == nil { // it was not noted, since the crew had stopped before
			j.drop()
			return false
		}
		return true
	case outcomeStands:
		j.leave(ending{task: j.Task, status: out.status})
		return false
	case outcomeHandedBack:
		j.handBack()
		return false
	case outcomeUntaken:
		j.drop()
		return false
	case outcomeUnbegun:
		if j.unwanted() {
			j.drop()
			return false
		}
		j.Dispatch++
		j.GivenBack++
		j.released = out.released
		return j.again(ctx, out.reason, pause(j.GivenBack))
	case outcomeEnded:
		return j.followEnd(ctx, *out.result, j.retries(*out.result))
	case outcomeLost:
		lost := run.TaskResult{Status: run.StatusFailed, Cause: run.CauseExecutorLost, Reason: out.reason, Ended: workflow.Now(ctx)}
		return j.followEnd(ctx, lost, j.OnLost == run.OnLostRetry)
	}
	return false
}

// followEnd ends the task, or begins its next attempt.
func (j *job) followEnd(ctx workflow.Context, result run.TaskResult, retry bool) (more bool) {
	if !result.Status.Final() {
		result.Status, result.Reason = run.StatusFailed, fmt.Sprintf("its executor told the status %q as its end", result.Status)
	}
	if result.Status != run.StatusFailed || !retry || j.unwanted() || j.Attempt >= max(1, j.Retry.MaxAttempts) {
		j.end(contract.TaskChange{Status: result.Status, Reason: result.Reason, Result: &result})
		return false
	}
	wait := j.Retry.Backoff.Std()
	reason := retryReason(j.Attempt, result.Reason, wait)
	result.Steps = nil // the attempt's own are in the records; this copy may travel
	j.Last = &result
	j.Attempt++
	j.Dispatch, j.GivenBack = 1, 0
	return j.again(ctx, reason, wait)
}

// retries reports whether the user wants another attempt after a failure.
func (j *job) retries(r run.TaskResult) bool {
	on := j.Retry.On
	if on == nil {
		on = []run.RetryOn{run.RetryFailed, run.RetryStartFailed}
	}
	switch r.Cause {
	case run.CauseExecutorLost:
		return j.OnLost == run.OnLostRetry
	case run.CauseInput:
		return false
	case run.CauseStart:
		return slices.Contains(on, run.RetryStartFailed)
	case run.CauseStep, run.CauseTimeout, run.CauseOOM, run.CauseVanished:
	}
	return slices.Contains(on, run.RetryFailed)
}

// drop ends a task that nobody has and that must not begin.
func (j *job) drop() {
	if j.gone {
		j.leave(ending{task: j.Task, status: run.StatusSkipped})
		return
	}
	j.end(dropped(j.Assignment, j.crew.stopped))
}

// dropped says how a task ends that must not begin. If an earlier attempt ran,
// it is not one that never began.
func dropped(a contract.Assignment, stopped *contract.Stop) contract.TaskChange {
	c := contract.TaskChange{Task: a.Task, Attempt: a.Attempt, Dispatch: a.Dispatch, Status: run.StatusSkipped}
	switch {
	case stopped != nil && a.Attempt > 1:
		c.Status, c.Result = run.StatusStopped, a.Last
		c.Reason = fmt.Sprintf("%s before attempt %d", stopped.Reason, a.Attempt)
	case stopped != nil:
		c.Reason = stopped.Reason
	case a.Last != nil:
		c.Status, c.Result = a.Last.Status, a.Last
		c.Reason = retryReason(a.Attempt-1, a.Last.Reason, 0) + "; not tried again: " + a.Withdrawn
	default:
		c.Reason = a.Withdrawn
	}
	return c
}

// pause is how long a task waits after it was given back for the n-th time in
// a row: not at all at first, then longer and longer. No jitter is needed,
// since the executors' polls spread what comes due together.
func pause(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return min(longestPause, firstPause<<min(n-2, 10))
}
