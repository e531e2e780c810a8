//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stepFile is the file in the shim's directory that has the number of the first
// process of the running step.
const stepFile = "step.pid"

// ErrNoStep means that no step runs, so that there is no process to take an
// environment from.
var ErrNoStep = errors.New("no step of the task is running")

// RecordStep records the first process of a step, for sessions.
func (p *Process) RecordStep(dir string) error {
	path := filepath.Join(dir, stepFile)
	next := path + ".new"
	if err := os.WriteFile(next, []byte(strconv.Itoa(p.pid)), 0o600); err != nil {
		return fmt.Errorf("record the process of the step: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("record the process of the step: %w", err)
	}
	return nil
}

// Hangup tells the group of the process that its terminal is gone.
func (r *Reaper) Hangup(p *Process) { r.signal(p, syscall.SIGHUP) }

// readStep returns the number that RecordStep has written.
func readStep(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, stepFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrNoStep
	}
	if err != nil {
		return 0, fmt.Errorf("find the process of the step: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("find the process of the step: %s is damaged", stepFile)
	}
	return pid, nil
}
