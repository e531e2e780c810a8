package agent

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a growing, jittered pause between retries.
type backoff struct {
	next, limit time.Duration
}

// pauses returns a backoff that starts at first and doubles up to limit.
func pauses(first, limit time.Duration) *backoff { return &backoff{next: first, limit: limit} }

// wait sleeps. It returns false if the context ended. A signal on wake ends the
// pause early; wake may be nil.
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

// jitter varies a pause by a tenth in both directions, so that many tasks do not
// call at the same moment.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
