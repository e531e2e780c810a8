package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/drover-run/drover/internal/testenv"
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

func awaitPolls(t *testing.T, w *env, want float64) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		got := math.NaN()
		families, err := w.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "drover_relay_open_polls" {
				got = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return got == want, fmt.Sprintf("%v polls are open, want %v", got, want)
	})
}

func TestRelay_limits_polls(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{options: relay.Options{MaxPolls: 3}})
	w.temporal.wait = make(chan struct{})
	ends := waiting(t, w, "a", 3)
	awaitPolls(t, w, 3)
	_, err := w.as(t, "a").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
	requireCode(t, codes.ResourceExhausted, err)
	others := waiting(t, w, "s-1", 3) // each credential has its own limit
	awaitPolls(t, w, 6)
	close(w.temporal.wait)
	for range 3 {
		require.NoError(t, <-ends)
		require.NoError(t, <-others)
	}
	_, err = w.as(t, "a").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
	require.NoError(t, err)
}

// TestRelay_cancelled_polls checks that a canceled poll also ends at Temporal.
func TestRelay_cancelled_polls(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	w.temporal.wait = make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	client := w.as(t, "a")
	go func() {
		_, err := client.PollActivityTaskQueue(ctx, pollOf("pool:linux"))
		ended <- err
	}()
	awaitPolls(t, w, 1)
	cancel(errors.New("the executor stops"))
	requireCode(t, codes.Canceled, <-ended)
	awaitPolls(t, w, 0)
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

// TestRelay_tokens_are_revoked checks that revoking a token ends its open
// polls.
func TestRelay_tokens_are_revoked(t *testing.T) {
	t.Parallel()
	known := &auth{}
	known.set(t, host("a", "linux", ""), host("c", "linux", ""), host("d", "linux", ""))
	w := newEnv(t, setup{auth: known, options: relay.Options{Recheck: time.Millisecond}})
	w.temporal.wait = make(chan struct{})
	gone, moved, stays := waiting(t, w, "a", 2), waiting(t, w, "c", 1), waiting(t, w, "d", 1)
	awaitPolls(t, w, 4)
	known.set(t, host("c", "gpu", ""), host("d", "linux", ""))
	for _, ends := range []<-chan error{gone, gone, moved} {
		requireCode(t, codes.Unauthenticated, <-ends)
	}
	awaitPolls(t, w, 1)
	close(w.temporal.wait)
	require.NoError(t, <-stays)
}

// TestRelay_stops checks that the relay stops without waiting for polls, and
// lets other calls finish.
func TestRelay_stops(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{options: relay.Options{ShutdownTimeout: time.Hour}}) // for calls, not for polls
	w.temporal.wait = make(chan struct{})
	ends := waiting(t, w, "a", 5)
	awaitPolls(t, w, 5)
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop() }()
	testenv.Receive(t, stopped)
	for range 5 {
		requireCode(t, codes.Unavailable, <-ends)
	}
}
