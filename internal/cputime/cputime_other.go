//go:build !linux

package cputime

import (
	"testing"
	"time"
)

// of returns a function's elapsed time, because this system does not report the CPU
// time of a single thread.
func of(t testing.TB, do func()) time.Duration {
	t.Helper()
	begun := time.Now()
	do()
	return time.Since(begun)
}
