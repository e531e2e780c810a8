// Package cputime compares the CPU time of functions in tests. Neither of its checks
// depends on how fast a machine is: costs are compared with each other, in the same
// process.
package cputime

import (
	"testing"
	"time"
)

const (
	// growth is how often the cost of an input may be contained in that of eight times the
	// input. Linear work costs 8 times as much, quadratic work 64 times.
	growth = 24
	// attempts is how often a cost that is too high is measured. The lowest one counts,
	// because other work on the machine only adds to it.
	attempts = 5
	// resolution is the cost below which the collection of garbage, and the clock of
	// some systems, decide a measurement.
	resolution = 5 * time.Millisecond
)

// Linear fails the test if do(8*n) costs far more than eight times as much as do(n). The
// cost is the calling thread's CPU time, so goroutines that do starts do not count.
// Under the race detector, whose own cost is not linear, do is called without a check.
func Linear(t testing.TB, n int, do func(n int)) {
	t.Helper()
	AtMost(t, growth, func() { do(n) }, func() { do(8 * n) })
}

// AtMost fails the test if do costs more than times as much as reference, measured as
// Linear does.
func AtMost(t testing.TB, times int, reference, do func()) {
	t.Helper()
	if raceDetector {
		do()
		return
	}
	cost, base, ok := compare(times, func() time.Duration { return of(t, reference) }, func() time.Duration { return of(t, do) })
	if !ok {
		t.Fatalf("CPU time %s, reference %s: more than %d times as much", cost, base, times)
	}
}

// compare reports whether a cost is at most so many times that of a reference.
func compare(times int, reference, do func() time.Duration) (cost, base time.Duration, ok bool) {
	cost, base = do(), resolution
	for attempt := range attempts {
		if cost <= time.Duration(times)*base {
			return cost, base, true
		}
		if attempt > 0 {
			cost = min(cost, do())
		}
		if spent := max(reference(), resolution); attempt == 0 || spent < base {
			base = spent
		}
	}
	return cost, base, cost <= time.Duration(times)*base
}
