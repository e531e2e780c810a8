// Package testwait waits for conditions in tests. All waits have the same limit.
package testwait

import (
	"testing"
	"time"
)

const (
	// patience says when a test is broken, not how fast anything must be.
	patience = 3 * time.Minute
	interval = 5 * time.Millisecond
)

// Until waits until cond returns true, and fails the test if it does not. The other
// arguments say what did not happen.
func Until(t testing.TB, cond func() bool, format string, args ...any) {
	t.Helper()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !cond(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up after %s: "+format, append([]any{patience}, args...)...)
		}
	}
}
