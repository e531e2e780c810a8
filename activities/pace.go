package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/time/rate"
)

// removeFor is how long an activity that removes goes on before it comes back,
// so that the workflow can heed what it was told.
const removeFor = 10 * time.Second

// errEnough ends what a pace was given to.
var errEnough = errors.New("it is time to come back")

// pace has an activity keep to a rate, and come back in time: some while after
// the first time that it waits, so that it never comes back with nothing done.
type pace struct {
	limiter *rate.Limiter
	most    int // at once
	until   time.Time
	now     func() time.Time
}

// newPace returns the pace of one call. most bounds what is removed at once,
// and so in one transaction; perSecond 0 is no bound.
func newPace(now func() time.Time, perSecond, most int) *pace {
	limit := rate.Inf
	if perSecond > 0 {
		limit, most = rate.Limit(perSecond), min(most, perSecond)
	}
	p := &pace{limiter: rate.NewLimiter(limit, most), most: most, now: now}
	p.limiter.AllowN(time.Now(), most) // calls follow one another: none begins with what another saved
	return p
}

// wait waits until n more may be removed. Errors: errEnough.
func (p *pace) wait(ctx context.Context, n int) error {
	switch now := p.now(); {
	case p.until.IsZero():
		p.until = now.Add(removeFor)
	case !now.Before(p.until):
		return errEnough
	}
	return p.limiter.WaitN(ctx, n)
}

// repeat removes some, again and again, until there are no more, or an error.
func (p *pace) repeat(ctx context.Context, some func(n int) (left bool, err error)) error {
	for {
		if err := p.wait(ctx, p.most); err != nil {
			return err
		}
		if left, err := some(p.most); err != nil || !left {
			return err
		}
	}
}

// paced does what is to be done at a pace, and reports whether it is to be done
// again at once: its time was over, or the worker stops and another goes on.
func paced(ctx context.Context, do func(ctx context.Context) error) (more bool, err error) {
	if activity.IsActivity(ctx) {
		var end func()
		ctx, end = alive(ctx)
		defer end()
	}
	err = do(ctx)
	if errors.Is(err, errEnough) || err != nil && errors.Is(context.Cause(ctx), errWorkerStops) {
		return true, nil
	}
	return false, toTemporal(err)
}
