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
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for {
		x.log.InfoContext(ctx, "stopping task")
		err := h.Stop(ctx, x.grace())
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
			return
		}
		x.log.WarnContext(ctx, "failed to stop task", "error", err)
		if !retry.wait(ctx, x.over) || x.progress().ended() {
			return
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
	for {
		err := h.Remove(ctx)
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
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

// stopAndWait stops the task and gives its steps the usual grace period to end.
func (x *execution) stopAndWait(ctx context.Context, h executor.Handle) {
	ctx, cancel := context.WithTimeout(ctx, x.grace()+x.a.opts.timing.call)
	defer cancel()
	if err := h.Stop(ctx, x.grace()); err != nil {
		return
	}
	for f, err := range h.Events(ctx, x.sender.NextFrame()) {
		if err != nil || f.Kind == run.FrameTaskEnd {
			return
		}
	}
}
