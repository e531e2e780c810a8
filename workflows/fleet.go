package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// fleetEvents is the length of a history after which the workflow of a fleet
// continues as new: a step takes a dozen.
const fleetEvents = 2000

// Fleet is the workflow of a fleet: somebody watches it, and what is found to
// be done is done, one step after the other, by one worker at a time. A history
// grows with what is done and not with time. Everything that it knows is in
// the records, so nothing is lost where it is terminated.
func Fleet(ctx workflow.Context, in contract.FleetInput) error {
	f := &shepherd{in: in, most: fleetEvents}
	if in.State != nil {
		f.state = *in.State
	}
	f.state.Bootstrapping = nil // of the execution before
	if in.Limits != nil && in.Limits.Events > 0 {
		f.most = in.Limits.Events
	}
	f.inbox = inbox{
		onBare(ctx, contract.SignalFleet, func(workflow.Context) { f.told = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { f.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.FleetState, error) { return f.state, nil },
		workflow.QueryHandlerOptions{Description: "What was done with the fleet. The records have the ledger of its instances."})
	if err != nil {
		return err
	}
	return f.run(ctx)
}

// shepherd is one execution of the workflow of a fleet.
type shepherd struct {
	in     contract.FleetInput
	most   int // events of the history
	inbox  inbox
	told   bool // a client changed the fleet after the watch began
	forced bool
	state  contract.FleetState
}

func (f *shepherd) run(ctx workflow.Context) error {
	for {
		f.inbox.drain(ctx)
		if f.full(ctx) {
			return f.continueAsNew(ctx)
		}
		f.told = false
		out, err := f.watch(ctx)
		switch {
		case errors.Is(err, errFull):
			return f.continueAsNew(ctx)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		if err := f.act(ctx, out.Plan); err != nil {
			return err
		}
		// A client may have made it anew meanwhile.
		f.inbox.drain(ctx)
		if (out.Gone || out.Plan.End) && !f.told && !f.forced {
			return nil
		}
	}
}

// watch has the fleet watched until there is something to do. Whoever does it
// hears of clients' changes by itself. Where the history is full it is left to
// the next execution.
func (f *shepherd) watch(ctx workflow.Context) (out contract.WatchFleetResult, err error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	watching := watchFleet(ctx, contract.WatchFleetInput{Fleet: f.in.Fleet, Bootstrapping: slices.Clone(f.state.Bootstrapping)})
	for !watching.IsReady() {
		if err := workflow.Await(ctx, func() bool { return watching.IsReady() || f.inbox.waiting() }); err != nil {
			return out, err
		}
		f.inbox.drain(ctx)
		if !watching.IsReady() && f.full(ctx) {
			return out, errFull
		}
	}
	return out, watching.Get(ctx, &out)
}

// act does what was found to be done. Steps have ids that no other execution
// has, so that one that is repeated asks for nothing twice.
func (f *shepherd) act(ctx workflow.Context, p contract.FleetPlan) error {
	for _, number := range p.Bootstrap {
		f.bootstrap(ctx, number)
	}
	p.Bootstrap = nil
	if p.Request == nil && len(p.GiveUp)+len(p.Drain)+len(p.Delete)+len(p.Lost) == 0 && !p.End {
		return nil
	}
	id := fmt.Sprintf("%s.%d", workflow.GetInfo(ctx).WorkflowExecution.RunID, f.state.Steps+1)
	if err := stepFleet(ctx, contract.StepFleetInput{Fleet: f.in.Fleet, ID: id, Plan: p}); err != nil {
		return err
	}
	f.count(ctx, p)
	return nil
}

// bootstrap has an executor made of an instance, beside all else.
func (f *shepherd) bootstrap(ctx workflow.Context, number int) {
	if slices.Contains(f.state.Bootstrapping, number) {
		return
	}
	f.state.Bootstrapping = append(f.state.Bootstrapping, number)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := bootstrapInstance(ctx, contract.BootstrapInstanceInput{Fleet: f.in.Fleet, Number: number})
		if err != nil && ctx.Err() == nil {
			workflow.GetLogger(ctx).Warn("an instance was not bootstrapped", "fleet", f.in.Fleet, "number", number, "error", err)
		}
		f.state.Bootstrapping = slices.DeleteFunc(f.state.Bootstrapping, func(n int) bool { return n == number })
	})
}

// count notes a step that was done, for people.
func (f *shepherd) count(ctx workflow.Context, p contract.FleetPlan) {
	f.state.Steps++
	if p.Request != nil {
		f.state.Requested += p.Request.Count
	}
	f.state.Drained += len(p.Drain)
	f.state.Deleted += len(p.Delete)
	f.state.Lost += len(p.Lost)
	f.state.GivenUp += len(p.GiveUp)
	f.state.Last = p
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Fleet of %d steps: %d instances asked for, %d drained, %d deletions, %d vanished, %d requests given up.",
		f.state.Steps, f.state.Requested, f.state.Drained, f.state.Deleted, f.state.Lost, f.state.GivenUp))
}

func (f *shepherd) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	full := info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > f.most
	// A bootstrap would have to begin anew; so it is waited for, within reason.
	return f.forced || full && (len(f.state.Bootstrapping) == 0 || info.GetCurrentHistoryLength() > 4*f.most)
}

func (f *shepherd) continueAsNew(ctx workflow.Context) error {
	state := f.state
	state.Bootstrapping = nil
	return workflow.NewContinueAsNewError(ctx, contract.FleetWorkflow, contract.FleetInput{Fleet: f.in.Fleet, State: &state, Limits: f.in.Limits})
}
