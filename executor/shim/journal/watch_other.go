//go:build !linux

package journal

import (
	"errors"
	"time"
)

// Watcher notifies followers when the journals of any number of directories change.
// The zero value is ready; it is safe for concurrent use. On this system followers
// poll.
type Watcher struct{ fallback time.Duration }

func (*Watcher) watch(string, bool) (*watch, func(), error) {
	return nil, nil, errors.New("not built for this system")
}

// Close does nothing.
func (*Watcher) Close() error { return nil }
