// Package test runs the scripts of behaviours and scenarios on whole processes of Drover.
package test

import (
	"os"
	"testing"

	"github.com/drover-run/drover/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
