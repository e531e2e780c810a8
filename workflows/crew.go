package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// crew runs tasks within one execution. Its owner, a run or a batch, adds
// tasks, wakes it, flushes its pending writes and takes the endings.
type crew struct {
	calls   calls
	ledger  *ledger
	limits  contract.Limits
	jobs    map[int]*job // tasks that did not end, by number
	endings []ending
	stopped *contract.Stop
	removed map[string]string // removed executors, with the reason
	given   int               // tasks started in total
	// pursuing is true while a coroutine propagates a stop.
	pursuing bool
}

// ending is a task that left the task set.
type ending struct {
	task   int
	status run.Status
	// back is set if the task did not end: this execution's history is long,
	// and another execution must continue the task.
	back *contract.Assignment
}

func newCrew(c calls, l *ledger, limits contract.Limits) *crew {
	return &crew{calls: c, ledger: l, limits: limits, jobs: map[int]*job{}, removed: map[string]string{}}
}

// start adds tasks. It ignores tasks that the set has already.
func (c *crew) start(ctx workflow.Context, tasks ...contract.Assignment) {
	for _, a := range tasks {
		if c.jobs[a.Task] != nil {
			continue
		}
		c.given++
		c.jobs[a.Task] = newJob(ctx, c, a)
	}
	c.pursueIfStopped(ctx)
}

// answered reports whether wake has work. It has no side effects, so conditions
// may call it.
func (c *crew) answered() bool {
	// The result does not depend on the order.
	//workflowcheck:ignore
	for _, j := range c.jobs {
		if j.answered() {
			return true
		}
	}
	return false
}

// wake continues the tasks whose executors have answered.
func (c *crew) wake(ctx workflow.Context) {
	if !c.answered() {
		return
	}
	c.each(func(j *job) {
		if j.answered() {
			j.wake(ctx)
		}
	})
}

// take returns the endings since the last call.
func (c *crew) take() []ending {
	out := c.endings
	c.endings = nil
	return out
}

func (c *crew) idle() bool { return len(c.jobs) == 0 && len(c.endings) == 0 }

// each calls f for every task that did not end, in ascending order.
func (c *crew) each(f func(*job)) {
	for _, task := range workflow.DeterministicKeys(c.jobs) {
		f(c.jobs[task])
	}
}

// stop ends every task as soon as no executor runs it. Further calls have no
// effect.
func (c *crew) stop(ctx workflow.Context, why contract.Stop) {
	if c.stopped != nil {
		return
	}
	c.stopped = &why
	c.each(func(j *job) { j.cancel() })
	c.pursueIfStopped(ctx)
}

func (c *crew) pursueIfStopped(ctx workflow.Context) {
	if c.stopped != nil && !c.pursuing && len(c.jobs) > 0 {
		c.pursuing = true
		workflow.Go(ctx, c.pursue)
	}
}

// withdraw forbids tasks to start a first or another attempt. A task that an
// executor holds continues.
func (c *crew) withdraw(ctx workflow.Context, tasks []int, reason string) {
	for _, task := range tasks {
		if j := c.jobs[task]; j != nil {
			j.withdraw(ctx, reason)
		}
	}
}

// remove ends the wait for tasks of a removed executor.
func (c *crew) remove(ctx workflow.Context, gone contract.ExecutorRemoved) {
	if _, known := c.removed[gone.Executor]; known {
		return
	}
	c.removed[gone.Executor] = gone.Reason
	c.each(func(j *job) { j.executorRemoved(gone.Executor) })
	c.loseRunning(ctx, gone)
	c.loseSets(ctx, gone)
}

// removals returns the removed executors, sorted.
func (c *crew) removals() []contract.ExecutorRemoved {
	var out []contract.ExecutorRemoved
	for _, id := range workflow.DeterministicKeys(c.removed) {
		out = append(out, contract.ExecutorRemoved{Executor: id, Reason: c.removed[id]})
	}
	return out
}

// spent reports whether the history is so long that no further task should
// start in this execution.
func (c *crew) spent(ctx workflow.Context) bool { return spent(ctx, c.limits) }

func spent(ctx workflow.Context, l contract.Limits) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() >= l.Events || info.GetContinueAsNewSuggested()
}
