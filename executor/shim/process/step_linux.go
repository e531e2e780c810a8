package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
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
