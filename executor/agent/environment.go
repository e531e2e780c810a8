package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// environment starts or finds the task's environment, in any state. It returns nil
// if there is none: then the result is known, the key is closed, or ctx ended.
func (t *task) environment(ctx context.Context) executor.Handle {
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for ctx.Err() == nil {
		var h executor.Handle
		var err error
		switch t.progress() {
		case stateClaimed, stateClaimSent, stateStarting:
			h, err = t.start(ctx)
		case stateLaunched:
			h, err = t.resume(ctx)
		case stateEndUnrecorded, stateEnded:
			return t.attachAny(ctx)
		case stateRequeueUnrecorded:
			unwritten := t.recorded() == stateNew
			if err = t.requeue(t.dropReason()); unwritten && run.CodeOf(err) == run.CodeConflict {
				t.release() // its entry was written after all: the member that finds it has the task
				return nil
			}
		default: // new or closed
			return nil
		}
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			return h
		}
		t.log.WarnContext(ctx, "environment is not available yet", "error", err)
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		retry.wait(ctx, changed)
	}
	if t.progress().launchable() && !t.in(keyClaimClosed) {
		// The process ends, and nothing of the key ran: another executor may run it.
		if err := t.requeue(errShutdown.Error()); err != nil {
			t.log.WarnContext(ctx, "failed to requeue task", "error", err)
		}
	}
	return nil
}

// dropReason returns why the key is to be requeued, "" if it is not.
func (t *task) dropReason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requeueReason
}

// start starts the environment of a key none of whose steps can have run. A nil
// error means that the state has advanced: to launched, with a handle, to ended, or
// to closed. After an error the caller retries.
func (t *task) start(ctx context.Context) (executor.Handle, error) {
	if err := t.recoverClaim(ctx); err != nil || !t.progress().launchable() {
		return nil, err
	}
	t.a.hitFailpoint(pointStarting, t.key)
	startCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.mu.Lock()
	t.abort = cancel
	def, stopped := *t.def, t.states.in(stopRequested)
	t.mu.Unlock()
	if stopped {
		t.conclude(t.stoppedResult(), "")
		return nil, nil
	}
	if def.Fault != "" {
		t.mu.Lock()
		result := t.resultOf(run.StatusFailed, run.CauseInput, def.Fault)
		t.mu.Unlock()
		t.conclude(result, "could not start: "+def.Fault)
		return nil, nil
	}
	hidden := mask.NewSet(def.Secrets)
	h, err := t.a.driver.Start(startCtx, executor.Task{
		Definition: def,
		Log:        func(line string) { t.setupLine(hidden.String(line)) },
		Launch:     func() (int64, error) { return t.launch(startCtx) },
		Keep:       t.a.shared != nil,
	})
	t.a.hitFailpoint(pointStarted, t.key)
	if err == nil {
		return h, t.markAlreadyStarted()
	}
	err = masked(err, hidden)
	if t.in(stateLaunched) {
		return nil, err
	}
	return nil, t.handleStartFailure(ctx, err)
}

// masked hides secrets in an error of a driver, which may contain output of a
// service.
func masked(err error, hidden *mask.Set) error {
	text := err.Error()
	if shown := hidden.String(text); shown != text {
		return run.Errorf(codeOf(err), "%s", shown)
	}
	return err
}

// markAlreadyStarted records that the driver found steps that had begun, although the
// journal has no launch.
func (t *task) markAlreadyStarted() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.states.in(stateStarting) {
		return nil
	}
	t.log.Error("steps had begun without a launch in the journal")
	t.entry.Damaged = true
	return t.record(eventStepsFound, record{FirstFrame: 1, Grace: t.def.Grace, StepCount: len(t.def.Steps)}, executor.Synced)
}

// handleStartFailure handles a start that failed before any step could run: it ends the
// task or requeues it.
func (t *task) handleStartFailure(ctx context.Context, err error) error {
	t.mu.Lock()
	now := t.states
	t.mu.Unlock()
	switch {
	case now.in(stateClosed, keyReleased) || ctx.Err() != nil:
		return nil //nolint:nilerr // nothing more to do, or environment handles it
	case now.in(stopRequested):
		t.conclude(t.stoppedResult(), "")
		return nil
	}
	switch code := codeOf(err); code {
	case run.CodeUnavailable, run.CodeCanceled, run.CodeTimeout, run.CodeExhausted:
		t.a.registration.Suspend(err)
		return t.requeue(fmt.Sprintf("the environment could not be started: %v", err))
	case run.CodeConflict, run.CodeClaimed:
		return t.requeue(fmt.Sprintf("the task is not this executor's: %v", err))
	default:
		reason := err.Error()
		if code == run.CodeInternal {
			t.log.ErrorContext(ctx, "failed to start environment", "error", err)
		}
		t.mu.Lock()
		result := t.resultOf(run.StatusFailed, run.CauseStart, reason)
		t.mu.Unlock()
		t.conclude(result, "could not start: "+reason)
		return nil
	}
}

// launch is the driver's request for permission to run the steps. Once it returns
// nil they may have run, regardless of later errors.
func (t *task) launch(ctx context.Context) (int64, error) {
	t.a.hitFailpoint(pointLaunch, t.key)
	if err := t.confirmClaim(ctx); err != nil {
		return 0, err
	}
	first, err := t.decideLaunch(ctx)
	if err == nil {
		t.a.hitFailpoint(pointLaunched, t.key)
	}
	return first, err
}

func (t *task) decideLaunch(ctx context.Context) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.states.in(stateStarting):
		return 0, run.Errorf(run.CodeConflict, "the key is %s", t.states[regionProgress])
	case t.states.in(stopRequested):
		return 0, run.Errorf(run.CodeCanceled, "the task was stopped")
	case t.states.in(keyClaimClosed):
		return 0, run.Errorf(run.CodeConflict, "the claim is closed")
	case ctx.Err() != nil:
		return 0, run.Errorf(run.CodeCanceled, "the start was canceled")
	}
	first := int64(len(t.entry.Setup)) + 1
	err := t.record(eventLaunched, record{
		FirstFrame: first,
		Grace:      t.def.Grace,
		StepCount:  len(t.def.Steps),
	}, executor.Synced)
	if err != nil && !t.states.in(keyReleased) {
		t.a.registration.Suspend(err)
	}
	if err != nil {
		return 0, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	return first, nil
}

// confirmClaim confirms the claim at the gateway if there was no heartbeat for so long
// that the workflow may have asked another executor about the key: the process was
// frozen, or Temporal is unreachable.
func (t *task) confirmClaim(ctx context.Context) error {
	t.mu.Lock()
	now, contact := t.a.now(), t.contact
	// Compare both clocks: the monotonic one stops while the host sleeps.
	silence := max(now.Sub(contact), now.Round(0).Sub(contact.Round(0)))
	stale := t.states.in(tokenRefused) || silence > t.a.opts.timing.stale
	t.mu.Unlock()
	if !stale {
		return nil
	}
	_, err := t.claimDefinition(ctx)
	return err
}

// recoverClaim verifies, after a restart, that this executor may start the key: Temporal
// accepts the token, and the gateway returns the definition again.
func (t *task) recoverClaim(ctx context.Context) error {
	t.mu.Lock()
	known, token := t.def != nil && !t.states.in(tokenRefused), t.entry.Token
	t.mu.Unlock()
	if known {
		return nil
	}
	if err := t.firstHeartbeat(ctx, token); err != nil {
		switch {
		case errors.Is(err, ErrStopRequested):
			t.requestStop()
			t.conclude(t.stoppedResult(), "")
			return nil
		case run.CodeOf(err) == run.CodeNotFound:
			t.refuse(token)
		}
		return fmt.Errorf("verify the token: %w", err)
	}
	if err := t.reloadDefinition(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.states.in(stateClaimSent) {
		return nil
	}
	return t.record(eventGranted, record{}, executor.Lazy)
}

// reloadDefinition requests the definition of a key that an earlier process claimed.
func (t *task) reloadDefinition(ctx context.Context) error {
	def, err := t.claimDefinition(ctx)
	switch codeOf(err) {
	case "":
		t.mu.Lock()
		t.def = &def
		t.mu.Unlock()
		return nil
	case run.CodeConflict, run.CodeClaimed, run.CodeNotFound:
		wake(t.a.sweep)
		if t.progress().launchable() {
			return t.requeue(fmt.Sprintf("the claim was refused: %v", err))
		}
	default:
	}
	return fmt.Errorf("claim again: %w", err)
}

// resume finds the environment of a key whose steps may have begun, and starts the
// steps if they have not.
func (t *task) resume(ctx context.Context) (executor.Handle, error) {
	h, err := t.a.driver.Attach(ctx, t.key)
	if run.CodeOf(err) == run.CodeNotFound {
		t.vanished("the environment is gone")
		return nil, nil
	}
	t.mu.Lock()
	begun, damaged := t.entry.begun(), t.entry.Damaged
	t.mu.Unlock()
	if err != nil || begun || damaged {
		return h, err
	}
	t.mu.Lock()
	known := t.def != nil
	t.mu.Unlock()
	if !known {
		if err := t.reloadDefinition(ctx); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	def, first := *t.def, t.entry.FirstFrame
	t.mu.Unlock()
	h, err = t.a.driver.Start(ctx, executor.Task{
		Definition: def,
		Log:        func(string) {},
		Launch:     func() (int64, error) { return first, nil },
		Resume:     true,
	})
	t.a.hitFailpoint(pointStarted, t.key)
	switch run.CodeOf(err) {
	case run.CodeNotFound:
		t.vanished("the environment is gone")
		return nil, nil
	default:
		return h, err
	}
}

// vanished ends a task whose environment is gone without a result.
func (t *task) vanished(reason string) {
	t.mu.Lock()
	result := t.resultOf(run.StatusFailed, run.CauseVanished, reason)
	t.mu.Unlock()
	t.conclude(result, reason)
}
