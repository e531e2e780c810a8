package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/run"
)

// asked is a step that waits for the executor.
type asked struct {
	Frame int64 `json:"n"` // that asks
	Step  int   `json:"s"`
}

var errAskOver = errors.New("the step waits no more")

// serveSteps moves archives for the steps that ask, until ctx ends. What was
// only asked for may be done again, by whichever process: nothing of it is
// visible before it is whole, and the shim takes one answer alone.
func (t *task) serveSteps(ctx context.Context, h Handle) {
	through, ok := h.(Courier)
	for {
		ask, changed := t.openAsk()
		if ask != nil {
			if !ok {
				t.log.Error("a step asks for what the driver can not do")
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
			case <-t.over: // where the environment is gone, nobody ends the step
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

// openAsk returns the step that waits, nil for none, and what is closed once
// that has changed.
func (t *task) openAsk() (*asked, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps.ask, t.askChanged
}

// addFrame folds in a frame that was read.
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

// serveStep does what a step asks for, and answers, as often as it takes.
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
			return // the frames tell how it ended
		}
		e.log.Warn("moving an archive broke off", loggable(err))
		if e.progressed() {
			retry = pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
		}
		if !retry.wait(ctx, nil) {
			return
		}
	}
}

// isOver reports whether the shim says that the step does not wait any more.
func isOver(err error) bool {
	fault, ok := errors.AsType[*transfer.FaultError](err)
	return ok && fault.Code == run.CodeConflict || errors.Is(err, errAskOver)
}
