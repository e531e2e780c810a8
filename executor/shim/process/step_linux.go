package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Step is the first process of the running step of a task.
type Step struct {
	PID  int
	User Account // under which the process runs
}

// FindStep finds the first process of the step that runs in a shim's directory.
// Errors: ErrNoStep.
func FindStep(dir string) (Step, error) {
	pid, err := readStep(dir)
	if err != nil {
		return Step{}, err
	}
	shim, err := ReadState(dir)
	if err != nil {
		return Step{}, err
	}
	// The number may belong to another process by now, but not to a child of the shim
	// that is no process of the task.
	name := strconv.Itoa(pid)
	if parent, ok := parentOf(name); !ok || parent != shim.PID {
		return Step{}, ErrNoStep
	}
	user, err := accountOf(name)
	if err != nil {
		return Step{}, err
	}
	return Step{PID: pid, User: user}, nil
}

// holder is the command line of the process that holds a failed task.
const holder = "drover-shim\x00hold\x00"

// Release ends the process that holds a failed task. It fails if a step runs.
func (s Step) Release() error {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/cmdline")
	if err != nil || string(line) != holder {
		return errors.New("the task is not held: a step is running")
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("release the task: %w", err)
	}
	return nil
}

// accountOf returns the account under which a process runs.
func accountOf(pid string) (Account, error) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return Account{}, fmt.Errorf("%w: %w", ErrNoStep, err)
	}
	var a Account
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		fields := bytes.Fields(value)
		const effective = 1 // of the real, effective, saved and file system ids
		switch string(key) {
		case "Uid":
			if len(fields) > effective {
				a.UID = number(string(fields[effective]))
			}
		case "Gid":
			if len(fields) > effective {
				a.GID = number(string(fields[effective]))
			}
		case "Groups":
			for _, group := range fields {
				a.groups = append(a.groups, number(string(group)))
			}
		}
	}
	a.Other = int(a.UID) != os.Geteuid() || int(a.GID) != os.Getegid()
	return a, nil
}
