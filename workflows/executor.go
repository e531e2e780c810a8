package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// executorEvents is the history length after which the executor workflow
// continues as new. A check takes three events, a timer two.
const executorEvents = 500

// Executor is the executor workflow: it removes a temporary executor that stays
// offline past its time, and shows the executor's state. It reads all state
// from the records, so nothing is lost if it is terminated: the next signal
// starts it again.
func Executor(ctx workflow.Context, in contract.ExecutorInput) error {
	w := &executorRunner{in: in, maxEvents: executorEvents, state: contract.ExecutorState{Executor: in.Executor}}
	if in.Limits != nil && in.Limits.HistoryEvents > 0 {
		w.maxEvents = in.Limits.HistoryEvents
	}
	w.signals = signals{
		onBare(ctx, contract.SignalExecutor, func(workflow.Context) { w.notified = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { w.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.ExecutorState, error) { return w.state, nil },
		workflow.QueryHandlerOptions{Description: "The executor's state at the last check. The records have the current state."})
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// executorRunner is one execution of the executor workflow.
type executorRunner struct {
	in        contract.ExecutorInput
	maxEvents int // maximum length of the history
	signals   signals
	notified  bool
	forced    bool
	state     contract.ExecutorState

	timer  workflow.Future // of the next check; nil for none
	fireAt time.Time       // when timer fires
	cancel workflow.CancelFunc
}

// run watches the executor until it is removed. A cancellation of the workflow
// ends it.
func (w *executorRunner) run(root workflow.Context) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	for {
		// A signal from here on may come too late for the check below.
		w.signals.drain(ctx)
		w.notified = false
		known, err := w.check(ctx)
		if err != nil {
			return err
		}
		if !known || w.state.State == run.ExecutorRemoved {
			w.signals.drain(ctx) // discards the signal of the removal, which the check has seen
			return nil
		}
		w.signals.drain(ctx)
		switch full := w.full(ctx); {
		case w.notified && !full:
			continue
		case full:
			// The next execution begins with a check.
			return workflow.NewContinueAsNewError(ctx, contract.ExecutorWorkflow, w.in)
		case root.Err() != nil:
			return root.Err()
		}
		w.await(ctx, root)
	}
}

// check reads the executor's state, and removes the executor if it expired.
// known is false if the records have no such executor.
func (w *executorRunner) check(ctx workflow.Context) (known bool, err error) {
	state, err := expireExecutor(ctx, w.in.Executor)
	switch {
	case err == nil:
	case isCode(err, run.CodeNotFound):
		return false, nil
	case refused(err):
		return false, temporal.NewNonRetryableApplicationError("the records refuse to report the state of the executor", string(run.CodeInternal), err)
	default:
		return false, err
	}
	w.state = state
	w.updateDetails(ctx)
	return true, nil
}

// await waits for a signal, a cancellation, or the time of the next check.
func (w *executorRunner) await(ctx, root workflow.Context) {
	w.setTimer(ctx)
	// ctx is disconnected and never cancelled.
	_ = workflow.Await(ctx, func() bool {
		return w.signals.waiting() || root.Err() != nil || w.timer != nil && w.timer.IsReady()
	})
	if w.timer != nil && w.timer.IsReady() {
		w.timer = nil
	}
}

// setTimer sets the timer of the next check. It keeps a timer that fires no
// later: an extra check does no harm, and a new timer costs events.
func (w *executorRunner) setTimer(ctx workflow.Context) {
	wait := w.state.NextCheck.Std()
	due := workflow.Now(ctx).Add(wait)
	if w.timer != nil && (wait == 0 || due.Before(w.fireAt)) {
		w.cancel()
		w.timer = nil
	}
	if wait == 0 || w.timer != nil {
		return
	}
	var timerCtx workflow.Context
	timerCtx, w.cancel = workflow.WithCancel(ctx)
	w.fireAt = due
	w.timer = workflow.NewTimerWithOptions(timerCtx, wait, workflow.TimerOptions{Summary: "next check"})
}

// updateDetails updates the details in Temporal's web UI.
func (w *executorRunner) updateDetails(ctx workflow.Context) {
	s := w.state
	text := fmt.Sprintf("Executor of pool `%s`, %s, %d tasks, last contact at %s.", s.Pool, s.State, s.Tasks, formatTime(s.LastContact))
	if s.Reason != "" {
		text += " Reason: " + s.Reason
	}
	workflow.SetCurrentDetails(ctx, text)
}

func (w *executorRunner) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return w.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > w.maxEvents
}

// isCode reports whether the records answered with the error code.
func isCode(err error, code run.Code) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.Type() == string(code)
}
