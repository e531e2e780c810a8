package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errCheckDue is the reason until the first check has run.
var errCheckDue = errors.New("the executor has not been checked yet")

// Health returns nil while the executor accepts tasks, and otherwise the reason why
// not.
func (a *Agent) Health() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.draining:
		return errShutdown
	case a.drainRequested:
		return errDrainRequested
	}
	return a.healthErr
}

// suspend stops polling for tasks until a check passes.
func (a *Agent) suspend(why error) {
	a.mu.Lock()
	if a.healthErr == nil {
		a.log.Warn("executor stops accepting tasks", "error", why)
	}
	a.healthErr = why
	a.suspensions++
	a.slots.setOpen(false)
	a.mu.Unlock()
	wake(a.unhealthy)
}

// healthLoop checks the executor periodically, and after a suspension until a check
// passes.
func (a *Agent) healthLoop(ctx context.Context) {
	retry := pauses(a.opts.timing.retryFirst, a.opts.timing.retryLimit)
	ticker := time.NewTicker(a.opts.timing.check)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if suspensions := a.suspensionCount(); suspensions > 0 { // the first comes from the registration
			if err := a.check(ctx); err != nil {
				a.suspend(err)
				retry.wait(ctx, nil)
				continue
			}
			a.resumeIf(suspensions)
			retry = pauses(a.opts.timing.retryFirst, a.opts.timing.retryLimit)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-a.unhealthy:
		}
	}
}

func (a *Agent) suspensionCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.suspensions
}

// resumeIf makes the executor accept tasks, unless it was suspended again since the
// caller read suspensions.
func (a *Agent) resumeIf(suspensions int) {
	a.mu.Lock()
	ok := a.suspensions == suspensions && !a.draining
	open := ok && !a.drainRequested
	if open && a.healthErr != nil {
		a.log.Info("executor accepts tasks")
	}
	if ok {
		a.healthErr = nil
	}
	if open {
		a.slots.setOpen(true)
	}
	a.mu.Unlock()
}

// check returns nil if a task can be journaled, claimed and started.
func (a *Agent) check(ctx context.Context) error {
	if err := a.journal.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.timing.call)
	defer cancel()
	if err := a.driver.Check(ctx); err != nil {
		return fmt.Errorf("check driver: %w", err)
	}
	if err := a.renew(ctx); err != nil {
		return fmt.Errorf("reach the gateway: %w", err)
	}
	return nil
}

// wake signals a channel of capacity 1.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
