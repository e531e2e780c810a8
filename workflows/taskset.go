package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// taskSet runs tasks within one execution. Its owner, a run or a batch, adds
// tasks, wakes it, flushes its pending writes and takes the endings.
type taskSet struct {
	calls    calls
	writes   *pendingWrites
	limits   contract.Limits
	taskRuns map[int]*taskRun // tasks that did not end, by number
	endings  []ending
	stopped  *contract.Stop
	removed  map[string]string // removed executors, with the reason
	assigned int               // tasks started in total
	// propagatingStop is true while a coroutine propagates a stop.
	propagatingStop bool
	// stopRequests counts what wakes that coroutine: more tasks are to be stopped.
	stopRequests int
	// newlyForced is true until that coroutine has taken note that the stop is forced.
	newlyForced bool
}

// ending is a task that left the task set.
type ending struct {
	task   int
	status run.Status
	// returned is set if the task did not end: this execution's history is long,
	// and another execution must continue the task.
	returned *contract.Assignment
}

func newTaskSet(c calls, l *pendingWrites, limits contract.Limits) *taskSet {
	return &taskSet{calls: c, writes: l, limits: limits, taskRuns: map[int]*taskRun{}, removed: map[string]string{}}
}

// start adds tasks. It ignores tasks that the set has already.
func (c *taskSet) start(ctx workflow.Context, tasks ...contract.Assignment) {
	for _, a := range tasks {
		if c.taskRuns[a.Task] != nil {
			continue
		}
		c.assigned++
		if a.Stop = a.Stop && stopsRunning(ctx); a.Stop {
			c.stopRequests++
		}
		a.Finally = a.Finally && knowsFinally(ctx)
		c.taskRuns[a.Task] = newTaskRun(ctx, c, a)
	}
	c.startPropagateStop(ctx)
}

// answered reports whether wake has work. It has no side effects, so conditions
// may call it.
func (c *taskSet) answered() bool {
	// The result does not depend on the order.
	//workflowcheck:ignore
	for _, j := range c.taskRuns {
		if j.answered() {
			return true
		}
	}
	return false
}

// wake continues the tasks whose executors have answered.
func (c *taskSet) wake(ctx workflow.Context) {
	if !c.answered() {
		return
	}
	c.each(func(j *taskRun) {
		if j.answered() {
			j.wake(ctx)
		}
	})
}

// takeEndings returns the endings since the last call.
func (c *taskSet) takeEndings() []ending {
	out := c.endings
	c.endings = nil
	return out
}

func (c *taskSet) idle() bool { return len(c.taskRuns) == 0 && len(c.endings) == 0 }

// each calls f for every task that did not end, in ascending order.
func (c *taskSet) each(f func(*taskRun)) {
	for _, task := range workflow.DeterministicKeys(c.taskRuns) {
		f(c.taskRuns[task])
	}
}

// stop ends every task as soon as no executor runs it, finally tasks only if the stop
// says so. Further calls have no effect, except the first that is forced, which ends
// the cleanup of the tasks, and the first that ends finally tasks.
func (c *taskSet) stop(ctx workflow.Context, why contract.Stop) {
	if c.stopped != nil {
		c.extendStop(ctx, why)
		return
	}
	c.stopped = &why
	c.stopRequests++
	c.each(func(j *taskRun) {
		if j.isStopped() {
			j.cancel()
		}
	})
	c.startPropagateStop(ctx)
}

func (c *taskSet) extendStop(ctx workflow.Context, why contract.Stop) {
	more, changed := extended(*c.stopped, why)
	if !changed {
		return
	}
	before := *c.stopped
	c.stopped = &more
	if more.Force && !before.Force {
		c.newlyForced = c.propagatingStop
	}
	c.each(func(j *taskRun) {
		if j.isStopped() && !stops(&before, j.Finally) {
			c.stopRequests++
			j.cancel()
		}
	})
	c.startPropagateStop(ctx)
}

func (c *taskSet) startPropagateStop(ctx workflow.Context) {
	if !c.propagatingStop && c.hasStopping() {
		c.propagatingStop = true
		workflow.Go(ctx, c.propagateStop)
	}
}

// stopping returns the tasks that are to be stopped, ascending.
func (c *taskSet) stopping() []int {
	return slices.DeleteFunc(workflow.DeterministicKeys(c.taskRuns), func(task int) bool { return !c.taskRuns[task].stopping() })
}

// hasStopping reports whether there are any. It has no side effects, so conditions
// may call it.
func (c *taskSet) hasStopping() bool {
	// The result does not depend on the order.
	//workflowcheck:ignore
	for _, j := range c.taskRuns {
		if j.stopping() {
			return true
		}
	}
	return false
}

// stopsRunning reports whether this execution stops single tasks. A control worker
// that did not know how has let them continue.
func stopsRunning(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, changeStopRunning, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// knowsFinally reports whether this execution treats finally tasks as such. A control
// worker that did not know them has not.
func knowsFinally(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, changeFinally, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// knowsSlots reports whether this execution makes tasks wait for slots of their change groups.
func knowsSlots(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, changeSlots, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// withdraw forbids tasks to start a first or another attempt. A task that an
// executor holds continues, or is stopped.
func (c *taskSet) withdraw(ctx workflow.Context, tasks []int, reason string, stop bool) {
	stop = stop && stopsRunning(ctx)
	for _, task := range tasks {
		if j := c.taskRuns[task]; j != nil {
			j.withdraw(ctx, reason, stop)
		}
	}
	if stop {
		c.stopRequests++
		c.startPropagateStop(ctx)
	}
}

// remove ends the wait for tasks of a removed executor.
func (c *taskSet) remove(ctx workflow.Context, gone contract.ExecutorRemoved) {
	if _, known := c.removed[gone.Executor]; known {
		return
	}
	c.removed[gone.Executor] = gone.Reason
	c.each(func(j *taskRun) { j.executorRemoved(gone.Executor) })
	c.failRunning(ctx, gone)
	c.failSets(ctx, gone)
}

// removals returns the removed executors, sorted.
func (c *taskSet) removals() []contract.ExecutorRemoved {
	var out []contract.ExecutorRemoved
	for _, id := range workflow.DeterministicKeys(c.removed) {
		out = append(out, contract.ExecutorRemoved{Executor: id, Reason: c.removed[id]})
	}
	return out
}

// historyExhausted reports whether the history is so long that no further task should
// start in this execution.
func (c *taskSet) historyExhausted(ctx workflow.Context) bool { return historyExhausted(ctx, c.limits) }

func historyExhausted(ctx workflow.Context, l contract.Limits) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() >= l.HistoryEvents || info.GetContinueAsNewSuggested()
}
