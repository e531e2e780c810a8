package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// checkStop handles the stop requests that come without a signal: the run's timeout,
// and a cancellation of the workflow.
func (r *runner) checkStop(ctx workflow.Context) {
	if r.timedOut() {
		r.stop(ctx, contract.Stop{Reason: timeoutReason(r.plan), TimedOut: true})
	}
	if r.root.Err() != nil {
		r.stop(ctx, contract.Stop{Reason: "its workflow was cancelled"})
	}
	if r.finally.timedOut() {
		r.stop(ctx, contract.Stop{Force: true, Finally: "the finally tasks did not end within " + formatDuration(r.finally.timeout()) + " of the stop"})
	}
}

func (r *runner) timedOut() bool {
	return r.stopped == nil && r.deadline != nil && r.deadline.IsReady()
}

func timeoutReason(p run.Plan) string {
	return "run timed out after " + formatDuration(p.Timeout.Std())
}

// stop ends the run as soon as no executor runs a task of it: it skips the
// tasks that have not started, and stops the others. Finally tasks begin then.
// Only the first reason counts, but a later stop may be forced, which ends finally
// tasks too.
func (r *runner) stop(ctx workflow.Context, why contract.Stop) {
	if r.phase != run.PhaseRunning || r.graph == nil {
		return
	}
	if r.stopped != nil {
		r.extendStop(ctx, why)
		return
	}
	if why.Force {
		why.Finally = cmp.Or(why.Finally, forcedReason)
	}
	r.stopped = &why
	r.interrupted = r.interrupted || why.TimedOut
	r.skipUnstarted(why)
	r.taskSet.stop(ctx, why)
	r.batches.stop(ctx, why)
}

// extendStop ends the cleanup of the tasks of a stopped run, if the stop is forced,
// and its finally tasks, unless an earlier stop has done so.
func (r *runner) extendStop(ctx workflow.Context, why contract.Stop) {
	if why.Force {
		why.Finally = cmp.Or(why.Finally, forcedReason)
	}
	more, changed := extended(*r.stopped, why)
	if !changed || more.Force == r.stopped.Force && !r.finally.exist() {
		return
	}
	r.stopped = &more
	r.skipFinally(more)
	r.taskSet.stop(ctx, more)
	r.batches.stop(ctx, more)
}

// extended returns a stop with what a later one adds, and whether it adds anything.
func extended(s, later contract.Stop) (more contract.Stop, changed bool) {
	more = s
	if later.Force && !s.Force {
		more.Force, changed = true, true
	}
	if later.EndsFinally() && !s.EndsFinally() {
		more.Finally, changed = later.Finally, true
	}
	return more, changed
}

// stops reports whether a stop, which may be nil, ends a task.
func stops(s *contract.Stop, finally bool) bool { return s != nil && (!finally || s.EndsFinally()) }

// reasonOf returns why a stop ends a task.
func reasonOf(s *contract.Stop, finally bool) string {
	if finally && s.Finally != "" {
		return s.Finally
	}
	return s.Reason
}

func (r *runner) skipUnstarted(why contract.Stop) {
	for _, task := range r.graph.SkipUnstarted() {
		r.interrupted = true
		r.writes.put(run.TaskChange{Task: task, Status: run.StatusSkipped, Reason: why.Reason})
	}
	r.skipFinally(why)
}

// skipFinally skips the finally tasks that have not started, if the stop ends them.
func (r *runner) skipFinally(why contract.Stop) {
	if !why.EndsFinally() {
		return
	}
	for _, task := range r.graph.SkipFinally() {
		r.interrupted = true
		r.writes.put(run.TaskChange{Task: task, Status: run.StatusSkipped, Reason: reasonOf(&why, true)})
	}
}

// finallyTasks is the run's side of finally tasks.
type finallyTasks struct {
	r     *runner
	held  []contract.Assignment // that wait for the writes of other tasks
	due   time.Time             // when a stopped run ends them; zero before they may begin
	timer workflow.Future       // until then; nil for none
}

func (f *finallyTasks) exist() bool {
	return slices.ContainsFunc(f.r.plan.Nodes, func(n run.Node) bool { return n.Finally })
}

// hold returns the tasks that may start now. Finally tasks wait until the ends of all
// other tasks are written: their conditions and their claims read these.
func (f *finallyTasks) hold(start []contract.Assignment) []contract.Assignment {
	for _, a := range start {
		if a.Finally {
			f.held = append(f.held, a)
		}
	}
	start = slices.DeleteFunc(start, func(a contract.Assignment) bool { return a.Finally })
	if !f.r.writes.empty() {
		return start
	}
	start = append(start, f.held...)
	f.held = nil
	return start
}

// bound starts the timer that ends the finally tasks of a stopped run.
func (f *finallyTasks) bound(ctx workflow.Context) {
	if f.r.stopped == nil || f.r.stopped.EndsFinally() || f.timer != nil || !f.r.graph.FinallyBegan() {
		return
	}
	now := workflow.Now(ctx)
	if f.due.IsZero() {
		f.due = now.Add(f.timeout())
	}
	f.timer = workflow.NewTimer(ctx, max(0, f.due.Sub(now)))
}

func (f *finallyTasks) timeout() time.Duration {
	return cmp.Or(f.r.plan.FinallyTimeout.Std(), run.DefaultCleanupTimeout)
}

// timedOut reports whether the finally tasks of a stopped run are to end. It has no
// side effects, so conditions may call it.
func (f *finallyTasks) timedOut() bool {
	return f.timer != nil && f.timer.IsReady() && !f.r.stopped.EndsFinally()
}

// result returns the run's result: failed as soon as a task has failed or the
// run has timed out, and any other result only at its end.
func (r *runner) result() (run.Result, string) {
	result := r.graph.Result()
	switch {
	case r.stopped != nil && r.stopped.TimedOut:
		return run.ResultFailed, r.stopped.Reason
	case result == run.ResultFailed:
		return result, r.failure()
	case !r.graph.Done() || !r.taskSet.idle():
		return run.ResultUnknown, ""
	case r.stopped != nil && r.interrupted:
		return run.ResultStopped, r.stopped.Reason
	case result == run.ResultStopped:
		if task := r.firstTask(run.StatusStopped); r.graph.Kept(task) {
			return result, "task " + r.graph.Name(task) + " was stopped before the run was restarted"
		}
	case result == run.ResultSuccess:
		return result, r.warning()
	}
	return result, ""
}

// maxWarnings limits the tasks that the reason of a run with warnings names.
const maxWarnings = 5

// warning names the tasks whose failure is allowed, and is "" if none failed.
func (r *runner) warning() string {
	tasks := r.graph.Warnings()
	if len(tasks) == 0 {
		return ""
	}
	names := make([]string, 0, maxWarnings)
	for _, task := range tasks[:min(len(tasks), maxWarnings)] {
		names = append(names, r.graph.Name(task))
	}
	text := "with warnings: " + strings.Join(names, ", ")
	if more := len(tasks) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " failed"
}

// failure names the task that made the result failed.
func (r *runner) failure() string {
	if r.failedTask < 0 {
		return "a task failed"
	}
	if r.graph.Kept(r.failedTask) {
		return "task " + r.graph.Name(r.failedTask) + " failed before the run was restarted"
	}
	return "task " + r.graph.Name(r.failedTask) + " failed"
}

// propagateStop sends a stop to the holders of the tasks that are to be stopped, until
// each of them has ended. The cancellation of execute-task would reach an
// executor with its next heartbeat anyway; this is faster, and it also reaches
// an executor that returns after it was out of contact. A holder may appear
// late: a claim can be in flight while the run is stopped.
func (c *taskSet) propagateStop(ctx workflow.Context) {
	defer func() { c.propagatingStop = false }()
	for wait := firstStopBackoff; c.hasStopping(); wait = min(2*wait, maxStopBackoff) {
		requests := c.stopRequests
		found, err := c.calls.holders(ctx, c.stopping()...)
		if err != nil { // the records refuse: the run no longer exists
			workflow.GetLogger(ctx).Warn("failed to read the holders of tasks", "error", err)
		}
		holders := make(map[int]contract.Holder, len(found.Holders))
		for _, h := range found.Holders {
			holders[h.Task] = h
		}
		for _, task := range c.stopping() {
			j := c.taskRuns[task]
			holder, set := j.holder, j.set
			if holder == "" && set == "" {
				holder, set = holders[j.Task].Executor, holders[j.Task].Set
			}
			if (holder != "" || set != "") && j.cancelStopRetry == nil && (!j.stopAcknowledged || wait >= stopResendInterval) {
				j.sendStop(ctx, contract.HolderQueue(holder, set))
			}
		}
		woken, _ := workflow.AwaitWithTimeout(ctx, wait, func() bool { return !c.hasStopping() || c.stopRequests != requests || c.newlyForced })
		if woken { // more tasks are to be stopped
			wait = time.Second / 2
		}
		if c.newlyForced { // the holders have acknowledged another request, or have yet to receive it
			c.newlyForced = false
			c.each(func(j *taskRun) {
				j.stopAcknowledged = false
				if j.cancelStopRetry != nil {
					j.cancelStopRetry()
				}
			})
		}
	}
}

// sendStop sends stop-task to the queue of the holder. It is sent again to a
// holder that acknowledged it, but much later: the holder's process may have
// died meanwhile.
func (j *taskRun) sendStop(ctx workflow.Context, queue string) {
	ctx, j.cancelStopRetry = workflow.WithCancel(ctx)
	force := j.taskSet.stopped != nil && j.taskSet.stopped.Force
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := j.taskSet.calls.stop(ctx, queue, j.Assignment, force)
		if err != nil && !j.ended && ctx.Err() == nil {
			workflow.GetLogger(ctx).Warn("failed to send a stop to an executor", "task", j.Name, "queue", queue, "error", err)
		}
		acknowledged := out.Known
		if !force && j.taskSet.stopped != nil && j.taskSet.stopped.Force {
			acknowledged = false // of the request before
		}
		j.stopAcknowledged, j.cancelStopRetry = acknowledged, nil
	})
}
