package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/internal/retry"
)

// retryPauses are growing pauses between retries.
type retryPauses struct{ *backoff.ExponentialBackOff }

// pauses returns pauses that start at first and double up to limit.
func pauses(first, limit time.Duration) retryPauses { return retryPauses{retry.Doubling(first, limit)} }

// wait sleeps. It returns false if the context ended. A signal on wake ends the
// pause early; wake may be nil.
func (p retryPauses) wait(ctx context.Context, wake <-chan struct{}) bool {
	timer := time.NewTimer(p.NextBackOff())
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

// wake signals a channel of capacity 1.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
