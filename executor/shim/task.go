package shim

import (
	"context"
	"strings"
	"time"

	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// leftoverGrace is the time between SIGTERM and SIGKILL for processes that the
// steps have left when the task has ended.
const leftoverGrace = time.Second

// task is a running task. One goroutine runs it.
type task struct {
	dir         string
	host        bool // the environment is not of the task's own
	order       run.ShimSpec
	journal     *journal.Writer
	reaper      *process.Reaper
	control     *control
	secrets     *mask.Set
	env         *stepenv.Env
	helpers     map[string]*helper.Client // by image
	started     time.Time
	deadline    <-chan struct{} // closed when the timeout of the task has passed; nil for none
	cleanup     cleanup
	outputBytes int
	oomSeen     int // count of processes that were killed because of a lack of memory
	oom         oomKills
	background  []*pipeReader
}

// run runs the steps and returns the result of the task. All processes of the task
// have ended then.
func (t *task) run(ctx context.Context) run.TaskResult {
	d := t.order.Definition
	r := run.TaskResult{Status: run.StatusSuccess, Started: t.started, Steps: make([]run.StepResult, len(d.Steps))}
	for i := range r.Steps {
		r.Steps[i].Status = run.StatusSkipped
	}
	if d.Timeout > 0 {
		var timer *time.Timer
		t.deadline, timer = newTimeout(d.Timeout - time.Since(t.started))
		defer timer.Stop()
	}
	if t.host { // its control group is older than the task
		t.oomSeen = process.OOMKills()
	}
	defer t.cleanup.end()
	if err := t.setUp(ctx); err != nil {
		r.Status, r.Cause, r.Reason = run.StatusFailed, run.CauseStart, err.Error()
	} else {
		t.runSteps(&r)
		t.hold(&r)
	}
	if t.oom.kills > 0 && (r.Status == run.StatusSuccess || r.Cause == run.CauseStep) {
		r.Reason = strings.TrimPrefix(r.Reason+"; "+t.oom.text(t.control.host), "; ")
	}
	closed := t.closeHelpers()
	t.reaper.Sweep(leftoverGrace)
	closed()
	t.env.Close()
	for _, p := range t.background {
		p.finish()
	}
	r.Reason = shortReason(t.secrets.String(r.Reason))
	r.Ended = time.Now().UTC()
	return r
}

// setUp prepares what the steps run with, and connects to the helper containers.
func (t *task) setUp(ctx context.Context) (err error) {
	if t.env, err = stepenv.New(t.dir, t.order); err != nil {
		return err
	}
	if err := t.env.OpenVolumes(); err != nil || len(t.order.Helpers) == 0 {
		return err
	}
	if err := t.env.ShareWorkingDir(); err != nil {
		return err
	}
	return t.connectHelpers(ctx)
}

func (t *task) runSteps(r *run.TaskResult) {
	begun := false // a step has begun: there may be something to clean up
	for n, step := range t.order.Definition.Steps {
		if by := t.interrupted(); by != uninterrupted {
			t.end(r, by, "")
			if begun {
				t.cleanUp(r, n, by)
			}
			return
		}
		failed := r.Status == run.StatusFailed
		if step.Skip || step.When == run.WhenOnSuccess && failed || step.When == run.WhenOnFailure && !failed || step.When == run.WhenOnStop {
			t.journal.Add(run.Frame{Time: time.Now().UTC(), Kind: run.FrameStepEnd, Step: n, Status: run.StatusSkipped})
			continue
		}
		begun = true
		out := t.runStep(n, failed)
		r.Steps[n] = out.result
		by := out.by
		if t.cleanup.cause != uninterrupted { // it continued as a step of the cleanup
			by = t.cleanup.cause
		}
		switch {
		case by == wasStopped || by == taskTimedOut:
			if !failed {
				r.ExitCode = out.result.ExitCode
			}
			t.end(r, by, " in "+t.stepName(n))
			if t.cleanup.cause != uninterrupted {
				t.addCleanup(r, n, out, " in ")
			}
			if out.by != cleanupTimedOut && out.by != wasAborted {
				t.cleanUp(r, n+1, by)
			}
			return
		case out.result.Status == run.StatusFailed && !failed: // the first failure decides
			r.Status, r.Cause, r.Reason = run.StatusFailed, out.cause, out.reason
			r.ExitCode, r.TimedOut = out.result.ExitCode, out.result.TimedOut
		case !failed && out.result.ExitCode != nil: // steps that move archives have none
			r.ExitCode = out.result.ExitCode
		}
	}
}

// end ends a task because of an event outside of its steps.
func (t *task) end(r *run.TaskResult, by interruption, where string) {
	switch {
	case by == taskTimedOut && r.Status == run.StatusFailed: // the first failure decides
	case by == taskTimedOut:
		r.Status, r.Cause, r.TimedOut = run.StatusFailed, run.CauseTimeout, true
		r.Reason = "the task timed out after " + t.order.Definition.Timeout.String() + where
	case t.control.isExternal():
		r.Status, r.Cause = run.StatusFailed, run.CauseVanished
		r.Reason = "the task was terminated from outside of Drover" + where
	default:
		r.Status, r.Cause, r.TimedOut = run.StatusStopped, "", false
		r.Reason = "stopped" + where
	}
}

// interrupted reports whether no further step may begin.
func (t *task) interrupted() interruption {
	select {
	case <-t.control.stopped:
		return wasStopped
	case <-t.deadline:
		return taskTimedOut
	default:
		return uninterrupted
	}
}

// await waits for the end of a step's first process, and ends it on a timeout or a
// stop request.
func (t *task) await(p stepProcess, timeout time.Duration, interrupted <-chan interruption) interruption {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	var by interruption
	select {
	case <-p.Done():
		return uninterrupted
	case <-expired:
		by = stepTimedOut
	case by = <-interrupted:
	}
	grace := t.order.Definition.Grace
	if by == wasStopped || by == wasAborted {
		grace = t.control.grace()
	}
	p.Terminate()
	end := time.Now().Add(grace)
	kill := time.NewTimer(grace)
	defer kill.Stop()
	for {
		select {
		case <-p.Done():
			return by
		case <-t.control.stopUpdated: // a stop meanwhile, or one with a shorter grace
			if sooner := time.Now().Add(t.control.grace()); sooner.Before(end) {
				end = sooner
				kill.Reset(time.Until(end))
			}
		case <-kill.C:
			p.Kill()
		}
	}
}

// shortReason shortens a reason to run.MaxReason bytes.
func shortReason(reason string) string { return truncate.String(reason, run.MaxReason, "...") }
