//go:build !linux

// Package cputime measures what a test costs.
package cputime

import (
	"testing"
	"time"
)

// Of returns the time that a function takes, where the time of one thread
// cannot be read.
func Of(t testing.TB, do func()) time.Duration {
	t.Helper()
	begun := time.Now()
	do()
	return time.Since(begun)
}
