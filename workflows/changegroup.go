package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

const (
	// groupEvents is the length of a history after which the workflow of a
	// change group continues as new. The server lets it only when no signal
	// came while it decided that; else it is asked again, from a history that
	// has become no longer than this by much.
	groupEvents = 500
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
	g := &granter{in: in, most: groupEvents, linger: groupLinger}
	if l := in.Limits; l != nil && l.Events > 0 {
		g.most = l.Events
	}
	if l := in.Limits; l != nil && l.Linger > 0 {
		g.linger = l.Linger.Std()
	}
	g.inbox = inbox{
		onBare(ctx, contract.SignalGrant, func(workflow.Context) { g.told = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { g.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.ChangeGroupState, error) { return g.state, nil },
		workflow.QueryHandlerOptions{Description: "What this execution did. The records know who holds a slot and who waits."})
	if err != nil {
		return err
	}
	return g.run(ctx)
}

// granter is one execution of the workflow of a change group.
type granter struct {
	in     contract.ChangeGroupInput
	most   int // events of the history
	linger time.Duration
	inbox  inbox
	told   bool
	forced bool
	state  contract.ChangeGroupState
	active time.Time       // when it was told last
	timer  workflow.Future // of the linger, kept while it was told: a new one costs two events
}

// run grants until nothing has come for a while. A cancellation of the
// workflow ends it at once, but not before all is granted that it was told of.
func (g *granter) run(root workflow.Context) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	for {
		// What is told from here on may come too late for the grant below.
		g.inbox.drain(ctx)
		g.told = false
		if err := g.grant(ctx); err != nil {
			return err
		}
		g.inbox.drain(ctx)
		switch full := g.full(ctx); {
		case g.told && !full:
			continue
		case full:
			// The next execution begins with a grant, so what was told and not
			// acted on is in it.
			return workflow.NewContinueAsNewError(ctx, contract.ChangeGroupWorkflow, g.in)
		case root.Err() != nil:
			return root.Err()
		}
		g.show(ctx)
		if over := g.await(ctx, root); over {
			return nil
		}
	}
}

// await waits for a signal, or a cancellation. over says that none has come for
// the time of the linger.
func (g *granter) await(ctx, root workflow.Context) (over bool) {
	g.active = workflow.Now(ctx)
	for {
		if g.timer == nil {
			left := g.active.Add(g.linger).Sub(workflow.Now(ctx))
			g.timer = workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: "nothing to grant"})
		}
		// The context is never cancelled.
		_ = workflow.Await(ctx, func() bool { return g.inbox.waiting() || g.timer.IsReady() || root.Err() != nil })
		if g.timer.IsReady() {
			g.timer = nil
		}
		switch {
		case g.inbox.waiting() || root.Err() != nil:
			return false
		case g.active.Add(g.linger).After(workflow.Now(ctx)):
			continue // it was told meanwhile
		}
		return true
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

// show tells Temporal's own user interface what was done.
func (g *granter) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Let %d runs in, in %d looks since %s.", g.state.Granted, g.state.Rounds,
		clock(workflow.GetInfo(ctx).WorkflowStartTime)))
}

func (g *granter) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return g.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > g.most
}
