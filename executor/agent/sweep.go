package agent

import (
	"context"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// sweepLoop queries the gateway, periodically and soon after a token was refused,
// for closed claims, and removes their environments and entries. It is one call for
// all keys.
func (a *Agent) sweepLoop(ctx context.Context) {
	timer := time.NewTimer(jitter(a.opts.timing.sweep))
	defer timer.Stop()
	// After a refusal the claim is closed soon, or the key adopted.
	soon := pauses(a.opts.timing.retryFirst*5, a.opts.timing.sweep)
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.sweep:
			soon = pauses(a.opts.timing.retryFirst*5, a.opts.timing.sweep)
		case <-timer.C:
		}
		if a.sweepOnce(ctx) {
			timer.Reset(soon.NextBackOff())
		} else {
			timer.Reset(jitter(a.opts.timing.sweep))
		}
	}
}

// sweepOnce sweeps once, and reports whether a claim is still in doubt.
func (a *Agent) sweepOnce(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, a.opts.timing.call)
	defer cancel()
	var known []*task
	var keys []run.Key
	for _, t := range a.all() {
		if t.open() {
			known = append(known, t)
			keys = append(keys, t.key)
		}
	}
	orphans := a.orphans(ctx)
	keys = append(keys, orphans...)
	if len(keys) == 0 {
		return false
	}
	states, err := a.api.ClaimStates(ctx, a.identity.ID, keys)
	if err != nil {
		a.registration.SuspectRemoval(err)
		a.log.DebugContext(ctx, "failed to query claims", "error", err)
		return true
	}
	waiting := false
	for _, t := range known {
		t.applyClaimState(states[t.key])
		waiting = waiting || t.inDoubt()
	}
	for _, key := range orphans {
		if states[key] != run.ClaimOpen {
			a.removeOrphan(ctx, key)
		}
	}
	return waiting
}

// orphans returns the keys of environments without an entry in the journal; in a
// set, without an entry of any member.
func (a *Agent) orphans(ctx context.Context) []run.Key {
	keys, err := a.driver.List(ctx)
	if err != nil {
		a.log.DebugContext(ctx, "failed to list environments", "error", err)
		return nil
	}
	var orphans []run.Key
	for _, key := range keys {
		if a.find(key) == nil && (a.shared == nil || !a.shared.Has(key)) {
			orphans = append(orphans, key)
		}
	}
	return orphans
}

// removeOrphan removes an environment. Meanwhile no call can begin with its key.
func (a *Agent) removeOrphan(ctx context.Context, key run.Key) {
	t, fresh := a.getOrAdd(key, false)
	if !fresh {
		return
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.entry.State == stateNew { // else it was closed meanwhile
			a.forget(t)
		}
	}()
	if a.shared != nil {
		// The local view of the other members' keys may be stale.
		if found, err := a.shared.Request(ctx, key, executor.KeyRequest{}); err != nil || found {
			return
		}
	}
	t.log.InfoContext(ctx, "removing environment that no task claims")
	if err := a.removeEnvironment(ctx, key); err != nil {
		t.log.WarnContext(ctx, "failed to remove environment", "error", err)
	}
}

// open reports whether the gateway may report the key's claim as closed. It may do so again
// if the key was closed after its claim was: no execution need exist that removes the entry.
func (t *task) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.states.in(keyClaimClosed) && !t.states.in(stateClosed)
	return !known && !t.states.in(tokenAnswered) && t.entry.State != stateNew
}

// inDoubt reports whether only the gateway can decide how the key ends.
func (t *task) inDoubt() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states.in(tokenRefused, tokenNone) && !t.states.in(keyClaimClosed, keyErased, stateClosed)
}

// applyClaimState applies the state of the claim that the gateway returned.
func (t *task) applyClaimState(s run.ClaimState) {
	t.mu.Lock()
	now := t.a.now()
	closed := t.states.in(stateClosed)
	old := closed && now.Sub(t.entry.Time) > t.a.opts.timing.tombstone
	if s != run.ClaimUnknown {
		t.unknown = time.Time{}
	} else if t.unknown.IsZero() {
		t.unknown = now
	}
	// No workflow waits for the key, and nothing of it ran: the write that took it
	// over came too late.
	unclaimable := s == run.ClaimUnclaimable && t.states[regionProgress].launchable() && t.states.in(tokenRefused, tokenNone)
	// Records that have had no claim of a key for long will never accept its result.
	lost := !t.unknown.IsZero() && now.Sub(t.unknown) > t.a.opts.timing.tombstone
	t.mu.Unlock()
	switch {
	case closed && (s == run.ClaimClosed || s == run.ClaimUnclaimable || old):
		t.erase()
	case !closed && (s == run.ClaimClosed || unclaimable || lost):
		t.settle()
	}
}
