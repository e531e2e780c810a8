package controller_test

import (
	"context"
	"os"
	"testing"

	"github.com/drover-run/drover/fleeting"
)

// The test binary is also the guard of plugins.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fleeting.GuardCommand {
		os.Exit(fleeting.Guard(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
