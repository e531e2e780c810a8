package blobs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errNoLinks says that a file system has no links.
var errNoLinks = errors.New("the file system has no links")

// linkIfAbsent writes a file unless there is one: it is written beside it first,
// and linked, which the file system does for one alone. To look and then to
// rename would let another one in between.
func linkIfAbsent(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	// A name that clear and DeleteArchive know as what a kill leaves.
	temporary := path + "." + rand.Text() + ".tmp"
	defer func() { _ = os.Remove(temporary) }()
	if err := os.WriteFile(temporary, data, 0o666); err != nil {
		return err
	}
	err := os.Link(temporary, path)
	switch {
	case err == nil, errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported):
		return errNoLinks
	}
	return err
}
