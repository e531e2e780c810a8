package engine

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/run"
)

var _ run.Fleets = (*Engine)(nil)

// Fleets implements run.Fleets.
func (e *Engine) Fleets(ctx context.Context) ([]run.Fleet, error) { return e.store.ListFleets(ctx) }

// Fleet implements run.Fleets.
func (e *Engine) Fleet(ctx context.Context, name string) (run.Fleet, error) {
	return e.store.GetFleet(ctx, name)
}

// PutFleet implements run.Fleets.
func (e *Engine) PutFleet(ctx context.Context, name string, s run.FleetSpec, by string) (_ run.Fleet, created bool, _ error) {
	faults := run.ValidateFleet(name, s)
	_, more := scaling.Compile(s.Scaling)
	if faults = append(faults, more...); len(faults) > 0 {
		return run.Fleet{}, false, run.InvalidError("the fleet is not valid", faults)
	}
	return e.store.PutFleet(ctx, name, s, by)
}

// ControlFleet implements run.Fleets.
func (e *Engine) ControlFleet(ctx context.Context, name string, s run.FleetControl) (run.Fleet, error) {
	if faults := run.ValidateFleetControl(s); len(faults) > 0 {
		return run.Fleet{}, run.InvalidError("the fleet action is not valid", faults)
	}
	return e.store.ControlFleet(ctx, name, s)
}

// DeleteFleet implements run.Fleets.
func (e *Engine) DeleteFleet(ctx context.Context, name, by string) (run.Fleet, error) {
	return e.store.DeleteFleet(ctx, name, by)
}

// FleetInstances implements run.Fleets.
func (e *Engine) FleetInstances(ctx context.Context, name string, gone bool) ([]run.FleetInstance, error) {
	return e.store.FleetInstances(ctx, name, gone)
}

// FleetEvents implements run.Fleets.
func (e *Engine) FleetEvents(ctx context.Context, name string, after int64, n int) ([]run.FleetEvent, error) {
	if n <= 0 {
		n = run.DefaultFleetPageSize
	}
	return e.store.FleetEvents(ctx, name, after, min(n, run.MaxFleetEvents))
}

// signalFleet signals the fleet workflow. It starts the workflow if it does not
// run.
func signalFleet(ctx context.Context, starter Starter, name string) error {
	options := client.StartWorkflowOptions{
		ID:                       contract.FleetWorkflowID(name),
		TaskQueue:                contract.ControlQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "looks after fleet " + name,
	}
	_, err := starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalFleet, nil, options,
		contract.FleetWorkflow, contract.FleetInput{Fleet: name})
	return err
}
