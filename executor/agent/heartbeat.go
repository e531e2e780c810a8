package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// heartbeat tells the service that this executor has the task.
type heartbeat struct {
	t *task

	mu      sync.Mutex
	contact time.Time // when the service last accepted the token
}

// first verifies the token before the executor acts on the delivery.
func (b *heartbeat) first(ctx context.Context, token []byte) error {
	b.t.mu.Lock()
	b.t.move(eventSlotTaken)
	details := b.t.details()
	b.t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, b.t.a.opts.timing.call)
	defer cancel()
	err := b.t.a.tokens.Heartbeat(ctx, token, details)
	if err == nil {
		b.recordContact()
	}
	return err
}

// run sends a heartbeat every few seconds, until the outcome was accepted or
// ctx ends. Only a stop request in the answer stops the task.
func (b *heartbeat) run(ctx context.Context) {
	timer := time.NewTimer(b.untilDue())
	defer timer.Stop()
	for {
		b.t.mu.Lock()
		token, now, changed := b.t.entry.Token, b.t.states, b.t.changed
		b.t.mu.Unlock()
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
		pause := b.t.a.opts.timing.heartbeat
		if !b.send(ctx, token) {
			pause = min(pause, b.t.a.opts.timing.retryFirst*5)
		}
		timer.Reset(jitter(pause))
	}
}

// untilDue returns when the next heartbeat is due: at once, unless the
// process has just sent the first one.
func (b *heartbeat) untilDue() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.contact.IsZero() {
		return 0
	}
	return jitter(b.t.a.opts.timing.heartbeat)
}

// send sends one heartbeat, and reports whether the service answered.
func (b *heartbeat) send(ctx context.Context, token []byte) bool {
	b.t.mu.Lock()
	details := b.t.details()
	b.t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, b.t.a.opts.timing.call)
	defer cancel()
	err := b.t.a.tokens.Heartbeat(ctx, token, details)
	switch {
	case errors.Is(err, ErrStopRequested):
		b.recordContact()
		b.t.requestStop(false)
	case err == nil:
		b.recordContact()
	case run.CodeOf(err) == run.CodeNotFound:
		b.t.refuse(token)
	default:
		return false
	}
	return true
}

// recordContact records that the service accepted the token just now.
func (b *heartbeat) recordContact() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contact = b.t.a.now()
}

// silence returns how long ago the service last accepted the token.
func (b *heartbeat) silence() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.t.a.now()
	// Compare both clocks: the monotonic one stops while the host sleeps.
	return max(now.Sub(b.contact), now.Round(0).Sub(b.contact.Round(0)))
}
