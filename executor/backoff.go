package executor

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a growing, jittered pause between tries of the same thing.
type backoff struct {
	next, limit time.Duration
}

// pauses returns a backoff from first on, doubled each time up to limit.
func pauses(first, limit time.Duration) *backoff { return &backoff{next: first, limit: limit} }

// wait sleeps, and returns false if the context ended, or wake was signalled
// first; a nil channel never is.
func (b *backoff) wait(ctx context.Context, wake <-chan struct{}) bool {
	d := jitter(b.next)
	b.next = min(2*b.next, b.limit)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-wake:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// jitter spreads a pause by a tenth to both sides, so that many tasks do not
// ask at the same moment.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
