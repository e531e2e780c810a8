//go:build unix

package process

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrEmptyPipe is what ReadNow returns instead of waiting.
var ErrEmptyPipe = errors.New("the pipe is empty")

// ReadNow reads the current content of a pipe.
func ReadNow(pipe *os.File, buf []byte) (n int, err error) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, readErr = unix.Read(int(fd), buf)
			if !errors.Is(readErr, unix.EINTR) {
				return true
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(readErr, unix.EAGAIN):
		return 0, ErrEmptyPipe
	case readErr != nil:
		return 0, readErr
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
