// Package chaos tests several gateways and control workers on PostgreSQL while processes
// are killed at random.
package chaos

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
