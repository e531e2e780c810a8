// Package durable makes files and their names survive a loss of power.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

// WriteFile writes a file of mode 0600 atomically. After a loss of power the file
// has the old or the new content, and the new content if WriteFile had returned.
func WriteFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(filepath.Dir(path))
}
