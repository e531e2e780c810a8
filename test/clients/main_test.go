// Package clients tests what clients, operators and receivers of notifications get from
// whole processes of Drover.
package clients

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
