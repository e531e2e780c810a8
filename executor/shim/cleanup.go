package shim

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// cleanup is the last part of a task that was stopped, or whose timeout has passed:
// its cleanup steps run, bounded by a timeout of their own. It begins at most once,
// and no step that has begun runs again in it.
//
// The task's goroutine uses it, and that of watch while a step runs.
type cleanup struct {
	// cause is why the cleanup began, uninterrupted as long as it has not.
	cause   interruption
	timer   *time.Timer
	expired <-chan struct{} // closed when its timeout has passed
}

// newTimeout returns a channel that is closed after a time.
func newTimeout(after time.Duration) (<-chan struct{}, *time.Timer) {
	c := make(chan struct{})
	return c, time.AfterFunc(after, sync.OnceFunc(func() { close(c) }))
}

// begin begins the cleanup, if it has not begun.
func (c *cleanup) begin(cause interruption, timeout time.Duration) {
	if c.cause != uninterrupted {
		return
	}
	c.cause = cause
	c.expired, c.timer = newTimeout(timeout)
}

func (c *cleanup) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// cleansUp reports whether a step is a cleanup step: it also runs after a stop and
// after the timeout of the task, unless a condition skips it.
func cleansUp(step run.StepDef) bool {
	return !step.Skip && (step.When == run.WhenAlways || step.When == run.WhenOnStop)
}

// cleanupTimeout returns the timeout of the task's cleanup.
func (t *task) cleanupTimeout() time.Duration {
	return cmp.Or(t.order.Definition.CleanupTimeout, run.DefaultCleanupTimeout)
}

// watch returns a channel that receives what ends step n before its own end: an
// event outside of the step. release must be called once the step has ended.
func (t *task) watch(n int) (interrupted <-chan interruption, release func()) {
	by := make(chan interruption, 1)
	ended, returned := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		if cause := t.awaitInterruption(n, ended); cause != uninterrupted {
			by <- cause
		}
	}()
	return by, func() {
		close(ended)
		<-returned
	}
}

// awaitInterruption waits for the event that ends step n, or for the end of the
// step. A stop, or the timeout of the task, does not end a cleanup step that has
// begun: it continues as the first step of the cleanup.
func (t *task) awaitInterruption(n int, ended <-chan struct{}) interruption {
	if t.cleanup.cause == uninterrupted {
		var cause interruption
		select {
		case <-ended:
			return uninterrupted
		case <-t.deadline:
			cause = taskTimedOut
		case <-t.control.stopped:
			cause = wasStopped
		}
		if !cleansUp(t.order.Definition.Steps[n]) || t.control.isAborted() {
			return cause
		}
		t.cleanup.begin(cause, t.cleanupTimeout())
	}
	select {
	case <-ended:
		return uninterrupted
	case <-t.control.aborted:
		return wasAborted
	case <-t.cleanup.expired:
		return cleanupTimedOut
	}
}

// cleanUp runs the cleanup steps from a number on, unless the task was aborted. The
// status of the task is decided already: what happens here is added to its reason.
func (t *task) cleanUp(r *run.TaskResult, from int, cause interruption) {
	steps := t.order.Definition.Steps
	if t.control.isAborted() || !slices.ContainsFunc(steps[from:], cleansUp) {
		return
	}
	t.cleanup.begin(cause, t.cleanupTimeout())
	for n := from; n < len(steps); n++ {
		if !cleansUp(steps[n]) {
			t.journal.Add(run.Frame{Time: time.Now().UTC(), Kind: run.FrameStepEnd, Step: n, Status: run.StatusSkipped})
			continue
		}
		if by := t.cleanupOver(); by != uninterrupted {
			t.addCleanup(r, n, outcome{by: by}, " before ")
			return
		}
		out := t.runStep(n, false)
		r.Steps[n] = out.result
		t.addCleanup(r, n, out, " in ")
		if out.by == cleanupTimedOut || out.by == wasAborted {
			return
		}
	}
}

// cleanupOver reports whether no further step of the cleanup may begin.
func (t *task) cleanupOver() interruption {
	select {
	case <-t.control.aborted:
		return wasAborted
	case <-t.cleanup.expired:
		return cleanupTimedOut
	default:
		return uninterrupted
	}
}

// addCleanup adds what became of a cleanup step to the reason of the task; where is
// the preposition before the name of the step.
func (t *task) addCleanup(r *run.TaskResult, n int, out outcome, where string) {
	switch {
	case out.by == cleanupTimedOut:
		r.Reason += "; the cleanup timed out after " + t.cleanupTimeout().String() + where + t.stepName(n)
	case out.by == wasAborted:
		r.Reason += "; the cleanup was stopped" + where + t.stepName(n)
	case out.result.Status == run.StatusFailed:
		r.Reason += "; in the cleanup, " + out.reason
	}
}
