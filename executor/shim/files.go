package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Names in the shim's directory.
const (
	JournalFile = "journal"
	LockFile    = "lock"
	StopFile    = "stop"
	stepsDir    = "steps"
)

// State is what the lock file holds.
type State struct {
	PID  int    `json:"pid"`
	Boot string `json:"boot,omitempty"` // of the host; "" where it has no such id
	// Clean says that the task ended and that nothing of it is left running.
	Clean bool `json:"clean,omitempty"`
	// Ended says that the journal has the task's end: nothing is written to it
	// any more, although the shim may wait for an acknowledgment.
	Ended bool `json:"ended,omitempty"`
}

// ReadState returns the state of the shim of a directory; the zero State where
// none was written yet.
func ReadState(dir string) (State, error) {
	text, err := os.ReadFile(filepath.Join(dir, LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the state of the shim: %w", err)
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
		return s, fmt.Errorf("reading the state of the shim: %w", err)
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

// write replaces the state. It is one write of a fixed length, so that a
// reader sees the old one or the new one.
func (s State) write(lock *os.File) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the shim's state: %w", err)
	}
	const size = 128
	line := make([]byte, size)
	for i := range line {
		line[i] = ' '
	}
	copy(line, text)
	line[size-1] = '\n'
	if _, err := lock.WriteAt(line, 0); err != nil {
		return fmt.Errorf("writing the shim's state: %w", err)
	}
	return nil
}

// StopWish is what the stop file holds.
type StopWish struct {
	Grace time.Duration `json:"grace"`
}

// WriteStop leaves the wish to stop the task in the directory. The shim reads
// it on a signal, and before the first step.
func WriteStop(dir string, wish StopWish) error {
	text, err := json.Marshal(wish)
	if err != nil {
		return fmt.Errorf("encoding the stop wish: %w", err)
	}
	part, err := os.CreateTemp(dir, StopFile+"-*")
	if err != nil {
		return fmt.Errorf("writing the stop wish: %w", err)
	}
	_, err = part.Write(text)
	err = errors.Join(err, part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(dir, StopFile))
	}
	if err != nil {
		_ = os.Remove(part.Name())
		return fmt.Errorf("writing the stop wish: %w", err)
	}
	return nil
}

// readStop returns the wish to stop, if there is one. One that can not be
// read is a wish all the same.
func readStop(dir string, grace time.Duration) (wish StopWish, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, StopFile))
	if err != nil {
		return wish, false
	}
	if err := json.Unmarshal(text, &wish); err != nil {
		wish.Grace = grace
	}
	return wish, true
}
