package shim

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// command is a program to run.
type command struct {
	path                  string // of the program
	args                  []string
	dir                   string
	env                   []string
	stdin, stdout, stderr *os.File
	user                  account
}

// exit is the exit status of a process.
type exit struct {
	code   int
	signal string // name of the signal that killed it; "" for none
	killed bool   // by SIGKILL
}

// lookPath finds a program in the environment of the step, whose PATH is not that
// of this process.
func lookPath(name, path, dir string) (string, error) {
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
