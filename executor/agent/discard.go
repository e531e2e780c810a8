package agent

import (
	"context"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// stopOnRequest passes a stop request on to the environment.
func (x *execution) stopOnRequest(ctx context.Context, h executor.Handle) {
	select {
	case <-x.stopping:
	case <-x.over:
		return
	case <-ctx.Done():
		return
	}
	x.log.InfoContext(ctx, "stopping task")
	if !x.in(stopForced) && !x.passStop(ctx, x.forced, func() error { return h.Stop(ctx, x.grace()) }) {
		return
	}
	select {
	case <-x.forced:
	case <-x.over: // the cleanup has ended
		return
	case <-ctx.Done():
		return
	}
	x.log.InfoContext(ctx, "stopping task without a cleanup")
	x.passStop(ctx, nil, func() error { return h.Abort(ctx, 0) })
}

// passStop passes a stop request on until the environment has it, or until another
// request replaces it. It returns false if no further request is of use.
func (x *execution) passStop(ctx context.Context, replaced <-chan struct{}, pass func() error) bool {
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for {
		err := pass()
		if err == nil {
			return true
		}
		if run.CodeOf(err) == run.CodeNotFound {
			return false
		}
		x.log.WarnContext(ctx, "failed to stop task", "error", err)
		if !retry.wait(ctx, replaced) || x.progress().ended() {
			return false
		}
		select {
		case <-replaced:
			return true
		default:
		}
	}
}

func (x *execution) grace() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entry.Grace > 0 {
		return x.entry.Grace
	}
	return run.StopGrace
}

// remove removes the environment. It returns false if the context ended first.
func (x *execution) remove(ctx context.Context, h executor.Handle) bool {
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for began := x.a.now(); ; {
		err := h.Remove(ctx)
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
			x.a.metrics.stages.WithLabelValues(stageRemove).Observe(x.a.now().Sub(began).Seconds())
			return true
		}
		x.log.WarnContext(ctx, "failed to remove environment", "error", err)
		if !retry.wait(ctx, nil) {
			return false
		}
	}
}

// discard stops and removes the environment of a closed claim.
func (x *execution) discard(ctx context.Context) {
	x.log.InfoContext(ctx, "removing environment of a closed claim")
	if x.a.shared != nil && !x.confirmOwnership(ctx, record{}) {
		return
	}
	h := x.attachAny(ctx)
	if ctx.Err() != nil {
		return
	}
	if h != nil {
		if x.in(stateLaunched) {
			x.stopAndWait(ctx, h)
		}
		if !x.remove(ctx, h) {
			return
		}
	}
	x.erase()
}

// attachAny finds the environment. It returns nil if there is none or the context
// ended.
func (x *execution) attachAny(ctx context.Context) executor.Handle {
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for {
		h, err := x.a.driver.Attach(ctx, x.key)
		switch {
		case err == nil:
			return h
		case run.CodeOf(err) == run.CodeNotFound:
			return nil
		}
		if !retry.wait(ctx, nil) {
			return nil
		}
	}
}

// stopAndWait stops the task and gives its steps the usual grace period to end. No
// cleanup step runs: the slots of the run's change groups are free, and another
// attempt may run already, so a cleanup would disturb those.
func (x *execution) stopAndWait(ctx context.Context, h executor.Handle) {
	ctx, cancel := context.WithTimeout(ctx, x.grace()+x.a.opts.timing.call)
	defer cancel()
	if err := h.Abort(ctx, x.grace()); err != nil {
		return
	}
	for f, err := range h.Events(ctx, x.sender.NextFrame()) {
		if err != nil || f.Kind == run.FrameTaskEnd {
			return
		}
	}
}
