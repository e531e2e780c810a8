package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/internal/durable"
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
	err = durable.Replace(filepath.Join(dir, name), 0o555, func(f *os.File) error {
		_, err := io.Copy(f, source)
		return errors.Join(err, f.Chmod(0o555)) // with any umask
	})
	if err != nil {
		return fmt.Errorf("install the shim: %w", err)
	}
	return nil
}
