package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// File is the file in a shim's directory that holds its journal.
const File = "journal"

const (
	// Followers without notifications poll, less often the longer nothing is written.
	pollMin = 2 * time.Millisecond
	pollMax = 50 * time.Millisecond
	// pollFallback is the poll interval of a follower with notifications.
	pollFallback = 2 * time.Second
)

// Tail yields the frames of a directory's journal from number from on, as they are
// written, and ends after the task_end frame. w may be nil: then Tail polls.
// Errors: CodeNotFound if the shim ended without the task's end, or if there is no
// shim and no journal; CodeCanceled or CodeTimeout with ctx; and those that wrap
// ErrDamaged, for which Ended reports whether they are final.
func Tail(ctx context.Context, dir string, from int64, w *Watcher) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		for line, err := range TailLines(ctx, dir, from, w) {
			var f run.Frame
			if err == nil {
				f, err = Decode(line)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// TailLines is Tail for the lines of the journal, newline included. A line is
// valid until the next one.
func TailLines(ctx context.Context, dir string, from int64, w *Watcher) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t := &tail{dir: dir, from: from}
		defer t.close()
		if err := t.follow(ctx, w, func(line []byte) bool { return yield(line, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// ReadLines yields the current lines of the journal, from frame number from on,
// newline included. A line is valid until the next one. Errors: CodeNotFound if
// there is no journal.
func ReadLines(dir string, from int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t := &tail{dir: dir, from: from}
		defer t.close()
		_, err := t.read(func(line []byte) bool { return yield(line, nil) })
		if err == nil && t.journal == nil {
			err = run.Errorf(run.CodeNotFound, "there is no journal")
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// Ended reports whether nothing is written to the journal of a directory any
// more: it has the task's end, or the shim has gone.
func Ended(dir string) (bool, error) {
	if process.EndWritten(dir) {
		return true, nil
	}
	alive, err := process.Alive(dir)
	return !alive, err
}

// Exists reports whether the directory has a journal, that is whether a
// step may have run.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, File))
	return err == nil
}

// Scan yields the frames of a journal that is read from r, from number from on. It
// leaves out a last line without its end, which the death of its writer cut off. If
// the task_end frame is missing it just ends.
func Scan(r io.Reader, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		t := &tail{from: from, journal: NewReader(r)}
		_, err := t.read(func(line []byte) bool {
			f, err := Decode(line)
			return yield(f, err) && err == nil
		})
		if err != nil {
			yield(run.Frame{}, err)
		}
	}
}

// tail is a position in a journal.
type tail struct {
	dir     string
	from    int64
	journal *Reader  // nil until the journal exists
	file    *os.File // of journal, if it must be closed
	done    bool     // task_end was yielded, or the caller stopped
	over    bool     // task_end comes before from
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

func (t *tail) follow(ctx context.Context, w *Watcher, yield func([]byte) bool) error {
	changes, unwatch := (*watch)(nil), func() {}
	defer func() { unwatch() }()
	watching := false // whether the watch is of an existing journal
	pause := pollMin
	for first := true; ; first = false {
		if err := context.Cause(ctx); err != nil {
			return contextError(err)
		}
		more, err := t.read(yield)
		if err != nil || t.done {
			return err
		}
		if more {
			pause = pollMin
		}
		if w != nil && (first || !watching && t.journal != nil) {
			unwatch()
			unwatch, watching = func() {}, t.journal != nil
			if changes, unwatch, err = w.watch(t.dir, watching); err != nil {
				changes, unwatch = nil, func() {} // it polls: the system may be out of watches
			}
			continue // changes before the watch are not reported
		}
		alive, err := process.Alive(t.dir)
		if err != nil {
			return run.Errorf(run.CodeInternal, "check for the shim: %w", err)
		}
		if !alive {
			return t.finish(yield)
		}
		if !more && t.journal != nil && !t.over && process.EndWritten(t.dir) {
			return t.finish(yield)
		}
		if err := t.wait(ctx, changes, &pause); err != nil {
			return err
		}
	}
}

// finish reads the lines that were written before the shim ended.
func (t *tail) finish(yield func([]byte) bool) error {
	if _, err := t.read(yield); err != nil || t.done {
		return err
	}
	switch {
	case t.journal == nil:
		return run.Errorf(run.CodeNotFound, "the shim did not begin the task")
	case !t.over && process.EndWritten(t.dir):
		return Damaged("the journal lacks the end of the task")
	}
	return run.Errorf(run.CodeNotFound, "the shim ended without writing the end of the task")
}

// wait returns when the journal may have grown or the shim may have ended.
func (t *tail) wait(ctx context.Context, changes *watch, pause *time.Duration) error {
	latest, changed := pollMax, (<-chan struct{})(nil)
	if changes != nil {
		latest, changed = changes.fallback, changes.changed
		if !changes.closing.Load() {
			*pause = changes.fallback
		}
	}
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	*pause = min(2**pause, latest)
	select {
	case <-ctx.Done():
		return contextError(context.Cause(ctx))
	case <-changed:
		if changes.closing.Load() {
			*pause = pollMin
		}
	case <-timer.C:
		if changes != nil && *pause == latest {
			changes.closing.Store(false)
		}
	}
	return nil
}

// read yields the complete lines that exist, and reports whether there were any.
func (t *tail) read(yield func([]byte) bool) (more bool, err error) {
	if t.journal == nil {
		f, err := os.Open(filepath.Join(t.dir, File))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, unreadable(err)
		}
		t.file, t.journal = f, NewReader(f)
	}
	for {
		line, n, err := t.journal.Next()
		switch {
		case errors.Is(err, io.EOF):
			return more, nil
		case errors.Is(err, ErrDamaged):
			return more, err
		case err != nil:
			return more, unreadable(err)
		}
		more = true
		if n < t.from {
			t.over = t.over || bytes.Contains(line, []byte(endMark))
			continue
		}
		if !yield(line) || bytes.Contains(line, []byte(endMark)) {
			t.done = true
			return more, nil
		}
	}
}

// unreadable converts the read error of the journal's file. A lack of resources of
// this process or host is not damage of the journal.
func unreadable(err error) error {
	for _, shortage := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			return run.Errorf(run.CodeUnavailable, "read the journal: %w", err)
		}
	}
	return Damaged("the journal cannot be read: %v", err)
}

func contextError(err error) error {
	code := run.CodeCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = run.CodeTimeout
	}
	return &run.Error{Code: code, Message: fmt.Sprintf("follow the task: %v", err), Err: err}
}
