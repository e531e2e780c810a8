package harness

import (
	"os"
	"testing"

	"github.com/drover-run/drover/internal/testenv"
)

// Main runs the tests of a package and returns the exit code. More tests run in parallel
// than there are processors, because most of their time they wait for processes.
func Main(m *testing.M) int {
	if !Soak() { // the long forms keep all processors busy
		testenv.Parallel(2)
	}
	return m.Run()
}

// Soak reports whether to run the long forms of the tests (`make soak`).
func Soak() bool { return os.Getenv("DROVER_SOAK") != "" }
