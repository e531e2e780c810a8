package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

var (
	errStopped = errors.New("the task was stopped")
	errErased  = errors.New("the task is over")
)

// claim takes a delivered task up to the state starting. A pending outcome means
// that the task reached it. With any other outcome this executor does not hold the
// key.
func (t *task) claim(ctx context.Context, d Delivery) Outcome {
	token := d.Token
	t.token, t.claimProof = token, d.ClaimProof
	t.a.hitFailpoint(pointDelivered, t.key)
	if err := t.firstHeartbeat(ctx, token); err != nil {
		if errors.Is(err, ErrStopRequested) {
			t.erase()
			return Outcome{Ended: t.stoppedResult()}
		}
		return t.drop(fmt.Sprintf("no heartbeat: %v", err))
	}
	t.a.hitFailpoint(pointHeartbeat, t.key)
	if out := t.write(eventDelivered, record{Token: token}, executor.Kept); !out.Pending() || t.in(keyReleased) || t.dropReason() != "" {
		return out
	}
	t.a.hitFailpoint(pointClaimed, t.key)
	def, err := t.claimDefinition(ctx)
	t.a.hitFailpoint(pointGranted, t.key)
	switch codeOf(err) {
	case "":
	case run.CodeClaimed:
		return t.claimedElsewhere(err)
	case run.CodeConflict:
		return t.conflict(ctx, err)
	case run.CodeNotFound:
		t.signal(eventClaimRefused)
		return t.drop(fmt.Sprintf("no claim: %v", err))
	default: // the next task would fail in the same way
		t.a.registration.SuspectRemoval(err)
		t.a.registration.Suspend(err)
		return t.drop(fmt.Sprintf("no claim: %v", err))
	}
	t.a.metrics.claims.Inc()
	t.mu.Lock()
	t.def = &def
	t.mu.Unlock()
	out := t.write(eventGranted, record{}, executor.Lazy)
	if def.Last { // the executor would requeue every further delivery
		t.a.registration.Apply(run.DesiredState{Drain: true})
	}
	return out
}

// firstHeartbeat verifies the token before the executor acts on the delivery.
func (t *task) firstHeartbeat(ctx context.Context, token []byte) error {
	t.mu.Lock()
	t.move(eventSlotTaken)
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

// write records an event on the way to the start under the key's lock. It does not
// if the key is closed, a stop was requested or the executor accepts no tasks.
func (t *task) write(e event, r record, d executor.Durability) Outcome {
	t.mu.Lock()
	closed, stopped, fresh := t.states.in(stateClosed), t.states.in(stopRequested), t.file == nil
	var err error
	none := t.a.registration.NotAccepting()
	if !closed && !stopped && none == nil {
		err = t.record(e, r, d)
	}
	t.mu.Unlock()
	switch {
	case errors.Is(err, executor.ErrLost):
		return Outcome{}
	case fresh && t.a.shared != nil && run.CodeOf(err) == run.CodeConflict:
		t.erase() // forget it here only: another member of the set has it
		return Outcome{Claimed: &HeartbeatDetails{Key: t.key, Set: t.a.set()}}
	case closed:
		return t.requeuedOutcome("the key was closed")
	case stopped && t.a.shared != nil && !fresh:
		return Outcome{} // it ends like a task that has begun; its entry is removed last
	case stopped:
		out := Outcome{Ended: t.stoppedResult()}
		t.erase()
		return out
	case err != nil:
		t.a.registration.Suspend(err)
		reason := fmt.Sprintf("the executor can not write its journal: %v", err)
		if fresh && t.a.shared != nil && inDoubt(err) {
			return t.dropLater(reason)
		}
		return t.drop(reason)
	case none != nil:
		return t.drop(none.Error())
	}
	return Outcome{}
}

// drop requeues a task that no process began to start, and forgets it. In a set
// that needs a journal write: until it succeeds the outcome is pending, and so it
// is if another member has the key.
func (t *task) drop(reason string) Outcome {
	if t.dropReason() != "" {
		return Outcome{} // a requeue is under way
	}
	// In a set the entry of a claim must stay until its answer was sent: see journalHeldKey.
	granted := t.mayBeGranted()
	if t.a.shared != nil && (granted || t.in(keyReleased)) {
		return t.dropLater(reason)
	}
	if granted && t.closeGranted(reason) {
		return t.requeuedOutcome(reason)
	}
	if t.dropEntry() != nil {
		return t.dropLater(reason)
	}
	t.log.Info("task requeued", "reason", reason)
	if granted {
		return t.requeuedOutcome(reason)
	}
	return Outcome{Requeued: reason}
}

// requeuedOutcome is the outcome of a key that is closed in this journal, or whose claim
// this journal held.
func (t *task) requeuedOutcome(reason string) Outcome {
	return Outcome{Requeued: reason, JournalID: t.a.identity.JournalID}
}

// closeGranted closes a key whose claim may be held, so that another delivery of it
// starts nothing. It returns false if the journal write fails.
func (t *task) closeGranted(reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states.in(stateClosed) {
		return true
	}
	if err := t.record(eventClosed, record{Reason: reason}, executor.Kept); err != nil {
		return false
	}
	t.log.Info("task requeued", "reason", reason)
	return true
}

// dropLater defers the requeue to run, which performs it once it is journaled.
func (t *task) dropLater(reason string) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requeueReason = reason
	t.move(eventRequeueDecided)
	return Outcome{}
}

// inDoubt reports whether a failed write may have been done, or may still be done
// after the caller stopped waiting. A set would then find an entry for a task that
// was requeued.
func inDoubt(err error) bool {
	switch codeOf(err) {
	case run.CodeUnavailable, run.CodeTimeout, run.CodeCanceled, run.CodeInternal:
		return true
	default:
		return false
	}
}

// mayBeGranted reports whether this executor may hold the claim. A lost answer may
// have granted it.
func (t *task) mayBeGranted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states.in(stateClaimSent, stateStarting)
}

// claimDefinition requests the claim, and with it the definition.
func (t *task) claimDefinition(ctx context.Context) (run.Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, t.a.opts.timing.claim)
	defer cancel()
	t.signal(eventClaimSent)
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		def, err := t.a.api.Claim(ctx, run.ClaimRequest{
			Key:         t.key,
			Executor:    t.a.identity.ID,
			Set:         t.a.set(),
			JournalID:   t.a.identity.JournalID,
			SpecVersion: run.NewestSpecVersion,
			ClaimProof:  t.claimProof,
		})
		if err == nil || codeOf(err) != run.CodeUnavailable {
			return def, err
		}
		if !retry.wait(ctx, nil) {
			return run.Definition{}, err
		}
	}
}

// conflict answers for a key whose claim was refused. An older gateway reports a
// claim of another executor as a conflict too. Only the journal that holds the
// claim may say that nothing of it ran.
func (t *task) conflict(ctx context.Context, err error) Outcome {
	ctx, cancel := context.WithTimeout(ctx, t.a.opts.timing.claim)
	defer cancel()
	states, stateErr := t.a.api.ClaimStates(ctx, t.a.identity.ID, []run.Key{t.key})
	if stateErr == nil && states[t.key] != run.ClaimOpen {
		t.signal(eventClaimRefused)
		return t.drop(fmt.Sprintf("the claim was refused: %v", err))
	}
	return t.claimedElsewhere(err)
}

// claimedElsewhere answers for a key whose claim another journal holds.
func (t *task) claimedElsewhere(err error) Outcome {
	t.log.Info("task is claimed by another executor", "error", err)
	t.signal(eventClaimRefused)
	if !t.in(stateClosed) {
		t.erase()
	}
	return Outcome{Claimed: &HeartbeatDetails{Key: t.key}}
}

// deliveredAgain answers for a delivered key that this process already has.
func (t *task) deliveredAgain() Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states.in(stateClosed) {
		return t.requeuedOutcome(t.entry.Reason)
	}
	d := t.details()
	return Outcome{Claimed: &d}
}

// stoppedResult is the result of a task that was stopped before its steps began.
func (t *task) stoppedResult() *run.TaskResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resultOf(run.StatusStopped, "", "stopped before it began")
}

// resultOf builds a result that the shim did not report. The caller holds the lock.
func (t *task) resultOf(status run.Status, cause run.Cause, reason string) *run.TaskResult {
	n := t.entry.StepCount
	if t.def != nil {
		n = len(t.def.Steps)
	}
	return &run.TaskResult{
		Status: status,
		Cause:  cause,
		Reason: truncate.String(reason, run.MaxReason, ""),
		Ended:  t.a.now(),
		Steps:  t.steps.Final(n, run.StatusFailed),
	}
}
