package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/run"
)

// presence registers the executor and renews the registration until ctx ends. It
// returns an error only if the executor was removed.
func (a *Agent) presence(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.register(ctx); err != nil {
			return err
		}
		if err := a.renewals(ctx); err != nil {
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
		wanted, err := a.desk.Register(callCtx, run.Executor{
			ID: a.who.id, JournalID: a.who.journalID, Pool: a.opts.Pool, Driver: features.Name,
			OS: a.opts.OS, Arch: a.opts.Arch, Labels: a.opts.Labels, Privileged: features.Privileged,
			Slots: a.opts.Slots, SlotsUsed: a.slots.inUse(), Version: a.opts.Version, State: run.ExecutorOnline,
			Set: a.set(), Temporary: a.opts.Temporary || a.shared != nil, RemoveAfter: a.opts.RemoveAfter,
		})
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the call failed because ctx ended
		case err == nil:
			a.log.Info("executor registered", slog.String("pool", a.opts.Pool), slog.Int("slots", a.opts.Slots))
			a.heed(wanted)
			a.knowing.Do(func() { close(a.known) })
			a.suspend(errCheckDue)
			return nil
		case run.CodeOf(err) == run.CodeForbidden:
			return err
		}
		// A conflict ends by itself once the registration of another journal expires, and
		// an invalid registration once an operator changes the pool.
		a.log.Warn("failed to register executor", slog.Any("error", err))
		if !retry.wait(ctx, nil) {
			return nil
		}
	}
}

// renewals renews the registration until the executor must register again.
func (a *Agent) renewals(ctx context.Context) error {
	ticker := time.NewTicker(run.ExecutorRenew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			a.farewell(ctx)
			return nil
		case <-ticker.C:
		case <-a.vital:
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
	draining := a.takesNone()
	wanted, err := a.desk.Renew(ctx, run.Renewal{
		Executor:  a.who.id,
		Set:       a.set(),
		JournalID: a.who.journalID,
		SlotsUsed: a.slots.inUse(),
		Draining:  draining,
		Drained:   draining && a.slots.idle(),
	})
	if err == nil {
		a.heed(wanted)
	}
	return err
}

// suspectRemoval renews the registration at once after a call that failed as if the
// executor had been removed. Only the answer to the renewal decides, and stops the
// executor's tasks.
func (a *Agent) suspectRemoval(err error) {
	if run.CodeOf(err) == run.CodeForbidden {
		wake(a.vital)
	}
}

// farewell reports that the executor accepts no more tasks, so that the gateway
// need not wait for the registration to expire.
func (a *Agent) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opts.timing.farewell)
	defer cancel()
	if err := a.renew(ctx); err != nil {
		a.log.Debug("final renewal failed", slog.Any("error", err))
	}
}
