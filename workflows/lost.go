package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// changeRemovals is that the records are asked about executors that were
// removed. It may go when no run is left that began without it.
const changeRemovals = "executor-removals"

// changeSets is that a task of a set is the whole set's to adopt also where the
// records name who has it, and that the removal of a set ends the wait for any
// of its members. It may go when no run is left that began without it.
const changeSets = "set-removals"

// knowsSets reports whether this execution knows that of sets.
func knowsSets(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, changeSets, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// asksRemovals reports whether this execution asks the records.
func asksRemovals(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, changeRemovals, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// askRemoved finds out whether the executor that is to adopt the task was
// removed before the records knew that this run waits for it. From when they
// know it on, a removal is told by a signal.
func (j *job) askRemoved(ctx workflow.Context, executor string) {
	if !asksRemovals(ctx) {
		return
	}
	noted := j.crew.ledger.noteAndTell(ctx, contract.TaskChange{
		Task: j.Task, Attempt: j.Attempt, Dispatch: j.Dispatch, Status: run.StatusRunning, Executor: executor,
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		_ = noted.Get(ctx, nil) // never fails: it is settled by value
		if j.ended {
			return
		}
		out, err := j.crew.calls.ofExecutors(ctx, []string{executor}, j.Task)
		if err != nil {
			workflow.GetLogger(ctx).Warn("asking whether an executor was removed failed", "task", j.Name, "executor", executor, "error", err)
		}
		for _, gone := range out.Removed {
			j.crew.remove(ctx, gone)
		}
	})
}

// lost tells what becomes of a dispatch whose executor was removed. Where that
// one had not claimed it, it can not any more, and nothing has begun.
func (j *job) lost(ctx workflow.Context, executor, why string) outcome {
	reason := lostReason(executor, why)
	if !asksRemovals(ctx) {
		return outcome{kind: outcomeLost, reason: reason}
	}
	out, err := j.crew.calls.holders(ctx, j.Task)
	for _, h := range out.Holders {
		if h.Task != j.Task || h.Attempt != j.Attempt || h.Dispatch != j.Dispatch {
			continue
		}
		if _, removed := j.crew.removed[h.Executor]; removed || h.Executor == executor {
			return outcome{kind: outcomeLost, reason: reason}
		}
		next := contract.Heartbeat{Executor: h.Executor}
		if h.Set != "" && knowsSets(ctx) {
			next.Set = h.Set // whichever member has it by now
		}
		return j.adopt(ctx, next)
	}
	if err != nil { // the records refuse: there is no such run any more
		return outcome{kind: outcomeLost, reason: reason}
	}
	return outcome{kind: outcomeUnbegun, reason: "executor " + executor + " was removed before it began"}
}

// loseRunning ends the wait for the answers to execute-task of an executor that
// was removed: its silence may not have been noticed yet.
func (c *crew) loseRunning(ctx workflow.Context, gone contract.ExecutorRemoved) {
	var tasks []int
	c.each(func(j *job) {
		if j.answer != nil {
			tasks = append(tasks, j.Task)
		}
	})
	if len(tasks) == 0 || !asksRemovals(ctx) {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := c.calls.holders(ctx, tasks...)
		if err != nil {
			workflow.GetLogger(ctx).Warn("asking who has the tasks failed", "error", err)
		}
		for _, h := range out.Holders {
			j := c.jobs[h.Task]
			if h.Executor != gone.Executor || j == nil || j.answer == nil || j.answered() || j.Attempt != h.Attempt || j.Dispatch != h.Dispatch {
				continue
			}
			j.lose(ctx, lostReason(gone.Executor, gone.Reason))
		}
	})
}

// loseSets ends the wait for sets that are gone. A removal is told with the member
// that had the task as far as the records know; the run may wait for another
// one, which took the task over later, or for whichever comes.
func (c *crew) loseSets(ctx workflow.Context, gone contract.ExecutorRemoved) {
	var tasks []int
	c.each(func(j *job) {
		if j.abandon != nil && j.set != "" && j.holder != gone.Executor {
			tasks = append(tasks, j.Task)
		}
	})
	if len(tasks) == 0 || !knowsSets(ctx) {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		had, err := c.calls.holders(ctx, tasks...)
		var members []string // that claimed the tasks
		for _, h := range had.Holders {
			if !slices.Contains(members, h.Executor) {
				members = append(members, h.Executor)
			}
		}
		var out contract.HoldersResult
		if err == nil && len(members) > 0 {
			out, err = c.calls.ofExecutors(ctx, members, tasks...)
		}
		if err != nil {
			workflow.GetLogger(ctx).Warn("asking whether sets are gone failed", "error", err)
		}
		for _, member := range out.Removed {
			for _, h := range had.Holders {
				j := c.jobs[h.Task]
				if h.Executor != member.Executor || j == nil || j.abandon == nil || j.set != h.Set || j.Attempt != h.Attempt || j.Dispatch != h.Dispatch {
					continue
				}
				j.forsaken = lostReason(member.Executor, member.Reason)
				j.abandon()
			}
		}
	})
}

// lose goes on as if the executor had answered that the task is lost. What it
// answers later is not heard any more.
func (j *job) lose(ctx workflow.Context, reason string) {
	j.answer = nil
	j.cancel()
	j.base, j.cancel = workflow.WithCancel(ctx)
	j.proceed(func(workflow.Context) outcome { return outcome{kind: outcomeLost, reason: reason} })
}
