package executor

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/drover-run/drover/run"
)

// adopt takes over a key that this process knows of.
func (t *task) adopt(ctx context.Context, o Adoption) (Outcome, error) {
	t.mu.Lock()
	switch t.entry.State {
	case stateClosed:
		defer t.mu.Unlock()
		return Outcome{NeverStarted: t.entry.Reason, JournalID: t.a.who.journalID}, nil
	case stateNew, stateClaimed:
		defer t.mu.Unlock()
		return t.closeKey("the executor lost its claim before it began")
	case stateStarting, stateLaunched, stateEnded:
	}
	err := t.append(record{Token: o.Token}, Kept)
	retired := t.retired
	if err == nil {
		t.refused, t.retired = false, false
		t.notify()
	}
	t.mu.Unlock()
	if err != nil {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	t.log.Info("task adopted")
	wake(t.adopted)
	t.beat(ctx, o.Token)
	if retired { // its result is told again
		return Outcome{}, t.spawn()
	}
	return Outcome{}, nil
}

// spawn has the agent run the task.
func (t *task) spawn() error {
	select {
	case t.a.spawn <- t:
		return nil
	case <-t.a.ended:
		return run.Errorf(run.CodeUnavailable, "%w", errShutdown)
	}
}

// closeKey closes a key of which nothing ran, for ever; the lock is held.
func (t *task) closeKey(reason string) (Outcome, error) {
	if err := t.append(record{State: stateClosed, Reason: reason}, Kept); err != nil {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	t.freeSlot()
	t.count(givenBack)
	t.notify()
	t.log.Info("key closed", slog.String("reason", reason))
	return Outcome{NeverStarted: reason, JournalID: t.a.who.journalID}, nil
}

// adoptAbsent answers for a key that the journal has nothing of.
func (t *task) adoptAbsent(ctx context.Context, o Adoption) (Outcome, error) {
	ours, err := t.ours(ctx, o.JournalID)
	if err != nil {
		t.erase()
		return Outcome{}, err
	}
	if ours {
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

// ours reports whether this journal, and no earlier one of the same executor,
// had the key: only then its silence proves anything.
func (t *task) ours(ctx context.Context, journalID string) (bool, error) {
	if t.a.shared != nil {
		// The page of a key that was claimed goes only after its answer: here
		// somebody has deleted it.
		states, err := t.a.desk.ClaimStates(ctx, t.a.who.id, []run.Key{t.key})
		if err != nil {
			return false, fmt.Errorf("asking whose the claim is: %w", err)
		}
		if s := states[t.key]; s == run.ClaimOpen || s == run.ClaimClosed {
			return false, nil
		}
	}
	if journalID != "" {
		return journalID == t.a.who.journalID, nil
	}
	_, err := t.askDefinition(ctx)
	switch run.CodeOf(err) {
	case "":
		return true, nil
	case run.CodeConflict, run.CodeClaimed:
		return false, nil
	default:
		return false, fmt.Errorf("asking whose the claim is: %w", err)
	}
}

// adoptForeign takes over a key of a journal that was lost: its environment is
// followed if it is there.
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
		return Outcome{}, fmt.Errorf("looking for the environment: %w", err)
	}
	t.mu.Lock()
	t.entry.Damaged = true
	err = t.append(record{State: stateLaunched, Token: o.Token, FirstFrame: 1}, Synced)
	if err == nil {
		t.takeSlot()
	}
	t.mu.Unlock()
	if err != nil {
		t.erase()
		return Outcome{}, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	return Outcome{}, t.spawn()
}
