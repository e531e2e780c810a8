package agent

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/run"
)

var errRequestEnded = errors.New("the step no longer waits")

// serveSteps moves archives for the steps that request it, until ctx ends. Any
// process may repeat an unfinished request: nothing becomes visible before it is
// complete, and the shim accepts one answer only.
func (t *task) serveSteps(ctx context.Context, h executor.Handle) {
	archives, ok := h.(executor.ArchiveHandle)
	for {
		request, changed := t.currentRequest()
		if request != nil {
			if !ok {
				t.log.ErrorContext(ctx, "the driver does not support archive transfers")
				return
			}
			serving, cancel := context.WithCancelCause(ctx)
			served := make(chan struct{})
			go func() {
				defer close(served)
				t.serveStep(serving, archives, *request)
			}()
			select {
			case <-changed:
			case <-t.over: // without the environment, no frame ends the step
			case <-served:
			}
			cancel(errRequestEnded)
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

// currentRequest returns the pending request, nil for none, and a channel that is closed
// once the request changes.
func (t *task) currentRequest() (*frames.Request, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps.Request, t.requestChanged
}

// addFrame adds a frame that was read.
func (t *task) addFrame(f run.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.steps.Request
	t.steps.Add(f)
	if t.steps.Request != before {
		close(t.requestChanged)
		t.requestChanged = make(chan struct{})
	}
}

// serveStep performs a step's request and sends the answer, retrying as often as
// necessary.
func (t *task) serveStep(ctx context.Context, archives executor.ArchiveHandle, request frames.Request) {
	t.a.hitFailpoint(pointAsked, t.key)
	e := &archiveTransfer{task: t, archives: archives, request: request, log: t.log.With("step", request.Step), started: time.Now()}
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		answer, err := e.run(ctx)
		e.measure(ctx, answer, err)
		if err == nil {
			t.a.hitFailpoint(pointMoved, t.key)
			err = e.answer(ctx, answer)
		}
		switch {
		case err == nil:
			t.a.hitFailpoint(pointAcknowledged, t.key)
			return
		case ctx.Err() != nil:
			return
		case requestEnded(err):
			return // the frames report how the step ended
		}
		e.log.WarnContext(ctx, "failed to move an archive, retrying", "error", loggable(err))
		if e.progressed() {
			retry = pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
		}
		if !retry.wait(ctx, nil) {
			return
		}
	}
}

// requestEnded reports whether the shim answered that the step no longer waits.
func requestEnded(err error) bool {
	fault, ok := errors.AsType[*transfer.FaultError](err)
	return ok && fault.Code == run.CodeConflict || errors.Is(err, errRequestEnded)
}
