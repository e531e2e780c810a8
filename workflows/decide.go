package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

const (
	stopReason     = "the run was stopped"
	closedReason   = "the run was closed from outside"
	forcedReason   = "the stop of the run was forced"
	failFastReason = "fail_fast is set and a task has failed"
)

// applyResults applies the results of the execution's own tasks.
func (r *runner) applyResults() {
	for _, e := range r.taskSet.takeEndings() {
		if e.returned != nil {
			r.batches.queue(*e.returned)
			continue
		}
		r.ended(e.task, e.status)
	}
}

// applyReport applies a report of a batch. It is idempotent.
func (r *runner) applyReport(rep contract.BatchReport) {
	for _, e := range rep.Ended {
		if r.batches.ended(rep.Batch, e.Task) {
			r.ended(e.Task, e.Status)
		}
	}
	for _, a := range rep.Returned {
		if r.batches.ended(rep.Batch, a.Task) {
			r.batches.queue(a)
		}
	}
}

// ended records the end of a task.
func (r *runner) ended(task int, status run.Status) {
	before := r.graph.Result()
	if !r.graph.Set(task, status) {
		return
	}
	if before != run.ResultFailed && r.graph.Result() == run.ResultFailed {
		r.failedTask = task
	}
	if stops(r.stopped, r.graph.IsFinally(task)) && (status == run.StatusStopped || status == run.StatusSkipped) {
		r.interrupted = true
	}
}

func (r *runner) approve(task int) {
	if r.graph != nil {
		r.graph.Approve(task)
	}
}

// decide records which tasks follow from the ends of others, and starts the
// ready tasks inline or in batches.
func (r *runner) decide(ctx workflow.Context) {
	r.withdraw(ctx)
	var start []contract.Assignment
	for _, d := range r.graph.Next() {
		switch {
		case d.Status == run.StatusQueued && r.graph.AwaitsDynamicTasks(d.Task):
			r.dynamicTasks.queue = append(r.dynamicTasks.queue, d.Task)
			continue
		case d.Status == run.StatusQueued:
			start = append(start, r.assignment(d.Task))
			continue
		}
		change := run.TaskChange{Task: d.Task, Status: d.Status, Reason: d.Reason}
		if d.Status == run.StatusWaitingApproval && r.plan.Nodes[r.graph.NodeOf(d.Task)].If || d.Status == run.StatusWaitingChangeGroup {
			r.waits.put(ctx, change)
			continue
		}
		r.writes.put(change)
	}
	r.dynamicTasks.expandNext(ctx)
	start = r.finally.hold(start)
	if r.inline(ctx, len(start)) {
		r.taskSet.start(ctx, start...)
	} else {
		r.batches.queue(start...)
	}
	r.batches.dispatch(ctx)
	r.finally.bound(ctx)
}

// inline reports whether this execution itself runs the tasks that are ready. A
// small run always does. A large run does while everything else waits for a
// single task: a batch would not be faster, and nothing can fill the history
// while the task keeps this execution from continuing as new.
func (r *runner) inline(ctx workflow.Context, tasks int) bool {
	if r.taskSet.historyExhausted(ctx) {
		return false
	}
	return r.open <= r.limits.InlineTasks || tasks == 1 && r.taskSet.idle() && r.batches.idle()
}

// withdraw withdraws, once, the tasks that fail fast forbids to start, and stops those
// that run if the plan says so.
func (r *runner) withdraw(ctx workflow.Context) {
	if r.failFastApplied || !r.graph.FailingFast() {
		return
	}
	r.failFastApplied = true
	if tasks := r.graph.TasksToWithdraw(); len(tasks) > 0 {
		r.taskSet.withdraw(ctx, tasks, failFastReason, r.plan.StopRunning)
		r.batches.withdraw(ctx, tasks)
	}
}

func (r *runner) assignment(task int) contract.Assignment {
	n := r.plan.Nodes[r.graph.NodeOf(task)]
	pool := ""
	if n.Pool < len(r.plan.Pools) {
		pool = r.plan.Pools[n.Pool]
	}
	return contract.Assignment{
		Task: task, Name: r.graph.Name(task), Pool: pool, Retry: n.Retry, OnLost: n.OnLost, Labels: n.Labels, Attempt: 1, Dispatch: 1, Finally: n.Finally,
	}
}
