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
	// groupEvents is the history length after which the change-group workflow
	// continues as new. The server rejects the command if a signal arrived
	// during the workflow task; the workflow then retries with a slightly
	// longer history.
	groupEvents = 500
	// groupLinger is how long the workflow waits for signals before it ends.
	// The next signal starts it again.
	groupLinger = time.Minute
)

// ChangeGroup is the change-group workflow: it grants the group's slots, one
// transaction at a time, whenever a signal says that a slot may be free.
// Holders and waiting runs are in the records alone. A lost signal, a failed
// workflow or a terminated one therefore loses nothing: the next signal grants
// all slots that are due.
func ChangeGroup(ctx workflow.Context, in contract.ChangeGroupInput) error {
	g := &changeGroupRunner{in: in, maxEvents: groupEvents, linger: groupLinger}
	if l := in.Limits; l != nil && l.HistoryEvents > 0 {
		g.maxEvents = l.HistoryEvents
	}
	if l := in.Limits; l != nil && l.IdleTimeout > 0 {
		g.linger = l.IdleTimeout.Std()
	}
	g.signals = signals{
		onBare(ctx, contract.SignalGrant, func(workflow.Context) { g.notified = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { g.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.ChangeGroupState, error) { return g.state, nil },
		workflow.QueryHandlerOptions{Description: "What this execution did. The records list the runs that hold a slot and the runs that wait."})
	if err != nil {
		return err
	}
	return g.run(ctx)
}

// changeGroupRunner is one execution of the change-group workflow.
type changeGroupRunner struct {
	in         contract.ChangeGroupInput
	maxEvents  int // maximum length of the history
	linger     time.Duration
	signals    signals
	notified   bool
	forced     bool
	state      contract.ChangeGroupState
	lastSignal time.Time       // time of the last signal
	timer      workflow.Future // the linger timer, kept across signals: a new timer costs two events
}

// run grants slots until no signal arrives for the linger time. A cancellation
// ends the workflow after it has handled the signals received so far.
func (g *changeGroupRunner) run(root workflow.Context) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	for {
		// A signal from here on may come too late for the grant below.
		g.signals.drain(ctx)
		g.notified = false
		if err := g.grant(ctx); err != nil {
			return err
		}
		g.signals.drain(ctx)
		switch full := g.full(ctx); {
		case g.notified && !full:
			continue
		case full:
			// The next execution begins with a grant, which covers signals that
			// this one has not handled.
			return workflow.NewContinueAsNewError(ctx, contract.ChangeGroupWorkflow, g.in)
		case root.Err() != nil:
			return root.Err()
		}
		g.updateDetails(ctx)
		if over := g.await(ctx, root); over {
			return nil
		}
	}
}

// await waits for a signal or a cancellation. over is true if none came for the
// linger time.
func (g *changeGroupRunner) await(ctx, root workflow.Context) (over bool) {
	g.lastSignal = workflow.Now(ctx)
	for {
		if g.timer == nil {
			left := g.lastSignal.Add(g.linger).Sub(workflow.Now(ctx))
			g.timer = workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: "idle timeout"})
		}
		// ctx is disconnected and never cancelled.
		_ = workflow.Await(ctx, func() bool { return g.signals.waiting() || g.timer.IsReady() || root.Err() != nil })
		if g.timer.IsReady() {
			g.timer = nil
		}
		switch {
		case g.signals.waiting() || root.Err() != nil:
			return false
		case g.lastSignal.Add(g.linger).After(workflow.Now(ctx)):
			continue // a signal came since the timer started
		}
		return true
	}
}

// grant admits all runs that can be admitted.
func (g *changeGroupRunner) grant(ctx workflow.Context) error {
	for more := true; more; {
		out, err := callRecords[contract.GrantResult](ctx, contract.ActivityGrantSlots, contract.GrantInput{Name: g.in.Name})
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

// updateDetails updates the details in Temporal's web UI.
func (g *changeGroupRunner) updateDetails(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Admitted %d runs, in %d checks since %s.", g.state.Granted, g.state.Rounds,
		formatTime(workflow.GetInfo(ctx).WorkflowStartTime)))
}

func (g *changeGroupRunner) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return g.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > g.maxEvents
}
