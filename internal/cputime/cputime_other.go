//go:build !linux

// Package cputime measures the CPU time of functions in tests.
package cputime

import (
	"testing"
	"time"
)

// Of returns the elapsed time of a function, because this system has no CPU time
// of a single thread.
func Of(t testing.TB, do func()) time.Duration {
	t.Helper()
	begun := time.Now()
	do()
	return time.Since(begun)
}
