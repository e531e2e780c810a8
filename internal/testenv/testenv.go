// Package testenv provides helpers for the tests of several packages: waiting for
// a condition, and finding or requiring the real services that a suite runs
// against.
package testenv

import (
	"fmt"
	"os"
	"slices"
	"strings"
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

// Slowdown is how much longer a condition may take than on an idle machine: suites run
// beside each other, and a slow machine with two processors needs four times as long.
const Slowdown = 4

// Await waits until cond returns true. It fails the test with the last state that cond
// returned after several times the timeout, which is that of an idle machine.
func Await(t testing.TB, timeout time.Duration, cond func() (done bool, state string)) {
	t.Helper()
	timeout *= Slowdown
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

// RequireSoak skips a long test unless DROVER_SOAK is set.
func RequireSoak(t testing.TB) {
	t.Helper()
	if os.Getenv("DROVER_SOAK") == "" {
		t.Skip("a long test: run make soak, or set DROVER_SOAK=1")
	}
}
