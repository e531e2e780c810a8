package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies this program into a directory under the name, executable for all
// users. The file becomes visible only when it is complete.
func Install(dir, name string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	source, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer func() { _ = source.Close() }()
	part, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return fmt.Errorf("install the shim: %w", err)
	}
	_, err = io.Copy(part, source)
	err = errors.Join(err, part.Chmod(0o555), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(part.Name())
		return fmt.Errorf("install the shim: %w", err)
	}
	return nil
}
