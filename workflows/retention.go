package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// retentionEvents is the length of a history after which the workflow
// continues as new: some dozens of looks.
const retentionEvents = 1_000

// Retention is the workflow that deletes what the configuration keeps no
// longer: it looks, sleeps, and looks again. It ends where it is told that
// everything is kept.
func Retention(ctx workflow.Context, in contract.RetentionInput) error {
	s := &sweeper{in: in, most: retentionEvents, state: contract.RetentionState{Retention: in.Retention}}
	if in.Limits != nil && in.Limits.Events > 0 {
		s.most = in.Limits.Events
	}
	s.inbox = inbox{
		on(ctx, contract.SignalRetention, func(_ workflow.Context, r contract.Retention) { s.in.Retention = r }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { s.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.RetentionState, error) { return s.state, nil },
		workflow.QueryHandlerOptions{Description: "What is kept, and what this execution deleted."})
	if err != nil {
		return err
	}
	switch err := s.run(ctx); {
	case errors.Is(err, errEverythingKept):
		return nil
	case errors.Is(err, errFull):
		return workflow.NewContinueAsNewError(ctx, contract.RetentionWorkflow, s.in)
	default:
		return err
	}
}

// errEverythingKept ends the workflow.
var errEverythingKept = errors.New("everything is kept")

// sweeper is one execution of the workflow.
type sweeper struct {
	in     contract.RetentionInput // for the next execution: with what it was told last
	most   int                     // events of the history
	inbox  inbox
	forced bool
	state  contract.RetentionState
}

func (s *sweeper) run(ctx workflow.Context) error {
	for {
		if err := s.heed(ctx); err != nil {
			return err
		}
		if err := s.expireLogs(ctx); err != nil {
			return err
		}
		if err := s.deleteRuns(ctx); err != nil {
			return err
		}
		if err := s.deleteEvents(ctx); err != nil {
			return err
		}
		if err := s.sleep(ctx); err != nil {
			return err
		}
	}
}

// heed reports by an error that this execution is to end. The next one begins
// with a look.
func (s *sweeper) heed(ctx workflow.Context) error {
	s.inbox.drain(ctx)
	info := workflow.GetInfo(ctx)
	switch {
	case s.in.Retention.Off():
		return errEverythingKept
	case s.in.Retention != s.state.Retention || s.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > s.most:
		return errFull
	}
	return nil
}

// expireLogs is an activity of its own: it keeps to a rate.
func (s *sweeper) expireLogs(ctx workflow.Context) error {
	keep := s.state.Retention.Logs
	for more := keep.MaxAge != 0; more; {
		if err := s.heed(ctx); err != nil {
			return err
		}
		out, err := expireLogs(ctx, keep)
		if err != nil {
			return err
		}
		s.state.Logs += out.Runs
		more = out.More
	}
	return nil
}

// deleteRuns is an activity of its own: a thousand runs take seconds.
func (s *sweeper) deleteRuns(ctx workflow.Context) error {
	keep := s.state.Retention.Runs
	for more := keep != (contract.RunRetention{}); more; {
		if err := s.heed(ctx); err != nil {
			return err
		}
		out, err := deleteRuns(ctx, keep)
		if err != nil {
			return err
		}
		s.state.Runs += out.Deleted
		more = out.More
	}
	return nil
}

func (s *sweeper) deleteEvents(ctx workflow.Context) error {
	keep := s.state.Retention.Events
	for more := keep != (contract.EventRetention{}); more; {
		if err := s.heed(ctx); err != nil {
			return err
		}
		out, err := progress[contract.RemoveEventsResult](ctx, contract.ActivityRemoveEvents,
			contract.RemoveEventsInput{MaxAge: keep.MaxAge, Newest: keep.Keep})
		if err != nil {
			return err
		}
		s.state.Events += out.Removed
		more = out.More
	}
	return nil
}

// sleep waits until it is time for the next look. To be told again what it
// knows changes nothing.
func (s *sweeper) sleep(ctx workflow.Context) error {
	next := workflow.Now(ctx).Add(s.state.Retention.Interval.Std())
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Deleted %d runs and %d events, and the logs of %d runs, since %s. It looks again at %s.",
		s.state.Runs, s.state.Events, s.state.Logs, clock(workflow.GetInfo(ctx).WorkflowStartTime), clock(next)))
	timer := workflow.NewTimerWithOptions(ctx, s.state.Retention.Interval.Std(), workflow.TimerOptions{Summary: "until the next look"})
	for !timer.IsReady() {
		if err := workflow.Await(ctx, func() bool { return timer.IsReady() || s.inbox.waiting() }); err != nil {
			return err
		}
		if err := s.heed(ctx); err != nil {
			return err
		}
	}
	return nil
}
