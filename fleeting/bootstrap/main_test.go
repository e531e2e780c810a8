package bootstrap_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/drover-run/drover/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Parallel(3) // they wait for SSH servers
	goleak.VerifyTestMain(m)
}
