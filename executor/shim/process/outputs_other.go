//go:build !linux

package process

import (
	"errors"
	"os"
	"time"
)

// Outputs reads the two outputs of a process in the order of the writes. It exists on
// Linux only.
type Outputs struct{}

// NewOutputs returns errors.ErrUnsupported.
func NewOutputs() (_ *Outputs, writers [2]*os.File, err error) {
	return nil, writers, errors.ErrUnsupported
}

// Read is not called.
func (*Outputs) Read([]byte) (from, n int, err error) { return 0, 0, errors.ErrUnsupported }

// ReadNow is not called.
func (*Outputs) ReadNow([]byte) (from, n int, err error) { return 0, 0, errors.ErrUnsupported }

// SetReadDeadline is not called.
func (*Outputs) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// Close is not called.
func (*Outputs) Close() error { return nil }
