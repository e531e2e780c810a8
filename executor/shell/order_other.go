//go:build !linux

package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// orderFile returns an open file with the text, positioned at its beginning.
// The file has no name any more.
func orderFile(dir string, text []byte) (*os.File, error) {
	f, err := os.CreateTemp(dir, "order-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("create the order's file: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, errors.Join(fmt.Errorf("write the order's file: %w", err), f.Close())
	}
	return f, nil
}
