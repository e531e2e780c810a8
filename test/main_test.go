// Package test runs whole processes: scenarios through the HTTP API, and what
// happens when any of them is killed or frozen.
package test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests mostly wait: for processes to start, and for timeouts to pass.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0)))
	}
	code := m.Run()
	harness.Cleanup()
	os.Exit(code)
}

// soak reports whether the long forms are wanted (`make soak`).
func soak() bool { return os.Getenv("DROVER_SOAK") != "" }
