// Package set tests executor sets in a Kubernetes cluster, and executors under random faults.
package set

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
