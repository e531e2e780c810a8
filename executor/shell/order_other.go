//go:build !linux

package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// orderFile returns the text as an open file that is read from its beginning,
// and has no name any more.
func orderFile(dir string, text []byte) (*os.File, error) {
	f, err := os.CreateTemp(dir, "order-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("making the order's file: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the order's file: %w", err), f.Close())
	}
	return f, nil
}
