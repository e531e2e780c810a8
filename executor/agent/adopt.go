package agent

import (
	"context"
	"fmt"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// adopt takes over a key that this process already has.
func (t *task) adopt(ctx context.Context, o Adoption) (Outcome, error) {
	t.mu.Lock()
	switch t.entry.State {
	case stateClosed:
		defer t.mu.Unlock()
		return Outcome{NeverStarted: t.entry.Reason, JournalID: t.a.identity.JournalID}, nil
	case stateNew, stateClaimed:
		defer t.mu.Unlock()
		return t.closeKey("the executor lost its claim before it began")
	default: // starting, launched or ended
	}
	retired := t.states.in(keyRetired)
	err := t.record(eventAdopted, record{Token: o.Token}, executor.Kept)
	if err == nil {
		t.notify()
	}
	t.mu.Unlock()
	if err != nil {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	t.log.InfoContext(ctx, "task adopted")
	wake(t.adopted)
	t.beat(ctx, o.Token)
	if retired { // report its result again
		return Outcome{}, t.spawn()
	}
	return Outcome{}, nil
}

// spawn hands the task to Agent.Run, which runs it.
func (t *task) spawn() error {
	select {
	case t.a.spawn <- t:
		return nil
	case <-t.a.ended:
		return run.Errorf(run.CodeUnavailable, "%w", errShutdown)
	}
}

// closeKey closes a key of which nothing ran, permanently. The caller holds the
// lock.
func (t *task) closeKey(reason string) (Outcome, error) {
	if err := t.record(eventClosed, record{Reason: reason}, executor.Kept); err != nil {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	t.count(outcomeRequeued)
	t.notify()
	t.log.Info("key closed", "reason", reason)
	return Outcome{NeverStarted: reason, JournalID: t.a.identity.JournalID}, nil
}

// adoptAbsent answers an adoption of a key that is not in the journal.
func (t *task) adoptAbsent(ctx context.Context, o Adoption) (Outcome, error) {
	held, err := t.journalHeldKey(ctx, o.JournalID)
	if err != nil {
		t.erase()
		return Outcome{}, err
	}
	if held {
		t.mu.Lock()
		out, err := t.closeKey("the executor never began it")
		t.mu.Unlock()
		if err != nil {
			t.erase()
		}
		return out, err
	}
	return t.adoptForeign(ctx, o)
}

// journalHeldKey reports whether this journal held the key. An absent entry proves that
// nothing ran only if no earlier journal of the same executor held the key.
func (t *task) journalHeldKey(ctx context.Context, journalID string) (bool, error) {
	if t.a.shared != nil {
		// In a set, the entry of a claimed key is removed only after its answer. A
		// missing entry was therefore deleted from outside.
		states, err := t.a.api.ClaimStates(ctx, t.a.identity.ID, []run.Key{t.key})
		if err != nil {
			return false, fmt.Errorf("look up the holder of the claim: %w", err)
		}
		if s := states[t.key]; s == run.ClaimOpen || s == run.ClaimClosed {
			return false, nil
		}
	}
	if journalID != "" {
		return journalID == t.a.identity.JournalID, nil
	}
	_, err := t.claimDefinition(ctx)
	switch run.CodeOf(err) {
	case "":
		return true, nil
	case run.CodeConflict, run.CodeClaimed:
		return false, nil
	default:
		return false, fmt.Errorf("look up the holder of the claim: %w", err)
	}
}

// adoptForeign takes over a key of a journal that was lost. If the environment
// still exists, the executor follows it.
func (t *task) adoptForeign(ctx context.Context, o Adoption) (Outcome, error) {
	_, err := t.a.driver.Attach(ctx, t.key)
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound:
		t.mu.Lock()
		result := t.resultOf(run.StatusFailed, run.CauseVanished, "the executor's journal was lost, and the environment is gone")
		t.mu.Unlock()
		t.erase()
		t.count(string(result.Status))
		return Outcome{Ended: result}, nil
	default:
		t.erase()
		return Outcome{}, fmt.Errorf("look for the environment: %w", err)
	}
	t.mu.Lock()
	t.entry.Damaged = true
	err = t.record(eventFollowed, record{Token: o.Token, FirstFrame: 1}, executor.Synced)
	if err == nil {
		t.move(eventSlotTaken)
	}
	t.mu.Unlock()
	if err != nil {
		t.erase()
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	return Outcome{}, t.spawn()
}
