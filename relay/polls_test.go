package relay_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/relay"
)

// waiting opens n polls, and returns a channel with their errors.
func waiting(t *testing.T, w *env, token string, n int) <-chan error {
	t.Helper()
	ends := make(chan error, n)
	client := w.as(t, token)
	for range n {
		go func() {
			_, err := client.PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
			ends <- err
		}()
	}
	return ends
}

// requirePolls checks how many polls are open when all goroutines wait, at the relay and
// at Temporal.
func requirePolls(t *testing.T, w *env, want int) {
	t.Helper()
	synctest.Wait()
	require.NoError(t, testutil.GatherAndCompare(w.registry, strings.NewReader(`
		# HELP drover_relay_open_polls Polls of executors that wait for a task.
		# TYPE drover_relay_open_polls gauge
		drover_relay_open_polls `+strconv.Itoa(want)+"\n"), "drover_relay_open_polls"))
	require.EqualValues(t, want, w.temporal.waiting.Load())
}

func TestRelay_limits_polls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, setup{options: relay.Options{MaxPolls: 3}})
		w.temporal.wait = make(chan struct{})
		ends := waiting(t, w, "a", 3)
		requirePolls(t, w, 3)
		_, err := w.as(t, "a").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
		requireCode(t, codes.ResourceExhausted, err)
		others := waiting(t, w, "s-1", 3) // each credential has its own limit
		requirePolls(t, w, 6)
		close(w.temporal.wait)
		for range 3 {
			require.NoError(t, <-ends)
			require.NoError(t, <-others)
		}
		_, err = w.as(t, "a").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
		require.NoError(t, err)
	})
}

// TestRelay_cancelled_polls checks that a canceled poll also ends at Temporal.
func TestRelay_cancelled_polls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, setup{})
		w.temporal.wait = make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		client := w.as(t, "a")
		go func() {
			_, err := client.PollActivityTaskQueue(ctx, pollOf("pool:linux"))
			ended <- err
		}()
		requirePolls(t, w, 1)
		cancel(errors.New("the executor stops"))
		requireCode(t, codes.Canceled, <-ended)
		requirePolls(t, w, 0)
	})
}

// auth is a list of tokens that can be replaced.
type auth struct {
	mu   sync.Mutex
	list *tokens.List
}

func (a *auth) Authenticate(token string) (tokens.Principal, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list.Authenticate(token)
}

func (a *auth) set(t *testing.T, list ...tokens.Token) {
	t.Helper()
	known, err := tokens.NewList(list)
	require.NoError(t, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = known
}

// TestRelay_tokens_are_revoked checks that revoking a token ends its open polls within
// a second.
func TestRelay_tokens_are_revoked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := &auth{}
		known.set(t, host("a", "linux", ""), host("c", "linux", ""), host("d", "linux", ""))
		w := newEnv(t, setup{auth: known})
		w.temporal.wait = make(chan struct{})
		gone, moved, stays := waiting(t, w, "a", 2), waiting(t, w, "c", 1), waiting(t, w, "d", 1)
		requirePolls(t, w, 4)
		known.set(t, host("c", "gpu", ""), host("d", "linux", ""))
		revoked := time.Now()
		for _, ends := range []<-chan error{gone, gone, moved} {
			requireCode(t, codes.Unauthenticated, <-ends)
		}
		require.LessOrEqual(t, time.Since(revoked), time.Second)
		requirePolls(t, w, 1)
		close(w.temporal.wait)
		require.NoError(t, <-stays)
	})
}

// TestRelay_stops checks that the relay stops without waiting for polls.
func TestRelay_stops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, setup{})
		w.temporal.wait = make(chan struct{})
		ends := waiting(t, w, "a", 5)
		requirePolls(t, w, 5)
		begun := time.Now()
		w.stop()
		require.Zero(t, time.Since(begun), "the limit is for calls")
		for range 5 {
			requireCode(t, codes.Unavailable, <-ends)
		}
	})
}

// TestRelay_lets_calls_finish checks that a relay that stops waits for calls, but not for
// one that hangs.
func TestRelay_lets_calls_finish(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lasts, stops time.Duration
		code         codes.Code
	}{
		"short": {lasts: 9 * time.Second, stops: 9 * time.Second, code: codes.OK},
		"hangs": {lasts: time.Hour, stops: 10 * time.Second, code: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, setup{})
				token, client := w.taskOf(t, "a", "pool:linux"), w.as(t, "a")
				w.temporal.answersAfter = tt.lasts
				ended := make(chan error, 1)
				go func() {
					_, err := client.RecordActivityTaskHeartbeat(callContext(t), heartbeatOf(token))
					ended <- err
				}()
				synctest.Wait()
				begun := time.Now()
				w.stop()
				require.Equal(t, tt.stops, time.Since(begun))
				requireCode(t, tt.code, <-ended)
			})
		})
	}
}
