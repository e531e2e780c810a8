// Package cputime measures what a test costs.
package cputime

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of returns the time of one CPU that a function takes by itself: other
// work of the machine counts little, and goroutines that the function starts
// count nothing.
func Of(t testing.TB, do func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime(t)
	do()
	return threadTime(t) - before
}

func threadTime(t testing.TB) time.Duration {
	t.Helper()
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(thread, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
