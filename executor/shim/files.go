package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/internal/durable"
)

// Names in the shim's directory.
const (
	JournalFile = "journal"
	LockFile    = "lock"
	StopFile    = "stop"
	stepsDir    = "steps"
)

// State is the content of the lock file.
type State struct {
	PID  int    `json:"pid"`
	Boot string `json:"boot,omitempty"` // of the host; "" if it has no such id
	// Clean is set once the task ended and none of its processes is left.
	Clean bool `json:"clean,omitempty"`
	// Ended is set once the journal has the task's end: nothing is written to it any
	// more, although the shim may wait for an acknowledgment.
	Ended bool `json:"ended,omitempty"`
}

// ReadState returns the state of the shim of a directory; the zero State if none
// was written yet.
func ReadState(dir string) (State, error) {
	text, err := os.ReadFile(filepath.Join(dir, LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read the state of the shim: %w", err)
	}
	return DecodeState(text)
}

// DecodeState reads the content of a LockFile.
func DecodeState(text []byte) (State, error) {
	var s State
	if len(text) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the state of the shim: %w", err)
	}
	return s, nil
}

// Ended reports whether nothing is written to the journal of a directory any
// more: it has the task's end, or the shim has gone.
func Ended(dir string) (bool, error) {
	if endWritten(dir) {
		return true, nil
	}
	alive, err := Alive(dir)
	return !alive, err
}

// endWritten reports whether the shim has written the task's end.
func endWritten(dir string) bool {
	s, err := ReadState(dir)
	return err == nil && s.Ended
}

// write replaces the state. It is one write of a fixed length, so that a reader
// sees either the old or the new state.
func (s State) write(lock *os.File) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the shim's state: %w", err)
	}
	const size = 128
	line := make([]byte, size)
	for i := range line {
		line[i] = ' '
	}
	copy(line, text)
	line[size-1] = '\n'
	if _, err := lock.WriteAt(line, 0); err != nil {
		return fmt.Errorf("write the shim's state: %w", err)
	}
	return nil
}

// StopRequest is the content of the stop file.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
}

// WriteStop writes a stop request to the directory. The shim reads it on a signal,
// and before the first step.
func WriteStop(dir string, request StopRequest) error {
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode the stop request: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, StopFile), text); err != nil {
		return fmt.Errorf("write the stop request: %w", err)
	}
	return nil
}

// readStop returns the stop request, if there is one. A malformed one is a stop
// request too.
func readStop(dir string, grace time.Duration) (request StopRequest, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, StopFile))
	if err != nil {
		return request, false
	}
	if err := json.Unmarshal(text, &request); err != nil {
		request.Grace = grace
	}
	return request, true
}
