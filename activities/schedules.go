package activities

import (
	"context"
	"errors"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Firings creates and ends the runs of schedules.
type Firings interface {
	// Fire creates the run of a firing, once.
	Fire(ctx context.Context, in contract.FireInput) (contract.FireResult, error)
	// EndRun cancels a queued run and stops a running one. It ignores a run
	// that has ended or does not exist.
	EndRun(ctx context.Context, id run.ID) error
}

// RunWatcher returns the state of runs, and signals when it changes.
type RunWatcher interface {
	GetSummary(ctx context.Context, id run.ID) (run.Run, error)
	Watch(id run.ID) (signal <-chan struct{}, stop func())
}

var _ RunWatcher = records.Store(nil)

// Schedules holds the short activities of schedules.
type Schedules struct{ firings Firings }

// NewSchedules returns the activities over firings.
func NewSchedules(firings Firings) *Schedules { return &Schedules{firings: firings} }

// Fire is contract.ActivityFire.
func (a *Schedules) Fire(ctx context.Context, in contract.FireInput) (contract.FireResult, error) {
	out, err := a.firings.Fire(ctx, in)
	return out, errcode.ToTemporal(err)
}

// EndRun is contract.ActivityEndRun.
func (a *Schedules) EndRun(ctx context.Context, in contract.EndRunInput) error {
	return errcode.ToTemporal(a.firings.EndRun(ctx, in.Run))
}

// Runs holds the activity that waits for runs.
type Runs struct{ watcher RunWatcher }

// NewRuns returns the activity over the records.
func NewRuns(watcher RunWatcher) *Runs { return &Runs{watcher: watcher} }

// AwaitRun is contract.ActivityAwaitRun: it returns when the run has ended.
func (a *Runs) AwaitRun(ctx context.Context, in contract.AwaitRunInput) (contract.AwaitRunResult, error) {
	ctx, end := startHeartbeats(ctx)
	defer end()
	changed, stop := a.watcher.Watch(in.Run)
	defer stop()
	for {
		r, err := a.watcher.GetSummary(ctx, in.Run)
		switch {
		case run.CodeOf(err) == run.CodeNotFound:
			return contract.AwaitRunResult{}, nil
		case err == nil && r.Phase.Final():
			return contract.AwaitRunResult{Phase: r.Phase, Result: r.Result, Reason: r.Reason}, nil
		case err != nil && ctx.Err() == nil:
			return contract.AwaitRunResult{}, errcode.ToTemporal(err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errWorkerStops) {
				return contract.AwaitRunResult{}, errcode.ToTemporal(run.Errorf(run.CodeUnavailable, "the worker is stopping; another continues"))
			}
			return contract.AwaitRunResult{}, ctx.Err()
		}
	}
}
