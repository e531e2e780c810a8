package shim

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// command is what a step runs.
type command struct {
	path                  string // of the program
	args                  []string
	dir                   string
	env                   []string
	stdin, stdout, stderr *os.File
	user                  account
}

// exit is how a process ended.
type exit struct {
	code   int
	signal string // that killed it, in words; "" for none
	killed bool   // by SIGKILL
}

// lookPath finds a program like a shell in the environment of the step, whose
// PATH is not that of this process.
func lookPath(name, path, dir string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil // a fault is told by the start
	}
	for _, place := range filepath.SplitList(path) {
		if place == "" {
			continue // the working directory is no place for programs
		}
		if !filepath.IsAbs(place) {
			place = filepath.Join(dir, place)
		}
		if found, ok := executable(filepath.Join(place, name)); ok {
			return found, nil
		}
	}
	return "", &fs.PathError{Op: "looking in PATH for", Path: name, Err: fs.ErrNotExist}
}
