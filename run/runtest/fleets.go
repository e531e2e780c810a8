package runtest

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Fleets is a run.Fleets made of functions.
type Fleets struct {
	FleetsFunc    func() ([]run.Fleet, error)
	FleetFunc     func(name string) (run.Fleet, error)
	PutFunc       func(name string, s run.FleetSpec, by string) (_ run.Fleet, created bool, _ error)
	ControlFunc   func(name string, s run.FleetControl) (run.Fleet, error)
	DeleteFunc    func(name, by string) (run.Fleet, error)
	InstancesFunc func(name string, gone bool) ([]run.FleetInstance, error)
	EventsFunc    func(name string, after int64, n int) ([]run.FleetEvent, error)
	RolloutFunc   func(name string) (run.FleetRollout, error)
	UndoFunc      func(name string, u run.FleetUndo) (run.Fleet, error)
}

var _ run.Fleets = (*Fleets)(nil)

// Fleets implements run.Fleets.
func (f *Fleets) Fleets(context.Context) ([]run.Fleet, error) {
	if f.FleetsFunc == nil {
		return nil, unset("Fleets")
	}
	return f.FleetsFunc()
}

// Fleet implements run.Fleets.
func (f *Fleets) Fleet(_ context.Context, name string) (run.Fleet, error) {
	if f.FleetFunc == nil {
		return run.Fleet{}, unset("Fleet")
	}
	return f.FleetFunc(name)
}

// PutFleet implements run.Fleets.
func (f *Fleets) PutFleet(_ context.Context, name string, s run.FleetSpec, by string) (_ run.Fleet, created bool, _ error) {
	if f.PutFunc == nil {
		return run.Fleet{}, false, unset("PutFleet")
	}
	return f.PutFunc(name, s, by)
}

// ControlFleet implements run.Fleets.
func (f *Fleets) ControlFleet(_ context.Context, name string, s run.FleetControl) (run.Fleet, error) {
	if f.ControlFunc == nil {
		return run.Fleet{}, unset("SteerFleet")
	}
	return f.ControlFunc(name, s)
}

// DeleteFleet implements run.Fleets.
func (f *Fleets) DeleteFleet(_ context.Context, name, by string) (run.Fleet, error) {
	if f.DeleteFunc == nil {
		return run.Fleet{}, unset("DeleteFleet")
	}
	return f.DeleteFunc(name, by)
}

// FleetInstances implements run.Fleets.
func (f *Fleets) FleetInstances(_ context.Context, name string, gone bool) ([]run.FleetInstance, error) {
	if f.InstancesFunc == nil {
		return nil, unset("FleetInstances")
	}
	return f.InstancesFunc(name, gone)
}

// FleetEvents implements run.Fleets.
func (f *Fleets) FleetEvents(_ context.Context, name string, after int64, n int) ([]run.FleetEvent, error) {
	if f.EventsFunc == nil {
		return nil, unset("FleetEvents")
	}
	return f.EventsFunc(name, after, n)
}

// FleetRollout implements run.Fleets.
func (f *Fleets) FleetRollout(_ context.Context, name string) (run.FleetRollout, error) {
	if f.RolloutFunc == nil {
		return run.FleetRollout{}, unset("FleetRollout")
	}
	return f.RolloutFunc(name)
}

// UndoFleet implements run.Fleets.
func (f *Fleets) UndoFleet(_ context.Context, name string, u run.FleetUndo) (run.Fleet, error) {
	if f.UndoFunc == nil {
		return run.Fleet{}, unset("UndoFleet")
	}
	return f.UndoFunc(name, u)
}
