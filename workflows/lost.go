package workflows

import (
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// checkRemoved checks whether the executor that is to adopt the task was removed
// before the records listed this run as waiting for it. After that, a signal
// reports a removal.
func (j *taskRun) checkRemoved(ctx workflow.Context, executor string) {
	noted := j.taskSet.writes.noteWithFuture(ctx, run.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusRunning, Executor: executor,
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		_ = noted.Get(ctx, nil) // never fails: it is settled by value
		if j.ended {
			return
		}
		out, err := j.taskSet.calls.holdersAndRemoved(ctx, []string{executor}, j.Task)
		if err != nil {
			workflow.GetLogger(ctx).Warn("failed to check whether an executor was removed", "task", j.Name, "executor", executor, "error", err)
		}
		for _, gone := range out.Removed {
			j.taskSet.remove(ctx, gone)
		}
	})
}

// handleRemoval returns the outcome of a dispatch whose executor was removed. If that
// executor had not claimed the dispatch, it can no longer do so, and no step
// has run.
func (j *taskRun) handleRemoval(ctx workflow.Context, executor, why string) outcome {
	reason := removalReason(executor, why)
	out, err := j.taskSet.calls.holders(ctx, j.Task)
	for _, h := range out.Holders {
		if h.Task != j.Task || h.Attempt != j.Attempt || h.Dispatch != j.Dispatch {
			continue
		}
		if _, removed := j.taskSet.removed[h.Executor]; removed || h.Executor == executor {
			return outcome{kind: outcomeLost, reason: reason}
		}
		// If the executor is a member of a set, any member may have the task by now.
		return j.adopt(ctx, contract.Heartbeat{Executor: h.Executor, Set: h.Set})
	}
	if err != nil { // the records refuse: the run no longer exists
		return outcome{kind: outcomeLost, reason: reason}
	}
	return outcome{kind: outcomeNotStarted, reason: "executor " + executor + " was removed before it began"}
}

// failRunning ends the wait for answers to execute-task from a removed
// executor, whose heartbeats may not have timed out yet.
func (c *taskSet) failRunning(ctx workflow.Context, gone contract.ExecutorRemoved) {
	var tasks []int
	c.each(func(j *taskRun) {
		if j.answer != nil {
			tasks = append(tasks, j.Task)
		}
	})
	if len(tasks) == 0 {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := c.calls.holders(ctx, tasks...)
		if err != nil {
			workflow.GetLogger(ctx).Warn("failed to read the holders of tasks", "error", err)
		}
		for _, h := range out.Holders {
			j := c.taskRuns[h.Task]
			if h.Executor != gone.Executor || j == nil || j.answer == nil || j.answered() || j.Attempt != h.Attempt || j.Dispatch != h.Dispatch {
				continue
			}
			j.failLost(ctx, removalReason(gone.Executor, gone.Reason))
		}
	})
}

// failSets ends the wait for removed executor sets. The signal of a removal
// names the member that held the task according to the records. The run may
// wait for another member, which adopted the task later, or for any member.
func (c *taskSet) failSets(ctx workflow.Context, gone contract.ExecutorRemoved) {
	var tasks []int
	c.each(func(j *taskRun) {
		if j.cancelAdopt != nil && j.set != "" && j.holder != gone.Executor {
			tasks = append(tasks, j.Task)
		}
	})
	if len(tasks) == 0 {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		claims, err := c.calls.holders(ctx, tasks...)
		var members []string // that claimed the tasks
		for _, h := range claims.Holders {
			if !slices.Contains(members, h.Executor) {
				members = append(members, h.Executor)
			}
		}
		var out contract.HoldersResult
		if err == nil && len(members) > 0 {
			out, err = c.calls.holdersAndRemoved(ctx, members, tasks...)
		}
		if err != nil {
			workflow.GetLogger(ctx).Warn("failed to check whether executor sets were removed", "error", err)
		}
		for _, member := range out.Removed {
			for _, h := range claims.Holders {
				j := c.taskRuns[h.Task]
				if h.Executor != member.Executor || j == nil || j.cancelAdopt == nil || j.set != h.Set || j.Attempt != h.Attempt || j.Dispatch != h.Dispatch {
					continue
				}
				j.orphanReason = removalReason(member.Executor, member.Reason)
				j.cancelAdopt()
			}
		}
	})
}

// failLost continues as if the executor had reported that the task is lost. It
// ignores a later answer.
func (j *taskRun) failLost(ctx workflow.Context, reason string) {
	j.answer = nil
	j.cancel()
	j.base, j.cancel = workflow.WithCancel(ctx)
	j.spawn(func(workflow.Context) outcome { return outcome{kind: outcomeLost, reason: reason} })
}

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
		return outcomeOf(result, run.Release{Executor: last.Executor, Set: last.Set}), last, true
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
	j.taskSet.writes.put(run.TaskChange{
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
