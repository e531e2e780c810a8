package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/time/rate"

	"github.com/drover-run/drover/activities/errcode"
)

// removeFor is how long an activity removes data before it returns, so that the
// workflow can handle its signals.
const removeFor = 10 * time.Second

// errTimeOver ends the loop of an activity whose time is over.
var errTimeOver = errors.New("the time of the call is over")

// pace limits an activity to a rate, and makes it return in time. The time
// counts from the first wait, so that no call returns without having removed
// anything.
type pace struct {
	limiter  *rate.Limiter
	maxBatch int // in one call
	until    time.Time
	now      func() time.Time
}

// newPace returns the pace of one call. maxBatch bounds what is removed in one
// transaction; perSecond 0 means no limit.
func newPace(now func() time.Time, perSecond, maxBatch int) *pace {
	limit := rate.Inf
	if perSecond > 0 {
		limit, maxBatch = rate.Limit(perSecond), min(maxBatch, perSecond)
	}
	p := &pace{limiter: rate.NewLimiter(limit, maxBatch), maxBatch: maxBatch, now: now}
	p.limiter.AllowN(time.Now(), maxBatch) // calls follow one another: a call must not begin with the burst that another saved
	return p
}

// wait blocks until n more may be removed. Errors: errTimeOver.
func (p *pace) wait(ctx context.Context, n int) error {
	switch now := p.now(); {
	case p.until.IsZero():
		p.until = now.Add(removeFor)
	case !now.Before(p.until):
		return errTimeOver
	}
	return p.limiter.WaitN(ctx, n)
}

// repeat calls some until nothing is left, or until an error.
func (p *pace) repeat(ctx context.Context, some func(n int) (left bool, err error)) error {
	for {
		if err := p.wait(ctx, p.maxBatch); err != nil {
			return err
		}
		if left, err := some(p.maxBatch); err != nil || !left {
			return err
		}
	}
}

// runPaced runs do, and reports whether it must be called again immediately:
// because its time was over, or because the worker stops and another continues.
func runPaced(ctx context.Context, do func(ctx context.Context) error) (more bool, err error) {
	if activity.IsActivity(ctx) {
		var end func()
		ctx, end = startHeartbeats(ctx)
		defer end()
	}
	err = do(ctx)
	if errors.Is(err, errTimeOver) || err != nil && errors.Is(context.Cause(ctx), errWorkerStops) {
		return true, nil
	}
	return false, errcode.ToTemporal(err)
}
