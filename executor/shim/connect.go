package shim

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
)

// Connect copies between stdin, stdout and the waiting step of a directory, until
// either end closes. It changes the working directory of the process, so that a
// long path fits a socket address. The error is ErrNoShim if no step waits.
func Connect(ctx context.Context, dir string, stdin io.Reader, stdout io.Writer) error {
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNoShim, err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", TransferFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoShim, err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, stdin) // the protocol reports the end, or times out
		_ = conn.Close()
	}()
	_, _ = io.Copy(stdout, conn)
	return nil
}
