package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

const (
	// endTimeout is how long a shim may take to end its task without a grace
	// period.
	endTimeout = 5 * time.Second
	// sweepTimeout bounds the search for processes that a killed shim left.
	sweepTimeout = 5 * time.Second
	sweepPoll    = 10 * time.Millisecond
)

// Remove implements executor.Handle.
func (h *handle) Remove(ctx context.Context) error {
	unlock, err := h.driver.locks.Lock(ctx, h.key)
	if err != nil {
		return canceled(ctx)
	}
	defer unlock()
	if _, err := os.Stat(h.dir); errors.Is(err, fs.ErrNotExist) {
		return h.driver.discard(h) // an earlier removal was interrupted
	}
	if err := h.end(ctx); err != nil {
		return run.Errorf(run.CodeUnavailable, "end task %s: %w", h.key, err)
	}
	h.driver.children.ended(h.key)
	if err := h.driver.discard(h); err != nil {
		return run.Errorf(run.CodeUnavailable, "remove task %s: %w", h.key, err)
	}
	return nil
}

// end ends the shim and everything that it runs. It does not wait for a shim
// that reports that everything has ended, since that shim is about to exit.
func (h *handle) end(ctx context.Context) error {
	if clean(h.dir) {
		return nil
	}
	alive, err := process.Alive(h.dir)
	if err != nil {
		return err
	}
	if alive {
		if err := h.endShim(ctx); err != nil {
			return err
		}
	}
	if clean(h.dir) {
		return nil
	}
	state, _ := process.ReadState(h.dir) // if it is damaged, the processes are found by the directory
	return h.killLeftovers(ctx, state)
}

// clean reports whether the shim has confirmed that no process is left.
func clean(dir string) bool {
	state, err := process.ReadState(dir)
	return err == nil && state.Clean
}

// endShim requests the shim to end its task at once, or kills the shim.
func (h *handle) endShim(ctx context.Context) error {
	if err := h.Abort(ctx, 0); err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- process.AwaitEnd(h.dir) }()
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case err := <-gone:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	if _, err := process.Kill(h.dir); err != nil {
		return err
	}
	return <-gone
}

// killLeftovers kills the remaining processes of the steps until none is found.
func (h *handle) killLeftovers(ctx context.Context, state process.State) error {
	for deadline := time.Now().Add(sweepTimeout); ; {
		left, err := h.leftovers(state)
		if err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes do not end", len(left))
		}
		for _, pid := range left {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
				_ = p.Release()
			}
		}
		if retry.Sleep(ctx, sweepPoll) != nil {
			return canceled(ctx)
		}
	}
}

// discard removes the directory. It renames the directory first, so that the
// rest of an interrupted removal is not mistaken for a task that has not begun.
func (d *Driver) discard(h *handle) error {
	trashDir := filepath.Join(d.trash, h.key.String())
	if err := removeAll(trashDir); err != nil {
		return err
	}
	if err := d.secrets.remove(h.key); err != nil {
		return err
	}
	err := os.Rename(h.dir, trashDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rename the directory: %w", err)
	}
	return removeAll(trashDir)
}

// removeAll removes a tree, even if directories in it are read-only, as in Go's
// module cache.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			return os.Chmod(path, 0o700) //nolint:gosec // a directory
		}
		return err
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the directory: %w", err)
	}
	return nil
}
