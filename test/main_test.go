// Package test runs whole processes: scenarios through the HTTP API, and what
// happens when any of them is killed or frozen.
package test

import (
	"os"
	"testing"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) {
	if !soak() { // the long forms leave no processor idle
		testenv.Parallel(3) // they wait for processes to start, and for timeouts to pass
	}
	code := m.Run()
	harness.Cleanup()
	os.Exit(code)
}

// soak reports whether the long forms are wanted (`make soak`).
func soak() bool { return os.Getenv("DROVER_SOAK") != "" }
