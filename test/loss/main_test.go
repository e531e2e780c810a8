// Package loss tests executors whose hosts are cut off, rebooted, frozen, cloned or wiped,
// or whose container engine restarts.
package loss

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
