// Package cputime limits the CPU time of functions in tests.
package cputime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// AtMost calls a function, and fails the test if the calling thread needed more CPU
// time than limit. Other work on the machine affects it little, and goroutines that the
// function starts do not count. Under the race detector, which multiplies the time by a
// factor of its own, the function is called without the limit.
func AtMost(t testing.TB, limit time.Duration, do func()) {
	t.Helper()
	if raceDetector {
		do()
		return
	}
	require.LessOrEqual(t, of(t, do), limit, "CPU time")
}
