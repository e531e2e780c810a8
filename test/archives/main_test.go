// Package archives tests transfers of archives between hosts, and a Drover whose archives
// and logs are in an S3-compatible server.
package archives

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
