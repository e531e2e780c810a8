package registration_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/registration"
	"github.com/drover-run/drover/run"
)

// gateway is the part of a gateway that keeps registrations.
type gateway struct {
	run.ExecutorAPI

	mu         sync.Mutex
	registered []run.Executor
	renewals   []run.Renewal
	desired    run.DesiredState
	err        error // of renewals
	refusal    error // of registrations
	unhealthy  error
}

func (g *gateway) Register(_ context.Context, e run.Executor) (run.DesiredState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.registered = append(g.registered, e)
	return g.desired, g.refusal
}

func (g *gateway) Renew(_ context.Context, r run.Renewal) (run.DesiredState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewals = append(g.renewals, r)
	return g.desired, g.err
}

func (g *gateway) check(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unhealthy
}

// set changes what the gateway and the check answer from now on.
func (g *gateway) set(desired run.DesiredState, err, unhealthy error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.desired, g.err, g.unhealthy = desired, err, unhealthy
}

func (g *gateway) last() (run.Renewal, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.renewals[len(g.renewals)-1], len(g.renewals)
}

// newRegistration returns a registration at g.
func newRegistration(g *gateway, slots *registration.Slots, log *slog.Logger) *registration.Registration {
	return registration.New(registration.Config{
		API:      g,
		Log:      log,
		Executor: run.Executor{ID: "e", JournalID: "j", Pool: "pool", Slots: 1},
		Features: func() executor.Features { return executor.Features{Name: "fake", Privileged: true} },
		Check:    g.check,
		Slots:    slots,
		Timing: registration.Timing{
			RetryFirst: time.Millisecond, RetryLimit: time.Second, Call: time.Second, Check: time.Minute, Shutdown: time.Second,
		},
	})
}

// withRegistration runs a registration, in virtual time, until the test's body returns.
// The body may end the context to see the end of Run.
func withRegistration(t *testing.T, body func(t *testing.T, g *gateway, r *registration.Registration, slots *registration.Slots, end func() error)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, slots := &gateway{}, registration.NewSlots(1, run.Capacity{})
		r := newRegistration(g, slots, slog.New(slog.DiscardHandler))
		require.Error(t, r.Health(), "it is not registered")
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		var err error
		group.Go(func() { err = r.Run(ctx) })
		group.Go(func() { r.CheckHealth(ctx) })
		end := sync.OnceValue(func() error {
			cancel()
			group.Wait()
			return err
		})
		<-r.Registered()
		synctest.Wait()
		body(t, g, r, slots, end)
		_ = end()
	})
}

func TestRegistration(t *testing.T) {
	withRegistration(t, func(t *testing.T, g *gateway, r *registration.Registration, slots *registration.Slots, end func() error) {
		require.Equal(t, []run.Executor{{ID: "e", JournalID: "j", Pool: "pool", Slots: 1, Driver: "fake", Privileged: true, Features: []run.Feature{run.FeaturePrivileged}}}, g.registered)
		require.NoError(t, r.Health())
		release, err := slots.Reserve(t.Context(), "")
		require.NoError(t, err)
		release()

		slots.Take(run.Capacity{})
		r.Close(errors.New("shutdown"))
		require.True(t, r.Closed())
		require.EqualError(t, r.Health(), "shutdown")
		require.EqualError(t, r.NotAccepting(), "shutdown")
		require.NoError(t, end())
		renewal, _ := g.last()
		require.Equal(t, run.Renewal{Executor: "e", JournalID: "j", SlotsUsed: 1, Draining: true}, renewal, "the final heartbeat")
	})
}

func TestRegistration_suspended_until_a_check_passes(t *testing.T) {
	withRegistration(t, func(t *testing.T, g *gateway, r *registration.Registration, slots *registration.Slots, _ func() error) {
		g.set(run.DesiredState{}, nil, errors.New("the disk is full"))
		r.Suspend(errors.New("no journal"))
		<-time.After(time.Minute)
		require.EqualError(t, r.Health(), "the disk is full")
		require.NoError(t, r.NotAccepting(), "it waits to be healthy")
		g.set(run.DesiredState{}, nil, nil)
		_, err := slots.Reserve(t.Context(), "")
		require.NoError(t, err, "it polls again")
		require.NoError(t, r.Health())
	})
}

func TestRegistration_drains_on_request(t *testing.T) {
	withRegistration(t, func(t *testing.T, g *gateway, r *registration.Registration, slots *registration.Slots, _ func() error) {
		g.set(run.DesiredState{Drain: true}, nil, nil)
		<-time.After(3 * run.ExecutorRenew) // one renewal brings the drain, the next one reports it
		require.Error(t, r.NotAccepting())
		renewal, _ := g.last()
		require.True(t, renewal.Draining && renewal.Drained)
		g.set(run.DesiredState{}, nil, nil)
		_, err := slots.Reserve(t.Context(), "")
		require.NoError(t, err, "the drain was lifted")
		require.NoError(t, r.Health())
	})
}

func TestRegistration_ends_when_the_executor_was_removed(t *testing.T) {
	withRegistration(t, func(t *testing.T, g *gateway, r *registration.Registration, _ *registration.Slots, end func() error) {
		_, before := g.last()
		removed := run.Errorf(run.CodeForbidden, "the executor was removed")
		g.set(run.DesiredState{}, removed, nil)
		r.SuspectRemoval(run.Errorf(run.CodeNotFound, "another error"))
		synctest.Wait()
		_, after := g.last()
		require.Equal(t, before, after)
		r.SuspectRemoval(removed)
		synctest.Wait()
		_, after = g.last()
		require.Equal(t, before+1, after, "it asks at once")
		require.ErrorIs(t, end(), removed)
	})
}

// TestRegistration_refused checks that an executor which the gateway refuses says why, and
// what helps, and that it registers once that has changed.
func TestRegistration_refused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		level  string
		remedy string
	}{
		"token":       {run.Errorf(run.CodeUnauthenticated, "the bearer token is not known"), "ERROR", "a token with the scope executor"},
		"pool":        {run.Errorf(run.CodeInvalid, "executor e does not fit pool pool"), "ERROR", "drover pools set"},
		"unreachable": {run.Errorf(run.CodeUnavailable, "the gateway is unreachable"), "WARN", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				g := &gateway{refusal: tc.err}
				r := newRegistration(g, registration.NewSlots(1, run.Capacity{}), slog.New(slog.NewTextHandler(&out, nil)))
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				group.Go(func() { _ = r.Run(ctx) })
				group.Go(func() { r.CheckHealth(ctx) })
				<-time.After(10 * time.Minute)
				synctest.Wait()
				require.ErrorIs(t, r.Health(), tc.err)
				require.ErrorContains(t, r.Health(), tc.remedy)
				require.Greater(t, len(g.registered), 100, "it keeps trying")
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				require.InDelta(t, 10, len(lines), 1, out.String())
				for _, line := range lines {
					require.Contains(t, line, "level="+tc.level)
					require.Contains(t, line, tc.err.Error())
					require.Contains(t, line, tc.remedy)
				}

				g.mu.Lock()
				g.refusal = nil
				g.mu.Unlock()
				<-r.Registered()
				synctest.Wait()
				require.NoError(t, r.Health())
				out.Reset()
				g.set(run.DesiredState{}, tc.err, nil) // the same once it was registered
				<-time.After(10 * time.Minute)
				synctest.Wait()
				require.ErrorIs(t, r.Health(), tc.err)
				require.Contains(t, out.String(), "executor stops accepting tasks")
				require.Contains(t, out.String(), tc.remedy)
				require.LessOrEqual(t, strings.Count(out.String(), "\n"), 11)
				cancel()
				group.Wait()
			})
		})
	}
}
