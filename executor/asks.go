package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/run"
)

// asked is a pending request of a step that waits for the executor.
type asked struct {
	Frame int64 `json:"n"` // frame that holds the request
	Step  int   `json:"s"`
}

var errAskOver = errors.New("the step no longer waits")

// serveSteps moves archives for the steps that request it, until ctx ends. Any
// process may repeat an unfinished request: nothing becomes visible before it is
// complete, and the shim accepts one answer only.
func (t *task) serveSteps(ctx context.Context, h Handle) {
	through, ok := h.(Courier)
	for {
		ask, changed := t.openAsk()
		if ask != nil {
			if !ok {
				t.log.Error("the driver does not support archive transfers")
				return
			}
			serving, cancel := context.WithCancelCause(ctx)
			served := make(chan struct{})
			go func() {
				defer close(served)
				t.serveStep(serving, through, *ask)
			}()
			select {
			case <-changed:
			case <-t.over: // without the environment, no frame ends the step
			case <-served:
			}
			cancel(errAskOver)
			<-served
		}
		select {
		case <-changed:
		case <-t.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// openAsk returns the pending request, nil for none, and a channel that is closed
// once the request changes.
func (t *task) openAsk() (*asked, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps.ask, t.askChanged
}

// addFrame adds a frame that was read.
func (t *task) addFrame(f run.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.steps.ask
	t.steps.add(f)
	if t.steps.ask != before {
		close(t.askChanged)
		t.askChanged = make(chan struct{})
	}
}

// serveStep performs a step's request and sends the answer, retrying as often as
// necessary.
func (t *task) serveStep(ctx context.Context, through Courier, ask asked) {
	t.a.at(pointAsked, t.key)
	e := &errand{task: t, through: through, ask: ask, log: t.log.With(slog.Int("step", ask.Step)), begun: time.Now()}
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		answer, err := e.run(ctx)
		e.measure(ctx, answer, err)
		if err == nil {
			t.a.at(pointMoved, t.key)
			err = e.answer(ctx, answer)
		}
		switch {
		case err == nil:
			t.a.at(pointTold, t.key)
			return
		case ctx.Err() != nil:
			return
		case isOver(err):
			return // the frames report how the step ended
		}
		e.log.Warn("failed to move an archive, retrying", loggable(err))
		if e.progressed() {
			retry = pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
		}
		if !retry.wait(ctx, nil) {
			return
		}
	}
}

// isOver reports whether the shim answered that the step no longer waits.
func isOver(err error) bool {
	fault, ok := errors.AsType[*transfer.FaultError](err)
	return ok && fault.Code == run.CodeConflict || errors.Is(err, errAskOver)
}
