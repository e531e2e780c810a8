package shell

import (
	"os"

	"github.com/drover-run/drover/run"
)

func spawn(string, []string, string, *os.File, *os.File) (*os.Process, error) {
	return nil, run.Errorf(run.CodeNotSupported, "the shell driver does not run on Windows")
}

func reaped(*os.Process) bool { return true }
