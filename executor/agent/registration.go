package agent

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// registrationLoop registers the executor and renews the registration until ctx ends. It
// returns an error only if the executor was removed.
func (a *Agent) registrationLoop(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.register(ctx); err != nil {
			return err
		}
		if err := a.renewLoop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// register returns when the executor is registered or ctx ended.
func (a *Agent) register(ctx context.Context) error {
	features := a.driver.Features()
	retry := pauses(a.opts.timing.retryFirst, a.opts.timing.retryLimit)
	for {
		callCtx, cancel := context.WithTimeout(ctx, a.opts.timing.call)
		requested, err := a.api.Register(callCtx, run.Executor{
			ID: a.identity.id, JournalID: a.identity.journalID, Pool: a.opts.Pool, Driver: features.Name,
			OS: a.opts.OS, Arch: a.opts.Arch, Labels: a.opts.Labels, Privileged: features.Privileged,
			Slots: a.opts.Slots, SlotsUsed: a.slots.inUse(), Version: a.opts.Version, State: run.ExecutorOnline,
			Set: a.set(), Temporary: a.opts.Temporary || a.shared != nil, RemoveAfter: a.opts.RemoveAfter,
		})
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the call failed because ctx ended
		case err == nil:
			a.log.InfoContext(ctx, "executor registered", "pool", a.opts.Pool, "slots", a.opts.Slots)
			a.applyDesiredState(requested)
			a.registerOnce.Do(func() { close(a.registered) })
			a.suspend(errCheckDue)
			return nil
		case run.CodeOf(err) == run.CodeForbidden:
			return err
		}
		// A conflict ends by itself once the registration of another journal expires, and
		// an invalid registration once an operator changes the pool.
		a.log.WarnContext(ctx, "failed to register executor", "error", err)
		if !retry.wait(ctx, nil) {
			return nil
		}
	}
}

// renewLoop renews the registration until the executor must register again.
func (a *Agent) renewLoop(ctx context.Context) error {
	ticker := time.NewTicker(run.ExecutorRenew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			a.finalHeartbeat(ctx)
			return nil
		case <-ticker.C:
		case <-a.renewNow:
		}
		err := a.renew(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case err == nil:
		case run.CodeOf(err) == run.CodeForbidden:
			return err
		case run.CodeOf(err) == run.CodeNotFound, run.CodeOf(err) == run.CodeConflict:
			a.suspend(err)
			return nil
		default:
			a.suspend(err)
		}
	}
}

// renew renews the registration once.
func (a *Agent) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, run.ExecutorRenew)
	defer cancel()
	draining := a.notAccepting()
	requested, err := a.api.Renew(ctx, run.Renewal{
		Executor:  a.identity.id,
		Set:       a.set(),
		JournalID: a.identity.journalID,
		SlotsUsed: a.slots.inUse(),
		Draining:  draining,
		Drained:   draining && a.slots.idle(),
	})
	if err == nil {
		a.applyDesiredState(requested)
	}
	return err
}

// suspectRemoval renews the registration at once after a call that failed as if the
// executor had been removed. Only the answer to the renewal decides, and stops the
// executor's tasks.
func (a *Agent) suspectRemoval(err error) {
	if run.CodeOf(err) == run.CodeForbidden {
		wake(a.renewNow)
	}
}

// finalHeartbeat reports that the executor accepts no more tasks, so that the gateway
// need not wait for the registration to expire.
func (a *Agent) finalHeartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opts.timing.shutdown)
	defer cancel()
	if err := a.renew(ctx); err != nil {
		a.log.DebugContext(ctx, "final renewal failed", "error", err)
	}
}
