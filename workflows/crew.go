package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// crew runs tasks within one execution. Its owner, a run or a batch, gives it
// tasks, wakes it, writes its ledger and takes the endings.
type crew struct {
	calls   calls
	ledger  *ledger
	limits  contract.Limits
	jobs    map[int]*job // by task; those that did not end
	endings []ending
	stopped *contract.Stop
	removed map[string]string // executors, and why
	given   int               // tasks, ever
	// pursuing says that a coroutine sees to it that a stop arrives.
	pursuing bool
}

// ending is how the crew got rid of a task.
type ending struct {
	task   int
	status run.Status
	// back is set where the task did not end: this execution's history is
	// long, and another must run it from there on.
	back *contract.Assignment
}

func newCrew(c calls, l *ledger, limits contract.Limits) *crew {
	return &crew{calls: c, ledger: l, limits: limits, jobs: map[int]*job{}, removed: map[string]string{}}
}

// start takes tasks. One that the crew has already is left out.
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

// answered reports whether there is a task to wake. It is fit for conditions.
func (c *crew) answered() bool {
	// In whatever order, the answer is the same.
	//workflowcheck:ignore
	for _, j := range c.jobs {
		if j.answered() {
			return true
		}
	}
	return false
}

// wake goes on with the tasks whose executors have answered.
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

// each calls f for every task that did not end, ascending.
func (c *crew) each(f func(*job)) {
	for _, task := range workflow.DeterministicKeys(c.jobs) {
		f(c.jobs[task])
	}
}

// stop ends every task as soon as nobody executes it. Once is enough, a
// further call changes nothing.
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

// withdraw forbids tasks to begin, or to begin anew; one that an executor has
// already goes on.
func (c *crew) withdraw(ctx workflow.Context, tasks []int, reason string) {
	for _, task := range tasks {
		if j := c.jobs[task]; j != nil {
			j.withdraw(ctx, reason)
		}
	}
}

// remove ends the wait for tasks of an executor that was removed.
func (c *crew) remove(ctx workflow.Context, gone contract.ExecutorRemoved) {
	if _, known := c.removed[gone.Executor]; known {
		return
	}
	c.removed[gone.Executor] = gone.Reason
	c.each(func(j *job) { j.executorRemoved(gone.Executor) })
	c.loseRunning(ctx, gone)
	c.loseSets(ctx, gone)
}

// removals returns what remove was told, sorted.
func (c *crew) removals() []contract.ExecutorRemoved {
	var out []contract.ExecutorRemoved
	for _, id := range workflow.DeterministicKeys(c.removed) {
		out = append(out, contract.ExecutorRemoved{Executor: id, Reason: c.removed[id]})
	}
	return out
}

// spent reports whether the execution's history is long enough that nothing
// new should begin in it.
func (c *crew) spent(ctx workflow.Context) bool { return spent(ctx, c.limits) }

func spent(ctx workflow.Context, l contract.Limits) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() >= l.Events || info.GetContinueAsNewSuggested()
}
