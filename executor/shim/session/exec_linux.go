package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-run/drover/executor/shim/process"
)

// The exit codes of shells for a command that cannot be run.
const (
	exitNotRun   = 126
	exitNotFound = 127
)

// Exec replaces this process by a command with the environment variables and the
// working directory of another process, which must be of the same user. It returns
// only if it fails, with the exit code.
func Exec(pid int, term string, command []string, stderr io.Writer) int {
	err := execAs(pid, term, command)
	_, _ = fmt.Fprintln(stderr, "drover:", err)
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRun
}

func execAs(pid int, term string, command []string) error {
	proc := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(proc + "/environ")
	if err != nil || len(text) == 0 {
		return fmt.Errorf("%w: its environment cannot be read", process.ErrNoStep)
	}
	dir, err := os.Readlink(proc + "/cwd")
	if err == nil {
		err = os.Chdir(proc + "/cwd")
	}
	if err != nil {
		return fmt.Errorf("change to the working directory of the step: %w", err)
	}
	var env []string
	path := ""
	for entry := range bytes.SplitSeq(bytes.TrimRight(text, "\x00"), []byte{0}) {
		env = append(env, string(entry))
		if value, ok := strings.CutPrefix(string(entry), "PATH="); ok {
			path = value
		}
	}
	if term != "" {
		env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "TERM=") })
		env = append(env, "TERM="+term)
	}
	file, err := process.LookPath(command[0], path, dir)
	if err != nil {
		return fmt.Errorf("%s: %w", command[0], fs.ErrNotExist)
	}
	return fmt.Errorf("%s: %w", command[0], syscall.Exec(file, command, env))
}
