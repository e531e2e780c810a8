package agent

import (
	"context"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/archives"
	"github.com/drover-run/drover/executor/agent/frames"
)

// serveSteps moves archives for the steps that request it, until ctx ends. Any
// process may repeat an unfinished request: nothing becomes visible before it is
// complete, and the shim accepts one answer only.
func (x *execution) serveSteps(ctx context.Context, h executor.Handle) {
	handle, ok := h.(executor.ArchiveHandle)
	for {
		request, changed := x.seen.request()
		if request != nil {
			if !ok {
				x.log.ErrorContext(ctx, "the driver does not support archive transfers")
				return
			}
			serving, cancel := context.WithCancelCause(ctx)
			served := make(chan struct{})
			go func() {
				defer close(served)
				x.serveStep(serving, handle, *request)
			}()
			select {
			case <-changed:
			case <-x.over: // without the environment, no frame ends the step
			case <-served:
			}
			cancel(archives.ErrRequestEnded)
			<-served
		}
		select {
		case <-changed:
		case <-x.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// serveStep performs a step's request.
func (x *execution) serveStep(ctx context.Context, handle executor.ArchiveHandle, request frames.Request) {
	x.a.hitFailpoint(pointAsked, x.key)
	timing := x.a.opts.timing
	archives.New(archives.Config{
		Key:      x.key,
		Executor: x.a.identity.ID,
		API:      x.a.api,
		Timing: archives.Timing{
			RetryFirst: timing.retryFirst,
			RetryLimit: timing.retryLimit,
			Prepare:    timing.prepare,
			Stall:      timing.stall,
			Answer:     timing.call,
		},
		SuspectRemoval: x.a.registration.SuspectRemoval,
		Measure:        x.a.metrics.transferred,
		Reached: func(s archives.Stage) {
			x.a.hitFailpoint(map[archives.Stage]failpoint{
				archives.StageMoving:       pointMoving,
				archives.StageMoved:        pointMoved,
				archives.StageAcknowledged: pointAcknowledged,
			}[s], x.key)
		},
	}, handle, request, x.log.With("step", request.Step)).Serve(ctx)
}
