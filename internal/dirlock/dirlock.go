// Package dirlock lets one process at a time own a directory.
package dirlock

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrHeld says that another process owns the directory.
var ErrHeld = errors.New("held by another process")

const (
	name  = "lock"
	retry = 20 * time.Millisecond
	// timeout is longer than a killed owner may hold the lock: a child that it
	// was forking has its open files, and so the lock, until the child has called
	// exec.
	timeout = 2 * time.Second
)

// Take makes the calling process the owner of an existing directory, until the
// lock is unlocked or the process ends in any way. If another process owns the
// directory, Take waits for at most 2 s and then returns ErrHeld.
func Take(dir string) (*flock.Flock, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, ErrHeld)
	defer cancel()
	lock := flock.New(filepath.Join(dir, name))
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return lock, nil
}
