package shim

import (
	"errors"
	"os"
)

// errNothingThere is what readNow returns instead of waiting.
var errNothingThere = errors.New("the pipe is empty")

// readNow is not called: pipes have no deadlines here.
func readNow(*os.File, []byte) (int, error) { return 0, errNothingThere }
