package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/drover-run/drover/run"
)

var (
	errStopped = errors.New("the task was stopped")
	errErased  = errors.New("the task is over")
)

// claim takes a delivered task up to the state starting. A pending outcome
// means that it is there; with any other the key is in nobody's hands.
func (t *task) claim(ctx context.Context, d Delivery) Outcome {
	token := d.Token
	t.token, t.ticket = token, d.Ticket
	t.a.at(pointDelivered, t.key)
	if err := t.firstHeartbeat(ctx, token); err != nil {
		if errors.Is(err, ErrStopWanted) {
			t.erase()
			return Outcome{Ended: t.stoppedResult()}
		}
		return t.drop(fmt.Sprintf("no heartbeat: %v", err))
	}
	t.a.at(pointHeartbeat, t.key)
	if out := t.write(record{State: stateClaimed, Token: token}, Kept); !out.Pending() || t.isLost() || t.dropReason() != "" {
		return out
	}
	t.a.at(pointClaimed, t.key)
	def, err := t.askDefinition(ctx)
	t.a.at(pointGranted, t.key)
	switch codeOf(err) {
	case "":
	case run.CodeClaimed:
		return t.claimedElsewhere(err)
	case run.CodeConflict:
		return t.conflict(ctx, err)
	case run.CodeNotFound:
		t.setAsked(false)
		return t.drop(fmt.Sprintf("no claim: %v", err))
	default: // it would be the same with the next task
		t.a.suspectRemoval(err)
		t.a.suspend(err)
		return t.drop(fmt.Sprintf("no claim: %v", err))
	}
	t.a.metrics.claims.Inc()
	t.mu.Lock()
	t.def = &def
	t.mu.Unlock()
	out := t.write(record{State: stateStarting}, Lazy)
	if def.Last { // what it is handed from now on it would only give back
		t.a.heed(run.Wanted{Drain: true})
	}
	return out
}

// firstHeartbeat proves the token, before anything else is done with it.
func (t *task) firstHeartbeat(ctx context.Context, token []byte) error {
	t.mu.Lock()
	t.takeSlot()
	details := t.details()
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, t.a.opts.timing.call)
	defer cancel()
	err := t.a.tokens.Heartbeat(ctx, token, details)
	if err == nil {
		t.mu.Lock()
		t.contact = t.a.now()
		t.mu.Unlock()
	}
	return err
}

// write takes a step towards the start under the key's lock, unless the key
// was closed, a stop is wanted or no task is taken any more.
func (t *task) write(r record, d Durability) Outcome {
	t.mu.Lock()
	closed, stopped, fresh := t.entry.State == stateClosed, t.stopped, t.file == nil
	var err error
	none := t.a.whyNone()
	if !closed && !stopped && none == nil {
		err = t.append(r, d)
	}
	t.mu.Unlock()
	switch {
	case errors.Is(err, ErrLost):
		return Outcome{}
	case fresh && t.a.shared != nil && run.CodeOf(err) == run.CodeConflict:
		t.erase() // here alone: a member of the set has it
		return Outcome{Claimed: &HeartbeatDetails{Key: t.key, Set: t.a.set()}}
	case closed:
		return t.released("the key was closed")
	case stopped && t.a.shared != nil && !fresh:
		return Outcome{} // it ends as one that has begun, the page last
	case stopped:
		out := Outcome{Ended: t.stoppedResult()}
		t.erase()
		return out
	case err != nil:
		t.a.suspend(err)
		reason := fmt.Sprintf("the executor can not write its journal: %v", err)
		if fresh && t.a.shared != nil && inDoubt(err) {
			return t.keepDropped(reason)
		}
		return t.drop(reason)
	case none != nil:
		return t.drop(none.Error())
	}
	return Outcome{}
}

// drop gives a task back that nobody began to start, and forgets it. In a set
// that takes the journal's consent: as long as there is none the outcome is
// pending, and so it is where another member has the key.
func (t *task) drop(reason string) Outcome {
	if t.dropReason() != "" {
		return Outcome{} // it is being given back
	}
	// In a set the page of a claim must not go before its answer: see ours.
	granted := t.mayBeGranted()
	if t.a.shared != nil && (granted || t.isLost()) {
		return t.keepDropped(reason)
	}
	if granted && t.closeGranted(reason) {
		return t.released(reason)
	}
	if t.letGo() != nil {
		return t.keepDropped(reason)
	}
	t.log.Info("task given back", slog.String("reason", reason))
	if granted {
		return t.released(reason)
	}
	return Outcome{GivenBack: reason}
}

// released answers for a key that this journal is closed to, or whose claim it
// held.
func (t *task) released(reason string) Outcome {
	return Outcome{GivenBack: reason, JournalID: t.a.who.journalID}
}

// closeGranted closes a key whose claim may be held, so that another delivery
// of it starts nothing. False means that the journal can not be written.
func (t *task) closeGranted(reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry.State == stateClosed {
		return true
	}
	if err := t.append(record{State: stateClosed, Reason: reason}, Kept); err != nil {
		return false
	}
	t.freeSlot()
	t.log.Info("task given back", slog.String("reason", reason))
	return true
}

// keepDropped has run give the task back, once that is written down.
func (t *task) keepDropped(reason string) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped = reason
	return Outcome{}
}

// inDoubt reports whether a write that failed may have been done, or may yet be
// when nobody waits for it any more: a set would then find a task on a page that
// was given back.
func inDoubt(err error) bool {
	switch codeOf(err) {
	case run.CodeUnavailable, run.CodeTimeout, run.CodeCanceled, run.CodeInternal:
		return true
	default:
		return false
	}
}

// mayBeGranted reports whether the claim is held, as far as is known here: an
// answer that was lost may have granted it.
func (t *task) mayBeGranted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked && t.entry.State != stateClosed
}

// setAsked notes whether the desk may have granted the claim.
func (t *task) setAsked(asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = asked
}

// askDefinition asks the desk for the claim, and the definition with it.
func (t *task) askDefinition(ctx context.Context) (run.Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, t.a.opts.timing.claim)
	defer cancel()
	t.setAsked(true)
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		def, err := t.a.desk.Claim(ctx, run.ClaimRequest{
			Key:       t.key,
			Executor:  t.a.who.id,
			Set:       t.a.set(),
			JournalID: t.a.who.journalID,
			Knows:     run.NewestOrder,
			Ticket:    t.ticket,
		})
		if err == nil || codeOf(err) != run.CodeUnavailable {
			return def, err
		}
		if !retry.wait(ctx, nil) {
			return run.Definition{}, err
		}
	}
}

// conflict answers for a key whose claim was refused. A gateway that has no
// word of its own for a claim of another executor says so too, and only the
// claim's own journal may say that nothing of it ran.
func (t *task) conflict(ctx context.Context, err error) Outcome {
	ctx, cancel := context.WithTimeout(ctx, t.a.opts.timing.claim)
	defer cancel()
	states, askErr := t.a.desk.ClaimStates(ctx, t.a.who.id, []run.Key{t.key})
	if askErr == nil && states[t.key] != run.ClaimOpen {
		t.setAsked(false)
		return t.drop(fmt.Sprintf("the claim was refused: %v", err))
	}
	return t.claimedElsewhere(err)
}

// claimedElsewhere answers for a key whose claim another journal holds.
func (t *task) claimedElsewhere(err error) Outcome {
	t.log.Info("task is claimed by another executor", slog.Any("error", err))
	t.setAsked(false)
	if t.state() != stateClosed {
		t.erase()
	}
	return Outcome{Claimed: &HeartbeatDetails{Key: t.key}}
}

// deliveredAgain answers for a key that was delivered and is known already.
func (t *task) deliveredAgain() Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry.State == stateClosed {
		return t.released(t.entry.Reason)
	}
	d := t.details()
	return Outcome{Claimed: &d}
}

// stoppedResult is the result of a task that was stopped before its steps.
func (t *task) stoppedResult() *run.TaskResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resultOf(run.StatusStopped, "", "stopped before it began")
}

// resultOf makes a result that the shim did not tell; the lock is held.
func (t *task) resultOf(status run.Status, cause run.Cause, reason string) *run.TaskResult {
	n := t.entry.StepCount
	if t.def != nil {
		n = len(t.def.Steps)
	}
	return &run.TaskResult{
		Status: status,
		Cause:  cause,
		Reason: clip(reason, run.MaxReason),
		Ended:  t.a.now(),
		Steps:  t.steps.final(n, run.StatusFailed),
	}
}
