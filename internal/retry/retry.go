// Package retry provides the pauses between the attempts of an operation, for
// the loops of github.com/cenkalti/backoff and for those that also wait for
// something else.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// jitter is the part of a pause by which it varies, in both directions: many
// clients that failed together do not return together.
const jitter = 0.2

// Doubling returns pauses that begin at first, double up to limit, and vary by a
// fifth.
func Doubling(first, limit time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: limit, Multiplier: 2, RandomizationFactor: jitter}
}

// DoublingAfter returns the pauses of Doubling that follow a number of failures.
func DoublingAfter(first, limit time.Duration, failures int) *backoff.ExponentialBackOff {
	b := Doubling(first, limit)
	for range min(failures, 63) { // by then the pause has reached its limit
		b.NextBackOff()
	}
	return b
}

// Sleep waits for d. It returns the cause of ctx if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
