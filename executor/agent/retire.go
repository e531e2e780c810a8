package agent

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// retiredAtOnce bounds the keys in one query for claims.
const retiredAtOnce = 500

// retire keeps the journal entry of a key whose result was accepted until the
// records have closed its claim. Until then Temporal may lose the result (its
// workflow is reset, its database is restored) and request it again. Without the
// entry the executor would answer that the key never began.
func (x *execution) retire() {
	kept := newTask(x.a, x.key)
	kept.counted.Store(true)
	if !x.replace(kept) {
		return
	}
	if kept.in(keyRetired) {
		wake(x.a.retire)
		return
	}
	// It was adopted since, and its result must be reported again.
	if err := kept.spawn(); err != nil {
		kept.log.Debug("failed to report the result again, leaving it to the next process", "error", err)
	}
}

// replace moves the entry to another task of the same key. It returns false if
// there is none any more.
func (t *task) replace(kept *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil || !t.move(eventReplaced) {
		return false
	}
	kept.entry, kept.file = t.entry, t.file
	kept.restoreStates()
	if kept.states.in(tokenAnswered) {
		kept.move(eventRetired)
	}
	kept.seen.reset(kept.entry.fold())
	t.file = nil
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.a.tasks[t.key] = kept
	return true
}

// retiredLoop forgets retired keys soon after their claims were closed, with one
// call for all of them.
func (a *Agent) retiredLoop(ctx context.Context) {
	first := a.opts.timing.retryFirst * 5
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.retire:
		}
		retry := pauses(first, a.opts.timing.sweep)
		for left := true; left; left = a.forgetClosed(ctx) {
			if !retry.wait(ctx, nil) {
				return
			}
		}
	}
}

// forgetAll waits a limited time for the claims of retired keys to be closed.
// Remaining entries stay in the journal for the next process.
func (a *Agent) forgetAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.opts.timing.shutdown)
	defer cancel()
	retry := pauses(a.opts.timing.retryFirst/4, a.opts.timing.retryFirst*5)
	for a.forgetClosed(ctx) && retry.wait(ctx, nil) {
	}
}

// forgetClosed forgets the retired keys whose claims are closed, and reports
// whether others are left.
func (a *Agent) forgetClosed(ctx context.Context) bool {
	known := map[run.Key]*task{}
	var keys []run.Key
	left := false
	for _, t := range a.all() {
		if !t.in(keyRetired) {
			continue
		}
		if len(keys) == retiredAtOnce {
			left = true
			break
		}
		known[t.key] = t
		keys = append(keys, t.key)
	}
	if len(keys) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.timing.call)
	defer cancel()
	states, err := a.api.ClaimStates(ctx, a.identity.ID, keys)
	if err != nil {
		a.log.DebugContext(ctx, "failed to query claims", "error", err)
		return true
	}
	for _, key := range keys {
		left = !known[key].forgetIfClosed(states[key]) || left
	}
	return left
}

// forgetIfClosed forgets a retired key if the records will not ask for its result
// again. It reports whether the key needs no more work.
func (t *task) forgetIfClosed(s run.ClaimState) bool {
	t.mu.Lock()
	now := t.a.now()
	switch {
	case s != run.ClaimUnknown:
		t.unknown = time.Time{}
	case t.unknown.IsZero():
		t.unknown = now
	}
	lost := !t.unknown.IsZero() && now.Sub(t.unknown) > t.a.opts.timing.tombstone
	retired := t.states.in(keyRetired)
	t.mu.Unlock()
	if !retired { // adopted meanwhile
		return true
	}
	if s == run.ClaimClosed || s == run.ClaimUnclaimable || lost {
		t.erase()
		return true
	}
	return false
}
