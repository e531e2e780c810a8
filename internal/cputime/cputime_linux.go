// Package cputime measures the CPU time of functions in tests.
package cputime

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of returns the CPU time of the calling thread during a function. Other work of
// the machine affects it little, and goroutines that the function starts do not
// count.
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
