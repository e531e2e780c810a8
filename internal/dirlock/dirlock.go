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
	// patience outlasts what a killed owner leaves: a child that it was making
	// has its open files, and with them the lock, until the child's program is
	// loaded.
	patience = 2 * time.Second
)

// Take makes the calling process the owner of an existing directory, until the
// lock is unlocked or the process ends, however it ends. It waits 2 s at most
// for another owner; the error is ErrHeld then.
func Take(dir string) (*flock.Flock, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, ErrHeld)
	defer cancel()
	lock := flock.New(filepath.Join(dir, name))
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return lock, nil
}
