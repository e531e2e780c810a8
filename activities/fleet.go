package activities

import (
	"context"
	"errors"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/fleeting/controller"
)

// FleetWorker runs the plugins of fleets.
type FleetWorker interface {
	Watch(ctx context.Context, fleet string, u controller.InProgress) (controller.WatchResult, error)
	Step(ctx context.Context, fleet, id string, p controller.Plan) error
	Bootstrap(ctx context.Context, fleet string, number int) error
}

var _ FleetWorker = (*controller.Worker)(nil)

// Fleets holds the activities of fleets. Errors are those of errcode.ToTemporal.
type Fleets struct{ worker FleetWorker }

// NewFleets returns the activities over a worker.
func NewFleets(worker FleetWorker) *Fleets { return &Fleets{worker: worker} }

// WatchFleet is contract.ActivityWatchFleet.
func (a *Fleets) WatchFleet(ctx context.Context, in contract.WatchFleetInput) (contract.WatchFleetResult, error) {
	ctx, end := startHeartbeats(ctx)
	defer end()
	out, err := a.worker.Watch(ctx, in.Fleet, controller.InProgress{Bootstrapping: in.Bootstrapping, Change: in.Change})
	switch {
	case errors.Is(context.Cause(ctx), errWorkerStops):
		return contract.WatchFleetResult{WorkerStopping: true}, nil
	case err != nil:
		return contract.WatchFleetResult{}, errcode.ToTemporal(err)
	}
	return contract.WatchFleetResult{Plan: fromPlan(out.Plan), Gone: out.Gone, AfterChange: out.After}, nil
}

// RunFleetStep is contract.ActivityRunFleetStep.
func (a *Fleets) RunFleetStep(ctx context.Context, in contract.RunFleetStepInput) error {
	ctx, end := startHeartbeats(ctx)
	defer end()
	return errcode.ToTemporal(a.worker.Step(ctx, in.Fleet, in.ID, toPlan(in.Plan)))
}

// BootstrapInstance is contract.ActivityBootstrapInstance.
func (a *Fleets) BootstrapInstance(ctx context.Context, in contract.BootstrapInstanceInput) error {
	ctx, end := startHeartbeats(ctx)
	defer end()
	return errcode.ToTemporal(a.worker.Bootstrap(ctx, in.Fleet, in.Number))
}

func fromPlan(p controller.Plan) contract.FleetPlan {
	out := contract.FleetPlan{
		GiveUp: fromOrders(p.GiveUp), Drain: fromOrders(p.Drain), Delete: fromOrders(p.Delete), Lost: fromOrders(p.Lost), End: p.End,
	}
	if p.Request.Count > 0 {
		out.Request = &contract.FleetRequest{Count: p.Request.Count, Reason: p.Request.Reason, Message: p.Request.Message}
	}
	for _, o := range p.Bootstrap {
		out.Bootstrap = append(out.Bootstrap, o.Number)
	}
	return out
}

func fromOrders(all []controller.Order) []contract.InstanceAction {
	var out []contract.InstanceAction
	for _, o := range all {
		out = append(out, contract.InstanceAction{Number: o.Number, Reason: o.Reason, Message: o.Message})
	}
	return out
}

func toPlan(p contract.FleetPlan) controller.Plan {
	out := controller.Plan{GiveUp: toOrders(p.GiveUp), Drain: toOrders(p.Drain), Delete: toOrders(p.Delete), Lost: toOrders(p.Lost), End: p.End}
	if p.Request != nil {
		out.Request = controller.Request{Count: p.Request.Count, Reason: p.Request.Reason, Message: p.Request.Message}
	}
	return out
}

func toOrders(all []contract.InstanceAction) []controller.Order {
	var out []controller.Order
	for _, o := range all {
		out = append(out, controller.Order{Number: o.Number, Reason: o.Reason, Message: o.Message})
	}
	return out
}
