package access_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/run"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	refused := run.Errorf(run.CodeTokenRevoked, "it was revoked")
	tests := map[string]struct {
		err   error // of the checks, from the start
		again error // of those after 40 seconds
		after time.Duration
		code  run.Code // of the end, "" if the call lasts
	}{
		"allowed":             {},
		"revoked":             {again: refused, after: 45 * time.Second, code: run.CodeTokenRevoked},
		"forbidden":           {err: run.Errorf(run.CodeForbidden, "no"), after: 5 * time.Second, code: run.CodeForbidden},
		"not_found":           {err: run.Errorf(run.CodeNotFound, "no"), after: 5 * time.Second, code: run.CodeNotFound},
		"changed":             {err: &access.LostError{Reason: run.Errorf(run.CodeUnavailable, "changed")}, after: 5 * time.Second, code: run.CodeUnavailable},
		"unknown_for_a_while": {err: run.Errorf(run.CodeUnavailable, "down")},
		"unknown_then_not":    {err: errors.New("down"), again: refused, after: 45 * time.Second, code: run.CodeTokenRevoked},
		"unknown":             {err: run.Errorf(run.CodeUnavailable, "down"), again: run.Errorf(run.CodeUnavailable, "down"), after: 65 * time.Second, code: run.CodeUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				ctx, stop := access.Watch(t.Context(), 5*time.Second, func(context.Context) error {
					if time.Since(begun) > 40*time.Second {
						return tt.again
					}
					return tt.err
				})
				defer stop()
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				require.Equal(t, tt.code != "", access.Lost(ctx))
				if tt.code != "" {
					require.Equal(t, tt.code, run.CodeOf(context.Cause(ctx)))
					require.Equal(t, tt.after, time.Since(begun))
				}
			})
		})
	}
}

// TestWatch_slow_check: a check that does not return is no refusal for a minute, and none
// is made after the end of the call.
func TestWatch_slow_check(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int32
		parent, cancel := context.WithCancel(t.Context())
		ctx, stop := access.Watch(parent, 5*time.Second, func(ctx context.Context) error {
			checks.Add(1)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		<-time.After(49 * time.Second)
		require.NoError(t, ctx.Err())
		require.Equal(t, int32(3), checks.Load())
		cancel()
		synctest.Wait()
		require.False(t, access.Lost(ctx), "its client ended the call")
		<-time.After(time.Minute)
		require.Equal(t, int32(3), checks.Load())
		stop()
	})
}
