// Package durable makes files and their names survive a loss of power.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// SyncDir makes the names in a directory survive a loss of power.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows has no call to sync a directory
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// MkdirAll makes a directory and its missing parents, like os.MkdirAll, and
// syncs the name of each directory that it makes. It does not sync the name of
// a directory that exists.
func MkdirAll(dir string, mode fs.FileMode) error {
	missing, parent := []string(nil), filepath.Clean(dir)
	for {
		_, err := os.Stat(parent)
		if !errors.Is(err, fs.ErrNotExist) || parent == filepath.Dir(parent) {
			break // os.MkdirAll reports any other error
		}
		parent = filepath.Dir(parent)
		missing = append(missing, parent)
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	for _, d := range missing {
		if err := SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes a file of mode 0600 atomically, like Replace.
func WriteFile(path string, content []byte) error {
	return Replace(path, 0o600, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// Replace creates a file atomically, or replaces it: processes see the old file
// or the complete new one. After a loss of power the file is one of the two, and
// the new one if Replace had returned. The umask applies to mode; write may change
// the mode. After an error the file is the old one, unless only the sync of the
// directory failed.
func Replace(path string, mode fs.FileMode, write func(*os.File) error) error {
	dir, name := filepath.Split(path)
	part := filepath.Join(dir, "."+name+"-"+strings.ToLower(rand.Text()))
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return SyncDir(filepath.Dir(path))
}
