package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/internal/retry"
)

var (
	errNotRegistered = errors.New("the executor is not registered yet")
	// errCheckDue is the reason until the first check has run.
	errCheckDue = errors.New("the executor has not been checked yet")
)

// Health returns nil while the executor accepts tasks, and otherwise the reason why
// not.
func (r *Registration) Health() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.notAccepting(); err != nil {
		return err
	}
	return r.healthErr
}

// Suspend stops polling for tasks until a check passes.
func (r *Registration) Suspend(why error) {
	r.mu.Lock()
	switch {
	case r.healthErr == nil:
		r.reported = report{}
		r.log("executor stops accepting tasks", why)
	case refused(why):
		r.log("executor accepts no tasks", why)
	}
	r.healthErr = why
	r.suspensions++
	r.config.Slots.setOpen(false)
	r.mu.Unlock()
	wake(r.unhealthy)
}

// CheckHealth checks the executor periodically, and after a suspension until a check
// passes. It returns when ctx ends.
func (r *Registration) CheckHealth(ctx context.Context) {
	pauses := r.pauses()
	ticker := time.NewTicker(r.config.Timing.Check)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if suspensions := r.suspensionCount(); suspensions > 0 { // the first comes from the registration
			if err := r.check(ctx); err != nil {
				r.Suspend(err)
				_ = retry.Sleep(ctx, pauses.NextBackOff())
				continue
			}
			r.resumeIf(suspensions)
			pauses = r.pauses()
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-r.unhealthy:
		}
	}
}

func (r *Registration) suspensionCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspensions
}

// resumeIf makes the executor accept tasks, unless it was suspended again since the
// caller read suspensions.
func (r *Registration) resumeIf(suspensions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspensions != suspensions || r.shutdown != nil {
		return
	}
	open := !r.drainRequested
	r.reported = report{}
	if open && r.healthErr != nil {
		r.config.Log.Info("executor accepts tasks")
	}
	r.healthErr = nil
	if open {
		r.config.Slots.setOpen(true)
	}
}

// check returns nil if a task can be journaled, claimed and started.
func (r *Registration) check(ctx context.Context) error {
	if err := r.config.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timing.Call)
	defer cancel()
	if err := r.renew(ctx); err != nil {
		return fmt.Errorf("reach the gateway: %w", err)
	}
	return nil
}

// pauses returns the pauses before retries.
func (r *Registration) pauses() *backoff.ExponentialBackOff {
	return retry.Doubling(r.config.Timing.RetryFirst, r.config.Timing.RetryLimit)
}

// wake signals a channel of capacity 1.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
