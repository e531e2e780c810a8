package agent

import (
	"context"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// stopOnRequest passes a stop request on to the environment.
func (t *task) stopOnRequest(ctx context.Context, h executor.Handle) {
	select {
	case <-t.stopping:
	case <-t.over:
		return
	case <-ctx.Done():
		return
	}
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		t.log.InfoContext(ctx, "stopping task")
		err := h.Stop(ctx, t.grace())
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
			return
		}
		t.log.WarnContext(ctx, "failed to stop task", "error", err)
		if !retry.wait(ctx, t.over) || t.progress().ended() {
			return
		}
	}
}

func (t *task) grace() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry.Grace > 0 {
		return t.entry.Grace
	}
	return run.StopGrace
}

// remove removes the environment. It returns false if the context ended first.
func (t *task) remove(ctx context.Context, h executor.Handle) bool {
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		err := h.Remove(ctx)
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
			return true
		}
		t.log.WarnContext(ctx, "failed to remove environment", "error", err)
		if !retry.wait(ctx, nil) {
			return false
		}
	}
}

// discard stops and removes the environment of a closed claim.
func (t *task) discard(ctx context.Context) {
	t.log.InfoContext(ctx, "removing environment of a closed claim")
	if t.a.shared != nil && !t.confirmOwnership(ctx, record{}) {
		return
	}
	h := t.attachAny(ctx)
	if ctx.Err() != nil {
		return
	}
	if h != nil {
		if t.in(stateLaunched) {
			t.stopAndWait(ctx, h)
		}
		if !t.remove(ctx, h) {
			return
		}
	}
	t.erase()
}

// attachAny finds the environment. It returns nil if there is none or the context
// ended.
func (t *task) attachAny(ctx context.Context) executor.Handle {
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		h, err := t.a.driver.Attach(ctx, t.key)
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
func (t *task) stopAndWait(ctx context.Context, h executor.Handle) {
	ctx, cancel := context.WithTimeout(ctx, t.grace()+t.a.opts.timing.call)
	defer cancel()
	if err := h.Stop(ctx, t.grace()); err != nil {
		return
	}
	for f, err := range h.Events(ctx, t.sender.NextFrame()) {
		if err != nil || f.Kind == run.FrameTaskEnd {
			return
		}
	}
}
