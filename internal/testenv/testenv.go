// Package testenv provides helpers for the tests of several packages: waiting for
// a condition, and finding or requiring the real services that a suite runs
// against.
package testenv

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/retry"
)

// RequireVariable names the environment variable that lists, separated by
// commas, the services whose absence must fail tests instead of skipping them.
const RequireVariable = "DROVER_REQUIRE"

// SuitesVariable names the environment variable that lists, separated by commas, the
// services that tests may use. Without it, they use what is available.
const SuitesVariable = "DROVER_SUITES"

// PatienceVariable names the environment variable by which the limit of waits is
// multiplied, for machines and stages where many processes run beside each other.
const PatienceVariable = "DROVER_TEST_PATIENCE"

const (
	// patience is how long a test waits for a condition. It says when a test is broken,
	// not how fast anything must be.
	patience = 3 * time.Minute
	// deadlineReserve is left of the test's deadline, to report the state and to clean up.
	deadlineReserve = 15 * time.Second
)

// Patience returns how long a test may wait for a condition from now on.
func Patience(t testing.TB) time.Duration {
	t.Helper()
	limit := patience
	if text := os.Getenv(PatienceVariable); text != "" {
		times, err := strconv.ParseFloat(text, 64)
		if err != nil || times <= 0 {
			t.Fatalf("%s=%s is not a positive number", PatienceVariable, text)
		}
		limit = time.Duration(times * float64(patience))
	}
	if deadline, ok := deadlineOf(t); ok {
		limit = min(limit, time.Until(deadline)-deadlineReserve)
	}
	return limit
}

// deadlineOf returns the deadline of the test. Benchmarks have none, and in a bubble of
// testing/synctest, where time is virtual, asking for it panics.
func deadlineOf(t testing.TB) (deadline time.Time, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if of, has := t.(interface{ Deadline() (time.Time, bool) }); has {
		return of.Deadline()
	}
	return time.Time{}, false
}

// Await waits until cond returns true. It fails the test with the last state that cond
// returned when the patience with the test is at its end. A cond that can no longer
// become true should fail the test itself.
func Await(t testing.TB, cond func() (done bool, state string)) {
	t.Helper()
	timeout := Patience(t)
	deadline := time.Now().Add(timeout)
	pauses := retry.Doubling(time.Millisecond, 100*time.Millisecond)
	for {
		done, state := cond()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("gave up after %s; last state: %s", timeout, state)
		}
		timer := time.NewTimer(pauses.NextBackOff())
		select {
		case <-timer.C:
		case <-t.Context().Done():
			t.Fatalf("test ended while waiting; last state: %s", state)
		}
	}
}

// Receive waits for a value from a channel, or for the channel to close, and fails the
// test as Await does.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	var value T
	select {
	case value = <-from:
	case <-Expired(t):
		t.Fatal("gave up: received nothing")
	}
	return value
}

// Expired returns a channel that receives when the patience with the test is at its end,
// for a select of several channels.
func Expired(t testing.TB) <-chan time.Time {
	t.Helper()
	return time.After(Patience(t))
}

// Watch calls look again and again in another goroutine, with pauses between the calls,
// until the test ends or the returned function is called, which waits for the last call.
func Watch(t testing.TB, pause time.Duration, look func()) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			look()
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}

// Context returns a context for calls that must end, which lasts as long as the patience
// with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	timeout := Patience(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("gave up after %s", timeout))
	t.Cleanup(cancel)
	return ctx
}

// Use skips the test if the services that tests may use are listed, and this one is not
// among them.
func Use(t testing.TB, service string) {
	t.Helper()
	suites, limited := os.LookupEnv(SuitesVariable)
	if limited && !slices.Contains(strings.Split(suites, ","), service) && !Required(service) {
		t.Skipf("%s=%s leaves out what needs %s", SuitesVariable, suites, service)
	}
}

// Missing skips the test because a service is not available, or fails it if
// DROVER_REQUIRE names the service.
func Missing(t testing.TB, service, why, remedy string) {
	t.Helper()
	message := fmt.Sprintf("no %s (%s): %s", service, why, remedy)
	if Required(service) {
		t.Fatalf("%s is required but there is %s", service, message)
	}
	t.Skip(message)
}

// Required reports whether DROVER_REQUIRE names the service.
func Required(service string) bool {
	return slices.Contains(strings.Split(os.Getenv(RequireVariable), ","), service)
}

// HostLacks skips a test that only other hosts can run. The burn-in accepts that, unlike
// other skips.
func HostLacks(t testing.TB, what string) {
	t.Helper()
	t.Skip("this host lacks " + what)
}

// RequireSoak skips a long test unless DROVER_SOAK is set.
func RequireSoak(t testing.TB) {
	t.Helper()
	if os.Getenv("DROVER_SOAK") == "" {
		t.Skip("a long test: run make soak, or set DROVER_SOAK=1")
	}
}
