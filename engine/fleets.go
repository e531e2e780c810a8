package engine

import (
	"context"
	"fmt"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// Fleets implements run.Fleets. It is safe for concurrent use.
type Fleets struct{ store records.Fleets }

var _ run.Fleets = (*Fleets)(nil)

// NewFleets returns Fleets. It does no I/O.
func NewFleets(store records.Fleets) *Fleets { return &Fleets{store: store} }

// Fleets implements run.Fleets.
func (f *Fleets) Fleets(ctx context.Context) ([]run.Fleet, error) { return f.store.ListFleets(ctx) }

// Fleet implements run.Fleets.
func (f *Fleets) Fleet(ctx context.Context, name string) (run.Fleet, error) {
	return f.store.GetFleet(ctx, name)
}

// PutFleet implements run.Fleets.
func (f *Fleets) PutFleet(ctx context.Context, name string, s run.FleetSpec, by string) (_ run.Fleet, created bool, _ error) {
	faults := spec.ValidateFleet(name, s)
	_, more := scaling.Compile(s.Scaling)
	if faults = append(faults, more...); len(faults) > 0 {
		return run.Fleet{}, false, run.InvalidError("the fleet is not valid", faults)
	}
	return f.store.PutFleet(ctx, name, s, by)
}

// ControlFleet implements run.Fleets.
func (f *Fleets) ControlFleet(ctx context.Context, name string, s run.FleetControl) (run.Fleet, error) {
	if faults := spec.ValidateFleetControl(s); len(faults) > 0 {
		return run.Fleet{}, run.InvalidError("the fleet action is not valid", faults)
	}
	return f.store.ControlFleet(ctx, name, s)
}

// DeleteFleet implements run.Fleets.
func (f *Fleets) DeleteFleet(ctx context.Context, name, by string) (run.Fleet, error) {
	return f.store.DeleteFleet(ctx, name, by)
}

// FleetInstances implements run.Fleets.
func (f *Fleets) FleetInstances(ctx context.Context, name string, gone bool) ([]run.FleetInstance, error) {
	return f.store.FleetInstances(ctx, name, gone)
}

// FleetEvents implements run.Fleets.
func (f *Fleets) FleetEvents(ctx context.Context, name string, after int64, n int) ([]run.FleetEvent, error) {
	if n <= 0 {
		n = run.DefaultFleetPageSize
	}
	return f.store.FleetEvents(ctx, name, after, min(n, run.MaxFleetEvents))
}

// FleetRollout implements run.Fleets.
func (f *Fleets) FleetRollout(ctx context.Context, name string) (run.FleetRollout, error) {
	x, err := f.store.GetFleet(ctx, name)
	if err != nil {
		return run.FleetRollout{}, err
	}
	out := run.FleetRollout{RolloutStatus: x.Status.Rollout, Current: x.Revision}
	if out.Revision != x.Revision {
		out.RolloutStatus = run.RolloutStatus{
			Revision: out.Revision, Phase: run.RolloutProgressing, Message: fmt.Sprintf("the fleet worker has not observed revision %d yet", x.Revision),
		}
	}
	if x.RolloutPaused && out.Phase == run.RolloutProgressing {
		out.Phase, out.Message = run.RolloutPaused, "an operator paused the rollout"
	}
	out.Revisions, err = f.store.FleetRevisions(ctx, name)
	return out, err
}

// UndoFleet implements run.Fleets.
func (f *Fleets) UndoFleet(ctx context.Context, name string, u run.FleetUndo) (run.Fleet, error) {
	x, err := f.store.GetFleet(ctx, name)
	if err != nil {
		return run.Fleet{}, err
	}
	all, err := f.store.FleetRevisions(ctx, name)
	if err != nil {
		return run.Fleet{}, err
	}
	to, err := run.FindRevision(name, all, u.Revision)
	if err != nil {
		return run.Fleet{}, err
	}
	// An earlier version may have permitted what this one does not.
	if faults := spec.ValidateFleet(name, to.Settings.ApplyTo(x.Spec)); len(faults) > 0 {
		return run.Fleet{}, run.InvalidError(fmt.Sprintf("the settings of revision %d are not valid", to.Number), faults)
	}
	u.Revision = to.Number
	return f.store.UndoFleet(ctx, name, u)
}
