package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// fleetEvents is the history length after which the fleet workflow continues as
// new. A step takes a dozen events.
const fleetEvents = 2000

// Fleet is the fleet workflow. A fleet worker watches the fleet and returns a
// plan, and the workflow executes the plan as steps, one after the other. A
// step that asks the plugin to create or delete machines may take long: one
// such step at a time runs concurrently with the watch. The history grows with
// steps and not with time. All state is in the records, so nothing is lost if
// the workflow is terminated.
func Fleet(ctx workflow.Context, in contract.FleetInput) error {
	f := &fleetRunner{in: in, maxEvents: fleetEvents}
	if in.State != nil {
		f.state = *in.State
	}
	f.state.Bootstrapping, f.state.Change = nil, "" // they belong to the execution before
	if in.Limits != nil && in.Limits.HistoryEvents > 0 {
		f.maxEvents = in.Limits.HistoryEvents
	}
	f.signals = signals{
		onBare(ctx, contract.SignalFleet, func(workflow.Context) { f.changed = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { f.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.FleetState, error) { return f.state, nil },
		workflow.QueryHandlerOptions{Description: "The steps done for the fleet. The records have the ledger of its instances."})
	if err != nil {
		return err
	}
	return f.run(ctx)
}

// fleetRunner is one execution of the fleet workflow.
type fleetRunner struct {
	in        contract.FleetInput
	maxEvents int // maximum length of the history
	signals   signals
	changed   bool // a client changed the fleet after the watch began
	forced    bool
	state     contract.FleetState
	failed    error // error of the concurrent step
}

func (f *fleetRunner) run(ctx workflow.Context) error {
	for {
		f.signals.drain(ctx)
		if f.full(ctx) {
			return f.continueAsNew(ctx)
		}
		f.changed = false
		change := f.state.Change
		out, err := f.watch(ctx)
		switch {
		case errors.Is(err, errFull):
			return f.continueAsNew(ctx)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		if err := f.executePlan(ctx, out, change); err != nil {
			return err
		}
		// A client may have created the fleet again meanwhile.
		f.signals.drain(ctx)
		if (out.Gone || out.Plan.End) && !f.changed && !f.forced {
			return f.awaitChange(ctx)
		}
	}
}

// watch runs the watch activity until it returns a plan. The activity itself
// notices clients' changes. If the history is full, the next execution starts
// the watch again.
func (f *fleetRunner) watch(ctx workflow.Context) (out contract.WatchFleetResult, err error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	watching := watchFleet(ctx, contract.WatchFleetInput{Fleet: f.in.Fleet, Bootstrapping: slices.Clone(f.state.Bootstrapping), Change: f.state.Change})
	for !watching.IsReady() {
		if err := workflow.Await(ctx, func() bool { return watching.IsReady() || f.signals.waiting() || f.failed != nil }); err != nil {
			return out, err
		}
		if f.failed != nil {
			return out, f.failed
		}
		f.signals.drain(ctx)
		if !watching.IsReady() && f.full(ctx) {
			return out, errFull
		}
	}
	return out, watching.Get(ctx, &out)
}

// executePlan executes the plan of a watch. change is the concurrent step that was
// running when the watch began.
func (f *fleetRunner) executePlan(ctx workflow.Context, out contract.WatchFleetResult, change string) error {
	p := out.Plan
	for _, number := range p.Bootstrap {
		f.bootstrap(ctx, number)
	}
	p.Bootstrap = nil
	if emptyPlan(p) {
		return nil
	}
	concurrent := contract.FleetPlan{Request: p.Request, Delete: p.Delete}
	p.Request, p.Delete = nil, nil
	if p.End {
		if err := f.awaitChange(ctx); err != nil {
			return err
		}
	}
	if !emptyPlan(p) {
		if err := f.step(ctx, f.nextStepID(ctx), p); err != nil {
			return err
		}
	}
	if emptyPlan(concurrent) {
		return nil
	}
	if err := f.awaitChange(ctx); err != nil {
		return err
	}
	if out.AfterChange != change { // the plan does not include the effects of the change
		return nil
	}
	id := f.nextStepID(ctx)
	f.state.Change = id
	workflow.Go(ctx, func(ctx workflow.Context) {
		f.failed = f.step(ctx, id, concurrent)
		f.state.Change = ""
	})
	return nil
}

// awaitChange waits for the concurrent step.
func (f *fleetRunner) awaitChange(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return f.state.Change == "" }); err != nil {
		return err
	}
	return f.failed
}

func emptyPlan(p contract.FleetPlan) bool {
	return p.Request == nil && len(p.GiveUp)+len(p.Drain)+len(p.Delete)+len(p.Lost) == 0 && !p.End
}

// nextStepID returns the id of the next step. No other execution uses the id, so a
// repeated step requests nothing twice.
func (f *fleetRunner) nextStepID(ctx workflow.Context) string {
	f.state.Steps++
	return fmt.Sprintf("%s.%d", workflow.GetInfo(ctx).WorkflowExecution.RunID, f.state.Steps)
}

func (f *fleetRunner) step(ctx workflow.Context, id string, p contract.FleetPlan) error {
	if err := stepFleet(ctx, contract.RunFleetStepInput{Fleet: f.in.Fleet, ID: id, Plan: p}); err != nil {
		return err
	}
	f.recordStep(ctx, p)
	return nil
}

// bootstrap bootstraps an instance, concurrently with everything else.
func (f *fleetRunner) bootstrap(ctx workflow.Context, number int) {
	if slices.Contains(f.state.Bootstrapping, number) {
		return
	}
	f.state.Bootstrapping = append(f.state.Bootstrapping, number)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := bootstrapInstance(ctx, contract.BootstrapInstanceInput{Fleet: f.in.Fleet, Number: number})
		if err != nil && ctx.Err() == nil {
			workflow.GetLogger(ctx).Warn("failed to bootstrap instance", "fleet", f.in.Fleet, "number", number, "error", err)
		}
		f.state.Bootstrapping = slices.DeleteFunc(f.state.Bootstrapping, func(n int) bool { return n == number })
	})
}

// recordStep records a completed step, for display.
func (f *fleetRunner) recordStep(ctx workflow.Context, p contract.FleetPlan) {
	if p.Request != nil {
		f.state.Requested += p.Request.Count
	}
	f.state.Drained += len(p.Drain)
	f.state.Deleted += len(p.Delete)
	f.state.Lost += len(p.Lost)
	f.state.GivenUp += len(p.GiveUp)
	f.state.Last = p
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d steps: %d instances requested, %d drained, %d deletions, %d vanished, %d requests abandoned.",
		f.state.Steps, f.state.Requested, f.state.Drained, f.state.Deleted, f.state.Lost, f.state.GivenUp))
}

func (f *fleetRunner) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	full := info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > f.maxEvents
	// A bootstrap would have to begin again, so continue-as-new waits for it,
	// within a limit.
	return f.forced || full && (len(f.state.Bootstrapping) == 0 && f.state.Change == "" || info.GetCurrentHistoryLength() > 4*f.maxEvents)
}

// continueAsNew waits for the concurrent step first: if it were cut off, its
// progress would be unknown.
func (f *fleetRunner) continueAsNew(ctx workflow.Context) error {
	if err := f.awaitChange(ctx); err != nil {
		return err
	}
	state := f.state
	state.Bootstrapping = nil
	return workflow.NewContinueAsNewError(ctx, contract.FleetWorkflow, contract.FleetInput{Fleet: f.in.Fleet, State: &state, Limits: f.in.Limits})
}
