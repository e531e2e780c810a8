package shell

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// probeSize is less than any shim writes before its task begins.
const probeSize = 4 << 10

// handle is the directory of a task.
type handle struct {
	driver *Driver
	key    run.Key
	dir    string
}

var _ executor.Handle = (*handle)(nil)

// Events implements executor.Handle.
func (h *handle) Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		for f, err := range journal.Tail(ctx, h.dir, from, h.driver.watcher) {
			switch {
			case errors.Is(err, journal.ErrDamaged):
				err = h.damaged(ctx, err)
			case run.CodeOf(err) == run.CodeNotFound:
				err = h.vanished(ctx)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// vanished returns why a shim is gone without having written the task's end. It
// first kills the remaining processes of the steps, so that none is left when
// the caller learns of the end.
func (h *handle) vanished(ctx context.Context) error {
	if _, err := os.Stat(h.dir); err != nil {
		return run.Errorf(run.CodeNotFound, "the task's directory was removed from outside")
	}
	state, damage := process.ReadState(h.dir)
	if err := h.killLeftovers(ctx, state); err != nil {
		return run.Errorf(run.CodeUnavailable, "kill the remaining processes of the task: %w", err)
	}
	switch {
	case damage != nil:
		return run.Errorf(run.CodeNotFound, "the task's directory is damaged")
	case state.Boot != "" && state.Boot != process.BootID():
		return run.Errorf(run.CodeNotFound, "the host was rebooted")
	case !journal.Exists(h.dir) && diskFull(h.dir):
		// The shim's log has no room for a message, and no step has begun.
		return executor.Ended(run.CauseStart, "the disk of the executor's state dir is full, so the task could not begin")
	case !journal.Exists(h.dir):
		return run.Errorf(run.CodeNotFound, "drover-shim ended before the task began%s", h.lastLogLine())
	}
	return run.Errorf(run.CodeNotFound, "drover-shim was killed from outside%s", h.lastLogLine())
}

// damaged converts the error for a damaged journal. The error is final once
// nothing writes to the journal any more.
func (h *handle) damaged(ctx context.Context, damage error) error {
	ended, err := journal.Ended(h.dir)
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "check whether the shim is running: %w", err)
	}
	if ended {
		state, _ := process.ReadState(h.dir)
		if err := h.killLeftovers(ctx, state); err != nil {
			return run.Errorf(run.CodeUnavailable, "kill the remaining processes of the task: %w", err)
		}
	}
	return executor.Damaged(damage, ended)
}

// diskFull reports whether there is no space to write to a directory.
func diskFull(dir string) bool {
	f, err := os.CreateTemp(dir, ".room-*")
	if err == nil {
		_, err = f.Write(make([]byte, probeSize))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return errors.Is(err, syscall.ENOSPC)
}

// lastLogLine returns the last line of the shim's own log.
func (h *handle) lastLogLine() string {
	text, err := os.ReadFile(filepath.Join(h.dir, logFile))
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := lines[len(lines)-1]
	return ": " + truncate.String(last, run.MaxReason/2, "...")
}

// Stop implements executor.Handle.
func (h *handle) Stop(_ context.Context, grace time.Duration) error {
	return h.request(shim.StopRequest{Grace: grace})
}

// Abort implements executor.Handle.
func (h *handle) Abort(_ context.Context, grace time.Duration) error {
	return h.request(shim.StopRequest{Grace: grace, Abort: true})
}

func (h *handle) request(r shim.StopRequest) error {
	err := shim.WriteStop(h.dir, r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the task has ended and was removed
	}
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "stop task %s: %w", h.key, err)
	}
	if _, err := process.Wake(h.dir); err != nil {
		return run.Errorf(run.CodeUnavailable, "stop task %s: %w", h.key, err)
	}
	return nil
}

// CopyTo implements executor.Handle. A relative dir is relative to the task's
// working directory.
func (h *handle) CopyTo(ctx context.Context, dir string, tar io.Reader) error {
	_, err := archive.UnpackTar(ctx, h.path(dir), tar, archive.Unpacking{})
	return err
}

// CopyFrom implements executor.Handle. A relative path is relative to the
// task's working directory.
func (h *handle) CopyFrom(ctx context.Context, path string) (io.ReadCloser, error) {
	return archive.Tree(ctx, h.path(path))
}

func (h *handle) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(h.dir, workDir, p)
}
