// Package registration keeps the registration of an executor at the gateway, and
// decides whether the executor accepts tasks: it counts the slots, checks the
// executor's health, and applies the state that the gateway desires.
package registration

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// Config configures a registration. All fields are required.
type Config struct {
	API run.ExecutorAPI
	Log *slog.Logger
	// Executor is the executor to register, without the parts that Features and Slots
	// provide.
	Executor run.Executor
	// Features returns the features of the driver. It is called for each registration.
	Features func() executor.Features
	// Check returns nil if the executor can journal and start a task.
	Check  func(ctx context.Context) error
	Slots  *Slots
	Timing Timing
}

// Timing holds the intervals and timeouts of a registration.
type Timing struct {
	RetryFirst time.Duration // first pause before a retry
	RetryLimit time.Duration // longest such pause
	Call       time.Duration // timeout of one call
	Check      time.Duration // between two checks
	Shutdown   time.Duration // timeout of the final heartbeat
}

// Registration registers one executor. It is safe for concurrent use.
type Registration struct {
	config Config

	unhealthy  chan struct{} // of capacity 1: wakes CheckHealth
	renewNow   chan struct{} // of capacity 1: renews the registration at once
	registered chan struct{} // closed once the executor is registered

	registerOnce sync.Once

	mu       sync.Mutex
	shutdown error // why the executor accepts no tasks any more; nil: it does
	// drainRequested is set while the gateway requests a drain.
	drainRequested bool
	healthErr      error // why the executor does not poll for tasks; nil: healthy
	suspensions    int   // how many times Suspend was called
	reported       report
}

// New returns the registration of an executor that is not registered yet.
func New(config Config) *Registration {
	return &Registration{
		config:     config,
		unhealthy:  make(chan struct{}, 1),
		renewNow:   make(chan struct{}, 1),
		registered: make(chan struct{}),
		healthErr:  errNotRegistered,
	}
}

// Registered returns a channel that is closed once the executor is registered.
func (r *Registration) Registered() <-chan struct{} { return r.registered }

// Run registers the executor and renews the registration until ctx ends. Errors:
// CodeForbidden if the executor was removed.
func (r *Registration) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.register(ctx); err != nil {
			return err
		}
		if err := r.renewLoop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// register returns when the executor is registered or ctx ended.
func (r *Registration) register(ctx context.Context) error {
	registered, features := r.config.Executor, r.config.Features()
	registered.Driver, registered.Privileged, registered.Features = features.Name, features.Privileged, features.List()
	pauses := r.pauses()
	for {
		registered.SlotsUsed = r.config.Slots.InUse()
		callCtx, cancel := context.WithTimeout(ctx, r.config.Timing.Call)
		requested, err := r.config.API.Register(callCtx, registered)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the call failed because ctx ended
		case err == nil:
			r.config.Log.InfoContext(ctx, "executor registered", "pool", registered.Pool, "slots", registered.Slots)
			r.Apply(requested)
			r.succeeded()
			r.registerOnce.Do(func() { close(r.registered) })
			r.Suspend(errCheckDue)
			return nil
		case run.CodeOf(err) == run.CodeForbidden:
			return err
		}
		// A conflict ends by itself once the registration of another journal expires, a
		// refusal once an operator changes the pool or replaces the token. The process does
		// not end: it may have tasks, and a supervisor would only start it again.
		r.notRegistered(explain(err))
		if retry.Sleep(ctx, pauses.NextBackOff()) != nil {
			return nil //nolint:nilerr // ctx ended
		}
	}
}

// renewLoop renews the registration until the executor must register again.
func (r *Registration) renewLoop(ctx context.Context) error {
	ticker := time.NewTicker(run.ExecutorRenew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			r.finalHeartbeat(ctx)
			return nil
		case <-ticker.C:
		case <-r.renewNow:
		}
		err := r.renew(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case err == nil:
		case run.CodeOf(err) == run.CodeForbidden:
			return err
		case run.CodeOf(err) == run.CodeNotFound, run.CodeOf(err) == run.CodeConflict:
			r.Suspend(err)
			return nil
		default:
			r.Suspend(err)
		}
	}
}

// renew renews the registration once.
func (r *Registration) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, run.ExecutorRenew)
	defer cancel()
	draining := r.NotAccepting() != nil
	requested, err := r.config.API.Renew(ctx, run.Renewal{
		Executor:  r.config.Executor.ID,
		Set:       r.config.Executor.Set,
		JournalID: r.config.Executor.JournalID,
		SlotsUsed: r.config.Slots.InUse(),
		Draining:  draining,
		Drained:   draining && r.config.Slots.idle(),
	})
	if err == nil {
		r.Apply(requested)
	}
	return explain(err)
}

// SuspectRemoval renews the registration at once after a call that failed as if the
// executor had been removed. Only the answer to the renewal decides, and ends Run.
func (r *Registration) SuspectRemoval(err error) {
	if run.CodeOf(err) == run.CodeForbidden {
		wake(r.renewNow)
	}
}

// finalHeartbeat reports that the executor accepts no more tasks, so that the gateway
// need not wait for the registration to expire.
func (r *Registration) finalHeartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.Timing.Shutdown)
	defer cancel()
	if err := r.renew(ctx); err != nil {
		r.config.Log.DebugContext(ctx, "final renewal failed", "error", err)
	}
}
