package archives

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/run"
)

// stallTimer cancels a context when the executor API makes no progress for too long.
type stallTimer struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	ctx    context.Context // its cause is read by explain
}

var errStalled = run.Errorf(run.CodeUnavailable, "the transfer of an archive to or from the gateway made no progress")

// newStallTimer returns a running timeout.
func newStallTimer(ctx context.Context, limit time.Duration) (context.Context, *stallTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &stallTimer{limit: limit, cancel: cancel, ctx: ctx}
	p.timer = time.AfterFunc(limit, func() { cancel(errStalled) })
	return ctx, p
}

func (p *stallTimer) resume() { p.timer.Reset(p.limit) }
func (p *stallTimer) pause()  { p.timer.Stop() }

func (p *stallTimer) stop() {
	p.timer.Stop()
	p.cancel(nil)
}

// explain returns errStalled if the timeout caused err.
func (p *stallTimer) explain(err error) error {
	if err != nil && errors.Is(context.Cause(p.ctx), errStalled) {
		return errStalled
	}
	return err
}
