package shim

import (
	"errors"
	"os"
)

// errNothingThere is what readNow returns in place of waiting.
var errNothingThere = errors.New("nothing is there")

// readNow is not called: pipes have no deadlines here.
func readNow(*os.File, []byte) (int, error) { return 0, errNothingThere }
