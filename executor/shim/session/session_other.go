//go:build !linux

package session

import (
	"context"
	"io"

	"github.com/drover-run/drover/internal/execstream"
)

// Supported reports whether sessions work on this system.
const Supported = false

// Serve refuses the session: the environment of another process can be read on Linux
// only.
func Serve(_ context.Context, _ string, _ io.Reader, out io.Writer) error {
	m, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Error: "sessions work on Linux only"})
	if err != nil {
		return err
	}
	return execstream.Write(out, m)
}

// Exec is not called on this system.
func Exec(int, string, []string, io.Writer) int { return exitNotRun }

const exitNotRun = 126
