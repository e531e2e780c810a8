package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// launcher starts the environment of a task, or finds it again.
type launcher struct {
	*execution

	hidden   *mask.Set // the secrets of the definition, once it is known
	failures int       // of starts that resume
}

// maxFailures is how often a start that resumes may fail by an internal error.
const maxFailures = 5

func newLauncher(x *execution) *launcher { return &launcher{execution: x, hidden: mask.NewSet(nil)} }

// environment starts or finds the task's environment, in any state. It returns nil
// if there is none: then the result is known, the key is closed, or ctx ended.
func (l *launcher) environment(ctx context.Context) executor.Handle {
	retry := pauses(l.a.opts.timing.retryFirst, l.a.opts.timing.retryLimit)
	for ctx.Err() == nil {
		var h executor.Handle
		var err error
		switch l.progress() {
		case stateClaimed, stateClaimSent, stateStarting:
			h, err = l.start(ctx)
		case stateLaunched:
			h, err = l.resume(ctx)
		case stateEndUnrecorded, stateEnded:
			return l.attachAny(ctx)
		case stateRequeueUnrecorded:
			unwritten := l.recorded() == stateNew
			if err = l.requeue(l.dropReason()); unwritten && run.CodeOf(err) == run.CodeConflict {
				l.release() // its entry was written after all: the member that finds it has the task
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
		l.log.WarnContext(ctx, "environment is not available yet", "error", err)
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		retry.wait(ctx, changed)
	}
	if l.progress().launchable() && !l.in(keyClaimClosed) {
		// The process ends, and nothing of the key ran: another executor may run it.
		if err := l.requeue(errShutdown.Error()); err != nil {
			l.log.WarnContext(ctx, "failed to requeue task", "error", err)
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
func (l *launcher) start(ctx context.Context) (executor.Handle, error) {
	if err := l.recoverClaim(ctx); err != nil || !l.progress().launchable() {
		return nil, err
	}
	l.a.hitFailpoint(pointStarting, l.key)
	startCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	l.abort = cancel
	def, stopped, hide := *l.def, l.states.stopped(), l.hidesServices()
	l.mu.Unlock()
	if stopped {
		l.conclude(l.stoppedResult(), "")
		return nil, nil
	}
	if def.Fault != "" {
		l.mu.Lock()
		result := l.resultOf(run.StatusFailed, run.CauseInput, def.Fault)
		l.mu.Unlock()
		l.conclude(result, "could not start: "+def.Fault)
		return nil, nil
	}
	l.hidden = mask.NewSet(def.Hidden())
	h, err := l.a.driver.Start(startCtx, executor.Task{
		Definition: def,
		Log:        func(line string) { l.setupLine(l.hidden.String(line)) },
		Launch:     func() (int64, error) { return l.launch(startCtx) },
		Keep:       l.a.shared != nil,

		HideServices: hide,
	})
	l.a.hitFailpoint(pointStarted, l.key)
	if err == nil {
		return h, l.markAlreadyStarted()
	}
	err = masked(err, l.hidden)
	if l.in(stateLaunched) {
		return nil, err
	}
	return nil, l.handleStartFailure(ctx, err)
}

// hidesServices reports whether the services may have other secrets than the definition: a
// provider may have changed them since an earlier process started the services. The caller
// holds the lock.
func (x *execution) hidesServices() bool { return x.reloaded && x.def.ProviderSecrets }

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
func (l *launcher) markAlreadyStarted() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.states.in(stateStarting) {
		return nil
	}
	l.log.Error("steps had begun without a launch in the journal")
	l.entry.Damaged = true
	return l.record(eventStepsFound, record{FirstFrame: 1, Grace: l.def.Grace, StepCount: len(l.def.Steps)}, executor.Synced)
}

// handleStartFailure handles a start that failed before any step could run: it ends the
// task or requeues it.
func (l *launcher) handleStartFailure(ctx context.Context, err error) error {
	l.mu.Lock()
	now := l.states
	l.mu.Unlock()
	switch {
	case now.in(stateClosed, keyReleased) || ctx.Err() != nil:
		return nil //nolint:nilerr // nothing more to do, or environment handles it
	case now.stopped():
		l.conclude(l.stoppedResult(), "")
		return nil
	}
	switch code := codeOf(err); code {
	case run.CodeUnavailable, run.CodeCanceled, run.CodeTimeout, run.CodeExhausted:
		l.a.registration.Suspend(err)
		return l.requeue(fmt.Sprintf("the environment could not be started: %v", err))
	case run.CodeConflict, run.CodeClaimed:
		return l.requeue(fmt.Sprintf("the task is not this executor's: %v", err))
	default:
		reason := err.Error()
		if code == run.CodeInternal {
			l.log.ErrorContext(ctx, "failed to start environment", "error", err)
		}
		l.mu.Lock()
		result := l.resultOf(run.StatusFailed, run.CauseStart, reason)
		l.mu.Unlock()
		l.conclude(result, "could not start: "+reason)
		return nil
	}
}

// launch is the driver's request for permission to run the steps. Once it returns
// nil they may have run, regardless of later errors.
func (l *launcher) launch(ctx context.Context) (int64, error) {
	l.a.hitFailpoint(pointLaunch, l.key)
	if err := l.confirmClaim(ctx); err != nil {
		return 0, err
	}
	first, err := l.decideLaunch(ctx)
	if err == nil {
		l.a.hitFailpoint(pointLaunched, l.key)
	}
	return first, err
}

func (l *launcher) decideLaunch(ctx context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.states.in(stateStarting):
		return 0, run.Errorf(run.CodeConflict, "the key is %s", l.states[regionProgress])
	case l.states.stopped():
		return 0, run.Errorf(run.CodeCanceled, "the task was stopped")
	case l.states.in(keyClaimClosed):
		return 0, run.Errorf(run.CodeConflict, "the claim is closed")
	case ctx.Err() != nil:
		return 0, run.Errorf(run.CodeCanceled, "the start was canceled")
	}
	first := int64(len(l.entry.Setup)) + 1
	err := l.record(eventLaunched, record{
		FirstFrame: first,
		Grace:      l.def.Grace,
		StepCount:  len(l.def.Steps),
	}, executor.Synced)
	if err != nil && !l.states.in(keyReleased) {
		l.a.registration.Suspend(err)
	}
	if err != nil {
		return 0, run.Errorf(run.CodeUnavailable, "the executor can not write its journal: %w", err)
	}
	return first, nil
}

// confirmClaim confirms the claim at the gateway if there was no heartbeat for so long
// that the workflow may have asked another executor about the key: the process was
// frozen, or Temporal is unreachable.
func (l *launcher) confirmClaim(ctx context.Context) error {
	l.mu.Lock()
	stale := l.states.in(tokenRefused) || l.heartbeat.silence() > l.a.opts.timing.stale
	l.mu.Unlock()
	if !stale {
		return nil
	}
	_, err := l.claim.definition(ctx)
	return err
}

// recoverClaim verifies, after a restart, that this executor may start the key: Temporal
// accepts the token, and the gateway returns the definition again.
func (l *launcher) recoverClaim(ctx context.Context) error {
	l.mu.Lock()
	known, token := l.def != nil && !l.states.in(tokenRefused), l.entry.Token
	l.mu.Unlock()
	if known {
		return nil
	}
	if err := l.heartbeat.first(ctx, token); err != nil {
		switch {
		case errors.Is(err, ErrStopRequested):
			l.requestStop(false)
			l.conclude(l.stoppedResult(), "")
			return nil
		case run.CodeOf(err) == run.CodeNotFound:
			l.refuse(token)
		}
		return fmt.Errorf("verify the token: %w", err)
	}
	if err := l.reloadDefinition(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.states.in(stateClaimSent) {
		return nil
	}
	return l.record(eventGranted, record{}, executor.Lazy)
}

// reloadDefinition requests the definition of a key that an earlier process claimed.
func (l *launcher) reloadDefinition(ctx context.Context) error {
	def, err := l.claim.definition(ctx)
	switch codeOf(err) {
	case "":
		l.mu.Lock()
		l.def, l.reloaded = &def, true
		l.mu.Unlock()
		return nil
	case run.CodeConflict, run.CodeClaimed, run.CodeNotFound:
		wake(l.a.sweep)
		if l.progress().launchable() {
			return l.requeue(fmt.Sprintf("the claim was refused: %v", err))
		}
	default:
	}
	return fmt.Errorf("claim again: %w", err)
}

// resume finds the environment of a key whose steps may have begun, and starts the
// steps if they have not. If that is impossible, it returns the environment nevertheless:
// its shim may have the definition, and only its events say that the steps have not begun.
func (l *launcher) resume(ctx context.Context) (executor.Handle, error) {
	h, err := l.a.driver.Attach(ctx, l.key)
	if run.CodeOf(err) == run.CodeNotFound {
		l.vanished("the environment is gone")
		return nil, nil
	}
	l.mu.Lock()
	begun, damaged := l.entry.begun(), l.entry.Damaged
	l.mu.Unlock()
	if err != nil || begun || damaged {
		return h, err
	}
	if l.keepsUnstarted() {
		return h, nil
	}
	l.mu.Lock()
	known := l.def != nil
	l.mu.Unlock()
	if !known {
		if err := l.reloadDefinition(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	def, first, hide := *l.def, l.entry.FirstFrame, l.hidesServices()
	if def.Fault != "" { // its secrets are missing
		l.unstarted = l.resultOf(run.StatusFailed, run.CauseInput, def.Fault)
	}
	startCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.abort, l.resuming = cancel, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.resuming = false
		l.mu.Unlock()
	}()
	if l.keepsUnstarted() { // a later stop aborts the start
		return h, nil
	}
	started, err := l.a.driver.Start(startCtx, executor.Task{
		Definition: def,
		Log:        func(string) {},
		Launch: func() (int64, error) {
			if l.keepsUnstarted() {
				return 0, run.Errorf(run.CodeCanceled, "the task was stopped")
			}
			return first, nil
		},
		Resume: true,

		HideServices: hide,
	})
	l.a.hitFailpoint(pointStarted, l.key)
	if err != nil && startCtx.Err() != nil {
		return nil, err
	}
	switch codeOf(err) {
	case "":
		return started, nil
	case run.CodeNotFound:
		l.vanished("the environment is gone")
		return nil, nil
	case run.CodeUnavailable, run.CodeCanceled, run.CodeTimeout, run.CodeExhausted, run.CodeConflict, run.CodeClaimed:
		return nil, masked(err, mask.NewSet(def.Hidden()))
	default:
		err = masked(err, mask.NewSet(def.Hidden()))
		if l.failures++; codeOf(err) == run.CodeInternal && l.failures < maxFailures {
			return nil, err // a fault of the daemon or the cluster, which may pass
		}
		l.log.ErrorContext(ctx, "failed to start the steps", "error", err)
		l.mu.Lock()
		l.unstarted = l.resultOf(run.StatusFailed, run.CauseStart, err.Error())
		l.mu.Unlock()
		return h, nil
	}
}

// keepsUnstarted reports whether the steps are not to be started any more, if they have not
// begun.
func (l *launcher) keepsUnstarted() bool {
	stopped := l.stoppedResult()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unstarted == nil && l.states.stopped() {
		l.unstarted = stopped
	}
	return l.unstarted != nil
}

// vanished ends a task whose environment is gone without a result.
func (l *launcher) vanished(reason string) {
	l.mu.Lock()
	result := l.resultOf(run.StatusFailed, run.CauseVanished, reason)
	l.mu.Unlock()
	l.conclude(result, reason)
}
