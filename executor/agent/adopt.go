package agent

import (
	"context"
	"fmt"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// adoption takes over a task under a new token.
type adoption struct {
	*task
	Adoption
}

// adopt takes over a key that this process already has.
func (o *adoption) adopt(ctx context.Context) (Outcome, error) {
	o.mu.Lock()
	switch o.entry.State {
	case stateClosed:
		defer o.mu.Unlock()
		return Outcome{NeverStarted: o.entry.Reason, JournalID: o.a.identity.JournalID}, nil
	case stateNew, stateClaimed:
		defer o.mu.Unlock()
		if o.entry.State == stateNew && !o.delivered {
			return Outcome{}, run.Errorf(run.CodeUnavailable, "another call looks for what ran of %s", o.key)
		}
		return o.closeKey("the executor lost its claim before it began")
	default: // starting, launched or ended
	}
	retired := o.states.in(keyRetired)
	err := o.record(eventAdopted, record{Token: o.Token}, executor.Kept)
	if err == nil {
		o.notify()
	}
	o.mu.Unlock()
	if err != nil {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	o.log.InfoContext(ctx, "task adopted")
	wake(o.claim.adopted)
	o.heartbeat.send(ctx, o.Token)
	if retired { // report its result again
		return Outcome{}, o.spawn()
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
func (o *adoption) adoptAbsent(ctx context.Context) (Outcome, error) {
	held, err := o.journalHeldKey(ctx)
	if err != nil {
		o.erase()
		return Outcome{}, err
	}
	if held {
		o.mu.Lock()
		out, err := o.closeKey("the executor never began it")
		o.mu.Unlock()
		if err != nil {
			o.erase()
		}
		return out, err
	}
	return o.adoptForeign(ctx)
}

// journalHeldKey reports whether this journal held the key. An absent entry proves that
// nothing ran only if no earlier journal of the same executor held the key.
func (o *adoption) journalHeldKey(ctx context.Context) (bool, error) {
	if o.a.shared != nil {
		// In a set, the entry of a claimed key is removed only after its answer. A
		// missing entry was therefore deleted from outside.
		states, err := o.a.api.ClaimStates(ctx, o.a.identity.ID, []run.Key{o.key})
		if err != nil {
			return false, fmt.Errorf("look up the holder of the claim: %w", err)
		}
		if s := states[o.key]; s == run.ClaimOpen || s == run.ClaimClosed {
			return false, nil
		}
	}
	if o.JournalID != "" {
		return o.JournalID == o.a.identity.JournalID, nil
	}
	_, err := o.claim.definition(ctx)
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
func (o *adoption) adoptForeign(ctx context.Context) (Outcome, error) {
	_, err := o.a.driver.Attach(ctx, o.key)
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound:
		o.mu.Lock()
		result := o.resultOf(run.StatusFailed, run.CauseVanished, "the executor's journal was lost, and the environment is gone")
		o.mu.Unlock()
		o.erase()
		o.count(string(result.Status))
		return Outcome{Ended: result}, nil
	default:
		o.erase()
		return Outcome{}, fmt.Errorf("look for the environment: %w", err)
	}
	o.mu.Lock()
	o.entry.Damaged = true
	err = o.record(eventFollowed, record{Token: o.Token, FirstFrame: 1}, executor.Synced)
	if err == nil {
		o.move(eventSlotTaken)
	}
	o.mu.Unlock()
	if err != nil {
		o.erase()
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	return Outcome{}, o.spawn()
}
