// Package process holds the parts of a shim that depend on the system: the accounts
// and processes of the steps, and the process of the shim itself with its lock,
// state and signals.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Command is a program to run.
type Command struct {
	Path                  string // of the program
	Args                  []string
	Dir                   string
	Env                   []string
	Stdin, Stdout, Stderr *os.File
	User                  Account
	// Session starts the program in a session of its own; Terminal makes its stdin the
	// terminal of that session. Both work on Unix only.
	Session, Terminal bool
}

// Exit is the exit status of a process.
type Exit struct {
	Code   int
	Signal string // name of the signal that killed it; "" for none
	Killed bool   // by SIGKILL
}

// ErrNotRegular is the error of OpenRegular for a link, a directory or a special file.
var ErrNotRegular = errors.New("not a regular file")

// LookPath finds a program in the environment of the step, whose PATH is not that
// of this process.
func LookPath(name, path, dir string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil // starting it reports a missing file
	}
	for _, location := range filepath.SplitList(path) {
		if location == "" {
			continue // the working directory is never searched
		}
		if !filepath.IsAbs(location) {
			location = filepath.Join(dir, location)
		}
		if found, ok := executable(filepath.Join(location, name)); ok {
			return found, nil
		}
	}
	return "", &fs.PathError{Op: "look in PATH for", Path: name, Err: fs.ErrNotExist}
}

// Plain returns the error of a path without its operation.
func Plain(err error) error {
	if fault, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", fault.Path, fault.Err)
	}
	return err
}
