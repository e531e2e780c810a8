// Package kill tests that nothing is lost or doubled when processes of Drover are killed,
// stopped, frozen, reset in Temporal, or lose power.
package kill

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
