package shell

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// orderFile returns an open file with the text, positioned at its beginning.
// The file is in memory: secrets never reach a disk, and there is nothing to
// remove.
func orderFile(_ string, text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write a file in memory: %w", err), f.Close())
	}
	return f, nil
}
