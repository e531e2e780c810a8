package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies this program into a directory under the name, to be run from
// there by anyone. Who sees the file sees it whole.
func Install(dir, name string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	source, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("opening this program: %w", err)
	}
	defer func() { _ = source.Close() }()
	part, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return fmt.Errorf("installing the shim: %w", err)
	}
	_, err = io.Copy(part, source)
	err = errors.Join(err, part.Chmod(0o555), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(part.Name())
		return fmt.Errorf("installing the shim: %w", err)
	}
	return nil
}
