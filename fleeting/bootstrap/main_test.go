package bootstrap_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-run/drover/internal/testenv"
)

func TestMain(m *testing.M) {
	if program := os.Getenv("DROVER_TEST_SETSID"); program != "" {
		execSlowly(program)
	}
	testenv.Parallel(3) // they wait for SSH servers
	goleak.VerifyTestMain(m)
}

// execSlowly is the program setsid of a test. Before it executes the real one, its
// command line is empty for a second.
func execSlowly(program string) {
	if filepath.Base(os.Args[0]) == "setsid" {
		self, err := os.Executable()
		if err == nil {
			err = syscall.Exec(self, make([]string, 1, len(os.Args)), append(os.Environ(), "DROVER_TEST_SCRIPT="+os.Args[2]))
		}
		panic(err)
	}
	time.Sleep(time.Second) //nolint:forbidigo // the moment lasts longer than the script takes to look
	panic(syscall.Exec(program, []string{"setsid", "/bin/sh", os.Getenv("DROVER_TEST_SCRIPT")}, os.Environ()))
}
