package agent

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/run"
)

// heartbeats sends a heartbeat every few seconds, until the outcome was accepted or
// ctx ends. Only a stop request in the answer stops the task.
func (t *task) heartbeats(ctx context.Context) {
	timer := time.NewTimer(t.untilHeartbeat())
	defer timer.Stop()
	for {
		t.mu.Lock()
		token, now, changed := t.entry.Token, t.states, t.changed
		t.mu.Unlock()
		if now.in(tokenAnswered, stateClosed) {
			select { // until adopted
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		due := timer.C
		if now.in(tokenRefused, tokenNone) {
			due = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			continue
		case <-due:
		}
		pause := t.a.opts.timing.heartbeat
		if !t.beat(ctx, token) {
			pause = min(pause, t.a.opts.timing.retryFirst*5)
		}
		timer.Reset(jitter(pause))
	}
}

// untilHeartbeat returns when the next heartbeat is due: at once, unless the
// process has just sent the first one.
func (t *task) untilHeartbeat() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.contact.IsZero() {
		return 0
	}
	return jitter(t.a.opts.timing.heartbeat)
}

// beat sends one heartbeat, and reports whether the service answered.
func (t *task) beat(ctx context.Context, token []byte) bool {
	t.mu.Lock()
	details := t.details()
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, t.a.opts.timing.call)
	defer cancel()
	err := t.a.tokens.Heartbeat(ctx, token, details)
	switch {
	case errors.Is(err, ErrStopRequested):
		t.recordContact()
		t.requestStop()
	case err == nil:
		t.recordContact()
	case run.CodeOf(err) == run.CodeNotFound:
		t.refuse(token)
	default:
		return false
	}
	return true
}

// recordContact records that the service accepted the token just now.
func (t *task) recordContact() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.contact = t.a.now()
}
