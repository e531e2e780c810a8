// Package test tests whole processes: scenarios through the HTTP API, and
// recovery after processes were killed or frozen.
package test

import (
	"os"
	"testing"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) {
	if !soak() { // the long forms keep all processors busy
		testenv.Parallel(2) // the tests mostly wait for processes to start and for timeouts
	}
	code := m.Run()
	harness.Cleanup()
	os.Exit(code)
}

// soak reports whether to run the long forms of the tests (`make soak`).
func soak() bool { return os.Getenv("DROVER_SOAK") != "" }
