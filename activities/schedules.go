package activities

import (
	"context"
	"errors"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Firings is what makes the runs of schedules, and ends them.
type Firings interface {
	// Fire makes the run of a firing, once.
	Fire(ctx context.Context, in contract.FireInput) (contract.FireResult, error)
	// EndRun cancels a run, or has it stopped; one that has ended, or does not
	// exist, is left as it is.
	EndRun(ctx context.Context, id run.ID) error
}

// RunWatcher tells how runs stand, and when that changes.
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
	return out, toTemporal(err)
}

// EndRun is contract.ActivityEndRun.
func (a *Schedules) EndRun(ctx context.Context, in contract.EndRunInput) error {
	return toTemporal(a.firings.EndRun(ctx, in.Run))
}

// Runs holds the activity that waits for runs.
type Runs struct{ watcher RunWatcher }

// NewRuns returns the activity over the records.
func NewRuns(watcher RunWatcher) *Runs { return &Runs{watcher: watcher} }

// AwaitRun is contract.ActivityAwaitRun: it returns when the run has ended.
func (a *Runs) AwaitRun(ctx context.Context, in contract.AwaitRunInput) (contract.AwaitRunResult, error) {
	ctx, end := alive(ctx)
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
			return contract.AwaitRunResult{}, toTemporal(err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errWorkerStops) {
				return contract.AwaitRunResult{}, toTemporal(run.Errorf(run.CodeUnavailable, "the worker stops, another goes on"))
			}
			return contract.AwaitRunResult{}, ctx.Err()
		}
	}
}
