package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// LockFile is the file in a shim's directory that the shim locks as long as it runs.
const LockFile = "lock"

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

// EndWritten reports whether the shim has written the task's end.
func EndWritten(dir string) bool {
	s, err := ReadState(dir)
	return err == nil && s.Ended
}

// Write replaces the state. It is one write of a fixed length, so that a reader
// sees either the old or the new state.
func (s State) Write(lock *os.File) error {
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
