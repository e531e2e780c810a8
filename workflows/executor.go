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

// executorEvents is the length of a history after which the workflow of an
// executor continues as new: a look takes three events, and a timer two.
const executorEvents = 500

// Executor is the workflow of an executor: it removes a temporary one that
// stays offline past its time, and shows how it stands. Everything that it
// knows it asks the records for, so nothing is lost where it is terminated: the
// next signal starts it again.
func Executor(ctx workflow.Context, in contract.ExecutorInput) error {
	w := &warden{in: in, most: executorEvents, state: contract.ExecutorState{Executor: in.Executor}}
	if in.Limits != nil && in.Limits.Events > 0 {
		w.most = in.Limits.Events
	}
	w.inbox = inbox{
		onBare(ctx, contract.SignalExecutor, func(workflow.Context) { w.told = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { w.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.ExecutorState, error) { return w.state, nil },
		workflow.QueryHandlerOptions{Description: "How the executor stood when it was looked at last. The records know how it stands."})
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// warden is one execution of the workflow of an executor.
type warden struct {
	in     contract.ExecutorInput
	most   int // events of the history
	inbox  inbox
	told   bool
	forced bool
	state  contract.ExecutorState

	timer  workflow.Future // of the next look, nil for none
	due    time.Time       // when it fires
	cancel workflow.CancelFunc
}

// run looks after the executor until that is removed. A cancellation of the
// workflow ends it.
func (w *warden) run(root workflow.Context) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	for {
		// What is told from here on may come too late for the look below.
		w.inbox.drain(ctx)
		w.told = false
		known, err := w.look(ctx)
		if err != nil {
			return err
		}
		if !known || w.state.State == run.ExecutorRemoved {
			w.inbox.drain(ctx) // of the removal, which the look told already
			return nil
		}
		w.inbox.drain(ctx)
		switch full := w.full(ctx); {
		case w.told && !full:
			continue
		case full:
			// The next execution begins with a look.
			return workflow.NewContinueAsNewError(ctx, contract.ExecutorWorkflow, w.in)
		case root.Err() != nil:
			return root.Err()
		}
		w.await(ctx, root)
	}
}

// look asks how the executor stands, and has it removed where its time is over.
// known is false where nobody has heard of it.
func (w *warden) look(ctx workflow.Context) (known bool, err error) {
	state, err := expireExecutor(ctx, w.in.Executor)
	switch {
	case err == nil:
	case isCode(err, run.CodeNotFound):
		return false, nil
	case refused(err):
		return false, temporal.NewNonRetryableApplicationError("the records refuse to tell how the executor stands", string(run.CodeInternal), err)
	default:
		return false, err
	}
	w.state = state
	w.show(ctx)
	return true, nil
}

// await waits for a signal, a cancellation, or the time of the next look.
func (w *warden) await(ctx, root workflow.Context) {
	w.setTimer(ctx)
	// The context is never cancelled.
	_ = workflow.Await(ctx, func() bool {
		return w.inbox.waiting() || root.Err() != nil || w.timer != nil && w.timer.IsReady()
	})
	if w.timer != nil && w.timer.IsReady() {
		w.timer = nil
	}
}

// setTimer sets the timer of the next look. One that is set and fires no later
// is as good: a look too many does no harm, and a new timer costs events.
func (w *warden) setTimer(ctx workflow.Context) {
	wait := w.state.Again.Std()
	due := workflow.Now(ctx).Add(wait)
	if w.timer != nil && (wait == 0 || due.Before(w.due)) {
		w.cancel()
		w.timer = nil
	}
	if wait == 0 || w.timer != nil {
		return
	}
	var timing workflow.Context
	timing, w.cancel = workflow.WithCancel(ctx)
	w.due = due
	w.timer = workflow.NewTimerWithOptions(timing, wait, workflow.TimerOptions{Summary: "look whether it is offline"})
}

// show tells Temporal's own user interface how the executor stands.
func (w *warden) show(ctx workflow.Context) {
	s := w.state
	text := fmt.Sprintf("Executor of pool `%s`, %s, %d tasks, last heard of at %s.", s.Pool, s.State, s.Tasks, clock(s.LastContact))
	if s.Reason != "" {
		text += " Reason: " + s.Reason
	}
	workflow.SetCurrentDetails(ctx, text)
}

func (w *warden) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return w.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > w.most
}

// isCode reports whether the records answered with the code.
func isCode(err error, code run.Code) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.Type() == string(code)
}
