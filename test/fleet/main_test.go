// Package fleet tests fleets of machines with real plugin processes.
package fleet

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
