package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/retry"
)

// requireAbout checks that a pause differs from want by a fifth at most.
func requireAbout(t *testing.T, want, got time.Duration) {
	t.Helper()
	require.InDelta(t, float64(want), float64(got), float64(want)/5+1)
}

func TestDoubling(t *testing.T) {
	t.Parallel()
	b := retry.Doubling(time.Second, 5*time.Second)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		requireAbout(t, want, b.NextBackOff())
	}
	b.Reset()
	requireAbout(t, time.Second, b.NextBackOff())
}

func TestDoubling_varies(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[retry.Doubling(time.Second, time.Minute).NextBackOff()] = true
	}
	require.Greater(t, len(seen), 1)
}

func TestDoublingAfter(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: 2 * time.Second, 3: 8 * time.Second, 4: 10 * time.Second, 1_000_000_000: 10 * time.Second,
	} {
		requireAbout(t, want, retry.DoublingAfter(time.Second, 10*time.Second, failures).NextBackOff())
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	errEnded := errors.New("ended")
	tests := map[string]struct {
		pause time.Duration
		ended time.Duration // when the context ends
		want  time.Duration
		err   error
	}{
		"waits":                      {pause: time.Minute, ended: time.Hour, want: time.Minute},
		"ends with the context":      {pause: time.Hour, ended: time.Minute, want: time.Minute, err: errEnded},
		"no pause":                   {pause: 0, ended: time.Hour},
		"a time in the past":         {pause: -time.Hour, ended: time.Hour},
		"the context ended before":   {pause: time.Hour, err: errEnded},
		"no pause, after the end":    {pause: 0, err: errEnded},
		"past, and the end is later": {pause: -1, ended: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.ended, errEnded) //nolint:forbidigo // in virtual time
				defer cancel()
				begin := time.Now()
				require.ErrorIs(t, retry.Sleep(ctx, tt.pause), tt.err)
				require.Equal(t, tt.want, time.Since(begin))
			})
		})
	}
}
