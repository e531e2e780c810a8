package workflows

import (
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// adopt follows a dispatch that an executor holds, until the executor reports
// how it ended or that it never began, or until the executor is removed. last
// is the last heartbeat, which names the executor.
func (j *taskRun) adopt(ctx workflow.Context, last contract.Heartbeat) outcome {
	if last.Executor == "" && last.Set == "" {
		return j.lookUp(ctx, "it was delivered twice, and no executor had begun it")
	}
	j.Adopt = &last
	for n := 1; ; n++ {
		if why, removed := j.taskSet.removed[last.Executor]; removed {
			return j.handleRemoval(ctx, last.Executor, why)
		}
		if why := j.orphanReason; why != "" {
			j.orphanReason = ""
			return outcome{kind: outcomeLost, reason: why}
		}
		if n > 1 && j.taskSet.historyExhausted(ctx) {
			return outcome{kind: outcomeReturned}
		}
		out, next, done := j.adoptOnce(ctx, last, n)
		if done {
			return out
		}
		last = next
		j.Adopt = &last
	}
}

// adoptOnce schedules adopt-task once. If the answer did not report the end,
// next names the executor to ask next.
func (j *taskRun) adoptOnce(ctx workflow.Context, last contract.Heartbeat, n int) (out outcome, next contract.Heartbeat, done bool) {
	var waiting workflow.Context
	waiting, j.cancelAdopt = workflow.WithCancel(ctx)
	defer func() { j.cancelAdopt(); j.cancelAdopt = nil }()
	j.holder, j.set = last.Executor, last.Set
	if n == 1 && last.Executor != "" {
		j.checkRemoved(ctx, last.Executor)
	}
	result, err := j.taskSet.calls.adopt(waiting, j.Assignment)
	var timeout *temporal.TimeoutError
	switch {
	case err == nil && result.Claimed != nil && (result.Claimed.Executor != "" || result.Claimed.Set != ""):
		next = *result.Claimed
	case err == nil && result.Claimed != nil:
		next = last
	case err == nil:
		return outcomeOf(result, contract.Release{Executor: last.Executor, Set: last.Set}), last, true
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		// The adopting executor is gone as well. The heartbeat timeout was
		// pause enough.
		next = last
		var details contract.Heartbeat
		if timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&details) == nil && details.Executor != "" {
			next = details
		}
		j.outOfContact(ctx, next)
		return outcome{}, next, false
	default:
		next = last
	}
	if !temporal.IsCanceledError(err) {
		_ = workflow.Sleep(waiting, requeueBackoff(n+1)) // cut short by a removal
	}
	return outcome{}, next, false
}

// outOfContact records that the task's executor is out of contact.
func (j *taskRun) outOfContact(ctx workflow.Context, last contract.Heartbeat) {
	holderName := "executor " + last.Executor
	if last.Set != "" {
		holderName += " of set " + last.Set
	}
	since := workflow.Now(ctx).Add(-heartbeatTimeout)
	j.taskSet.writes.put(contract.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusRunning, Executor: last.Executor,
		Reason: fmt.Sprintf("%s out of contact since %s", holderName, formatTime(since)),
	})
}

func removalReason(executor, why string) string {
	s := fmt.Sprintf("executor %s was removed while it had the task", executor)
	if why != "" {
		s += ": " + why
	}
	return s
}
