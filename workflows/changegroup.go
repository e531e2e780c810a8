package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

const (
	// groupEvents is the length of a history after which the workflow of a
	// change group continues as new.
	groupEvents = 2_000
	// groupLinger is how long it waits for more before it ends: the next
	// signal starts it again.
	groupLinger = time.Minute
)

// ChangeGroup is the workflow of a change group: it grants the group's slots,
// one transaction at a time, whenever it is told that one may be free. Who
// holds and who waits is known to the records alone, so nothing is lost where
// it ends, fails to be told twice, or is terminated: the next signal grants all
// that is to be granted.
func ChangeGroup(ctx workflow.Context, in contract.ChangeGroupInput) error {
	g := &granter{in: in, most: groupEvents}
	if in.Limits != nil && in.Limits.Events > 0 {
		g.most = in.Limits.Events
	}
	g.inbox = inbox{
		onBare(ctx, contract.SignalGrant, func(workflow.Context) { g.told = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { g.forced = true }),
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.ChangeGroupState, error) { return g.state, nil }); err != nil {
		return err
	}
	return g.run(ctx)
}

// granter is one execution of the workflow of a change group.
type granter struct {
	in     contract.ChangeGroupInput
	most   int // events of the history
	inbox  inbox
	told   bool
	forced bool
	state  contract.ChangeGroupState
}

func (g *granter) run(ctx workflow.Context) error {
	for {
		// What is told from here on may come too late for the grant below.
		g.inbox.drain(ctx)
		g.told = false
		if err := g.grant(ctx); err != nil {
			return err
		}
		g.inbox.drain(ctx)
		switch {
		case g.full(ctx):
			// The next execution begins with a grant, so what was told and not
			// acted on is in it.
			return workflow.NewContinueAsNewError(ctx, contract.ChangeGroupWorkflow, g.in)
		case g.told:
			continue
		}
		more, err := workflow.AwaitWithTimeout(ctx, groupLinger, g.inbox.waiting)
		if err != nil || !more {
			return err
		}
	}
}

// grant lets in all that may be let in.
func (g *granter) grant(ctx workflow.Context) error {
	for more := true; more; {
		out, err := progress[contract.GrantResult](ctx, contract.ActivityGrant, contract.GrantInput{Name: g.in.Name})
		if err != nil {
			if refused(err) {
				return temporal.NewNonRetryableApplicationError("the records refuse to grant slots", string(run.CodeInternal), err)
			}
			return err
		}
		g.state.Rounds++
		g.state.Granted += out.Granted
		more = out.More
	}
	return nil
}

func (g *granter) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return g.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > g.most
}
