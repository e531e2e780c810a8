package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

var (
	errStopped = errors.New("the task was stopped")
	errErased  = errors.New("the task is over")
)

// delivery is a delivered task on its way to the state starting.
type delivery struct {
	*task
	Delivery
}

// accept takes a delivered task up to the state starting. A pending outcome means
// that the task reached it. With any other outcome this executor does not hold the
// key.
func (d *delivery) accept(ctx context.Context) Outcome {
	d.token, d.claim.proof = d.Token, d.ClaimProof
	d.mu.Lock()
	d.entry.Reserves = d.a.slots.Requested(d.Labels)
	d.mu.Unlock()
	d.a.hitFailpoint(pointDelivered, d.key)
	if err := d.heartbeat.first(ctx, d.Token); err != nil {
		if errors.Is(err, ErrStopRequested) {
			d.erase()
			return Outcome{Ended: d.stoppedResult()}
		}
		return d.drop(fmt.Sprintf("no heartbeat: %v", err))
	}
	d.a.hitFailpoint(pointHeartbeat, d.key)
	if out := d.write(eventDelivered, record{Token: d.Token, Reserves: d.entry.Reserves}, executor.Kept); !out.Pending() || d.in(keyReleased) || d.dropReason() != "" {
		return out
	}
	d.a.hitFailpoint(pointClaimed, d.key)
	def, err := d.claim.definition(ctx)
	d.a.hitFailpoint(pointGranted, d.key)
	switch codeOf(err) {
	case "":
	case run.CodeClaimed:
		return d.claimedElsewhere(err)
	case run.CodeConflict:
		return d.conflict(ctx, err)
	case run.CodeNotFound:
		d.signal(eventClaimRefused)
		return d.drop(fmt.Sprintf("no claim: %v", err))
	case run.CodeExhausted: // the pool runs as many tasks as it may
		d.a.slots.Exhausted()
		return d.drop(fmt.Sprintf("no claim: %v", err))
	default: // the next task would fail in the same way
		d.a.registration.SuspectRemoval(err)
		d.a.registration.Suspend(err)
		return d.drop(fmt.Sprintf("no claim: %v", err))
	}
	d.a.metrics.claims.Inc()
	d.mu.Lock()
	d.def = &def
	d.mu.Unlock()
	out := d.write(eventGranted, record{}, executor.Lazy)
	if def.Last { // the executor would requeue every further delivery
		d.a.registration.Apply(run.DesiredState{Drain: true})
	}
	return out
}

// write records an event on the way to the start under the key's lock. It does not
// if the key is closed, a stop was requested or the executor accepts no tasks.
func (d *delivery) write(e event, r record, durability executor.Durability) Outcome {
	d.mu.Lock()
	closed, stopped, fresh := d.states.in(stateClosed), d.states.stopped(), d.file == nil
	var err error
	none := d.a.registration.NotAccepting()
	if !closed && !stopped && none == nil {
		err = d.record(e, r, durability)
	}
	d.mu.Unlock()
	switch {
	case errors.Is(err, executor.ErrLost):
		return Outcome{}
	case fresh && d.a.shared != nil && run.CodeOf(err) == run.CodeConflict:
		d.erase() // forget it here only: another member of the set has it
		return Outcome{Claimed: &HeartbeatDetails{Key: d.key, Set: d.a.set()}}
	case closed:
		return d.requeuedOutcome("the key was closed")
	case stopped && d.a.shared != nil && !fresh:
		return Outcome{} // it ends like a task that has begun; its entry is removed last
	case stopped:
		out := Outcome{Ended: d.stoppedResult()}
		d.erase()
		return out
	case err != nil:
		d.a.registration.Suspend(err)
		reason := fmt.Sprintf("the executor can not write its journal: %v", err)
		if fresh && d.a.shared != nil && inDoubt(err) {
			return d.dropLater(reason)
		}
		return d.drop(reason)
	case none != nil:
		return d.drop(none.Error())
	}
	return Outcome{}
}

// drop requeues a task that no process began to start, and forgets it. In a set
// that needs a journal write: until it succeeds the outcome is pending, and so it
// is if another member has the key.
func (d *delivery) drop(reason string) Outcome {
	if d.dropReason() != "" {
		return Outcome{} // a requeue is under way
	}
	// In a set the entry of a claim must stay until its answer was sent: see journalHeldKey.
	granted := d.mayBeGranted()
	if d.a.shared != nil && (granted || d.in(keyReleased)) {
		return d.dropLater(reason)
	}
	if granted && d.closeGranted(reason) {
		return d.requeuedOutcome(reason)
	}
	if d.dropEntry() != nil {
		return d.dropLater(reason)
	}
	d.log.Info("task requeued", "reason", reason)
	if granted {
		return d.requeuedOutcome(reason)
	}
	return Outcome{Requeued: reason}
}

// closeGranted closes a key whose claim may be held, so that another delivery of it
// starts nothing. It returns false if the journal write fails.
func (d *delivery) closeGranted(reason string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.states.in(stateClosed) {
		return true
	}
	if err := d.record(eventClosed, record{Reason: reason}, executor.Kept); err != nil {
		return false
	}
	d.log.Info("task requeued", "reason", reason)
	return true
}

// dropLater defers the requeue to run, which performs it once it is journaled.
func (d *delivery) dropLater(reason string) Outcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requeueReason = reason
	d.move(eventRequeueDecided)
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
func (d *delivery) mayBeGranted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.states.in(stateClaimSent, stateStarting)
}

// conflict answers for a key whose claim was refused. An older gateway reports a
// claim of another executor as a conflict too. Only the journal that holds the
// claim may say that nothing of it ran.
func (d *delivery) conflict(ctx context.Context, err error) Outcome {
	ctx, cancel := context.WithTimeout(ctx, d.a.opts.timing.claim)
	defer cancel()
	states, stateErr := d.a.api.ClaimStates(ctx, d.a.identity.ID, []run.Key{d.key})
	if stateErr == nil && states[d.key] != run.ClaimOpen {
		d.signal(eventClaimRefused)
		return d.drop(fmt.Sprintf("the claim was refused: %v", err))
	}
	return d.claimedElsewhere(err)
}

// claimedElsewhere answers for a key whose claim another journal holds.
func (d *delivery) claimedElsewhere(err error) Outcome {
	d.log.Info("task is claimed by another executor", "error", err)
	d.signal(eventClaimRefused)
	if !d.in(stateClosed) {
		d.erase()
	}
	return Outcome{Claimed: &HeartbeatDetails{Key: d.key}}
}
