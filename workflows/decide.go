package workflows

import (
	"slices"

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
		if d.Status == run.StatusWaitingApproval && r.plan.Nodes[r.graph.NodeOf(d.Task)].If {
			r.conditions.put(ctx, change)
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

// conditions waits for the records to decide tasks that have a condition and need
// an approval. The records evaluate the condition when the task begins to wait, so
// that no client approves a task that is skipped. Conditions of other tasks are
// evaluated when the task is queued: see taskRun.reconcile.
type conditions struct {
	r    *runner
	open []*openCondition // in the order of the decisions
}

// openCondition is a task whose condition is not known yet.
type openCondition struct {
	change  run.TaskChange
	written workflow.Future // of the change
	again   workflow.Future // the timer of the next attempt; nil for none
	waits   int
}

func (c *conditions) put(ctx workflow.Context, change run.TaskChange) {
	c.open = append(c.open, &openCondition{change: change, written: c.r.writes.putWithFuture(ctx, change)})
}

// apply handles the answers of the records.
func (c *conditions) apply(ctx workflow.Context) {
	c.open = slices.DeleteFunc(c.open, func(o *openCondition) bool { return o.ready() && c.applyOne(ctx, o) })
}

// applyOne handles an answer, and reports whether the task is decided.
func (c *conditions) applyOne(ctx workflow.Context, o *openCondition) bool {
	if o.again != nil {
		o.again = nil
		if c.r.graph.Status(o.change.Task) != run.StatusWaitingApproval { // stopped or withdrawn meanwhile
			return true
		}
		o.written = c.r.writes.putWithFuture(ctx, o.change)
		return false
	}
	var s run.TaskStatus
	_ = o.written.Get(ctx, &s) // never fails: it is settled by value
	switch {
	case s.Status.Final():
		c.r.ended(o.change.Task, s.Status)
		return true
	case s.Status != run.StatusNotStarted:
		return true
	}
	o.waits++
	o.again = workflow.NewTimer(ctx, requeueBackoff(o.waits+1))
	return false
}

func (o *openCondition) ready() bool {
	if o.again != nil {
		return o.again.IsReady()
	}
	return o.written.IsReady()
}

// hasWork reports whether apply has work. It has no side effects, so conditions
// may call it.
func (c *conditions) hasWork() bool { return slices.ContainsFunc(c.open, (*openCondition).ready) }

func (c *conditions) idle() bool { return len(c.open) == 0 }
