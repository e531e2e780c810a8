package activities

import (
	"context"
	"errors"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/fleets"
)

// FleetWorker runs the plugins of fleets.
type FleetWorker interface {
	Watch(ctx context.Context, fleet string, u fleets.UnderWay) (fleets.Watched, error)
	Step(ctx context.Context, fleet, id string, p fleets.Plan) error
	Bootstrap(ctx context.Context, fleet string, number int) error
}

var _ FleetWorker = (*fleets.Worker)(nil)

// Fleets holds the activities of fleets. Errors are those of toTemporal.
type Fleets struct{ worker FleetWorker }

// NewFleets returns the activities over a worker.
func NewFleets(worker FleetWorker) *Fleets { return &Fleets{worker: worker} }

// WatchFleet is contract.ActivityWatchFleet.
func (a *Fleets) WatchFleet(ctx context.Context, in contract.WatchFleetInput) (contract.WatchFleetResult, error) {
	ctx, end := alive(ctx)
	defer end()
	out, err := a.worker.Watch(ctx, in.Fleet, fleets.UnderWay{Bootstrapping: in.Bootstrapping, Change: in.Change})
	switch {
	case errors.Is(context.Cause(ctx), errWorkerStops):
		return contract.WatchFleetResult{Again: true}, nil
	case err != nil:
		return contract.WatchFleetResult{}, toTemporal(err)
	}
	return contract.WatchFleetResult{Plan: fromPlan(out.Plan), Gone: out.Gone, After: out.After}, nil
}

// StepFleet is contract.ActivityStepFleet.
func (a *Fleets) StepFleet(ctx context.Context, in contract.StepFleetInput) error {
	ctx, end := alive(ctx)
	defer end()
	return toTemporal(a.worker.Step(ctx, in.Fleet, in.ID, toPlan(in.Plan)))
}

// BootstrapInstance is contract.ActivityBootstrapInstance.
func (a *Fleets) BootstrapInstance(ctx context.Context, in contract.BootstrapInstanceInput) error {
	ctx, end := alive(ctx)
	defer end()
	return toTemporal(a.worker.Bootstrap(ctx, in.Fleet, in.Number))
}

func fromPlan(p fleets.Plan) contract.FleetPlan {
	out := contract.FleetPlan{
		GiveUp: fromOrders(p.GiveUp), Drain: fromOrders(p.Drain), Delete: fromOrders(p.Delete), Lost: fromOrders(p.Lost), End: p.End,
	}
	if p.Request.Count > 0 {
		out.Request = &contract.FleetRequest{Count: p.Request.Count, Reason: p.Request.Reason, Why: p.Request.Why}
	}
	for _, o := range p.Bootstrap {
		out.Bootstrap = append(out.Bootstrap, o.Number)
	}
	return out
}

func fromOrders(all []fleets.Order) []contract.FleetOrder {
	var out []contract.FleetOrder
	for _, o := range all {
		out = append(out, contract.FleetOrder{Number: o.Number, Reason: o.Reason, Why: o.Why})
	}
	return out
}

func toPlan(p contract.FleetPlan) fleets.Plan {
	out := fleets.Plan{GiveUp: toOrders(p.GiveUp), Drain: toOrders(p.Drain), Delete: toOrders(p.Delete), Lost: toOrders(p.Lost), End: p.End}
	if p.Request != nil {
		out.Request = fleets.Request{Count: p.Request.Count, Reason: p.Request.Reason, Why: p.Request.Why}
	}
	return out
}

func toOrders(all []contract.FleetOrder) []fleets.Order {
	var out []fleets.Order
	for _, o := range all {
		out = append(out, fleets.Order{Number: o.Number, Reason: o.Reason, Why: o.Why})
	}
	return out
}
