package shim

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
	"time"

	"github.com/drover-run/drover/run"
)

const (
	// Followers that are not told of changes look by themselves, the more
	// rarely the longer nothing comes.
	lookSoon = 2 * time.Millisecond
	lookLate = 50 * time.Millisecond
	// lookAnyway is how often a follower looks although nothing told it to.
	lookAnyway = 2 * time.Second
	// tailBuffer is how much of a journal is read at once.
	tailBuffer = 64 << 10
)

// Tail yields the frames of a directory's journal from number from on, as they
// are written, and ends after the task_end frame. w may be nil: then it looks
// by itself. Errors: CodeNotFound where the shim ended without telling the
// task's end, or where there is no shim and no journal; CodeCanceled or
// CodeTimeout with ctx; CodeInternal where the journal can not be read.
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

// ReadLines yields the lines of the journal that are there now, from frame
// number from on, newline included. A line is valid until the next one.
// Errors: CodeNotFound where there is no journal.
func ReadLines(dir string, from int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t := &tail{dir: dir, from: from}
		defer t.close()
		_, err := t.read(func(line []byte) bool { return yield(line, nil) })
		if err == nil && t.source == nil {
			err = run.Errorf(run.CodeNotFound, "there is no journal")
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// HasJournal reports whether the directory has a journal, that is whether a
// step may have run.
func HasJournal(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, JournalFile))
	return err == nil
}

// Scan yields the frames of a journal that is read from r, from number from
// on. A last line without its end was cut off by the death of its writer and
// is left out. Where the task_end frame is missing it just ends.
func Scan(r io.Reader, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		t := &tail{from: from, source: r}
		_, err := t.read(func(line []byte) bool {
			f, err := Decode(line)
			return yield(f, err) && err == nil
		})
		if err != nil {
			yield(run.Frame{}, err)
		}
	}
}

// tail is a place in a journal.
type tail struct {
	dir    string
	from   int64
	source io.Reader // nil until the journal is there
	file   *os.File  // the same, where it is to be closed
	next   int64     // number of the next line; 0 before the first
	buf    []byte    // read and not yet yielded
	done   bool      // task_end was yielded, or nobody wants more
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

func (t *tail) follow(ctx context.Context, w *Watcher, yield func([]byte) bool) error {
	changes, unwatch := (*watch)(nil), func() {}
	defer func() { unwatch() }()
	watching := false // for the journal that is there
	pause := lookSoon
	for first := true; ; first = false {
		if err := context.Cause(ctx); err != nil {
			return contextError(err)
		}
		more, err := t.read(yield)
		if err != nil || t.done {
			return err
		}
		if more {
			pause = lookSoon
		}
		if w != nil && (first || !watching && t.source != nil) {
			unwatch()
			unwatch, watching = func() {}, t.source != nil
			if changes, unwatch, err = w.watch(t.dir, watching); err != nil {
				changes, unwatch = nil, func() {} // it looks by itself: the system may be out of watches
			}
			continue // what came before is not told
		}
		alive, err := Alive(t.dir)
		if err != nil {
			return run.Errorf(run.CodeInternal, "asking for the shim: %w", err)
		}
		if !alive {
			return t.finish(yield)
		}
		if err := t.wait(ctx, changes, &pause); err != nil {
			return err
		}
	}
}

// finish reads what was written before the shim ended.
func (t *tail) finish(yield func([]byte) bool) error {
	if _, err := t.read(yield); err != nil || t.done {
		return err
	}
	if t.source == nil {
		return run.Errorf(run.CodeNotFound, "the shim did not begin the task")
	}
	return run.Errorf(run.CodeNotFound, "the shim ended without telling the end of the task")
}

// wait returns when the journal may have grown or the shim ended.
func (t *tail) wait(ctx context.Context, changes *watch, pause *time.Duration) error {
	latest, changed := lookLate, (<-chan struct{})(nil)
	if changes != nil {
		latest, changed = lookAnyway, changes.changed
		if !changes.closing.Load() {
			*pause = lookAnyway
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
			*pause = lookSoon
		}
	case <-timer.C:
		if changes != nil && *pause == latest {
			changes.closing.Store(false)
		}
	}
	return nil
}

// read yields the whole lines that are there, and reports whether there were
// any.
func (t *tail) read(yield func([]byte) bool) (more bool, err error) {
	if t.source == nil {
		f, err := os.Open(filepath.Join(t.dir, JournalFile))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, run.Errorf(run.CodeInternal, "opening the journal: %w", err)
		}
		t.file, t.source = f, f
	}
	for {
		if cap(t.buf)-len(t.buf) < tailBuffer {
			t.buf = append(make([]byte, 0, 2*cap(t.buf)+tailBuffer), t.buf...)
		}
		n, err := t.source.Read(t.buf[len(t.buf):cap(t.buf)])
		t.buf = t.buf[:len(t.buf)+n]
		if n > 0 {
			more = true
			if err := t.lines(n, yield); err != nil || t.done {
				return more, err
			}
		}
		if errors.Is(err, io.EOF) || (n == 0 && err == nil) {
			return more, nil
		}
		if err != nil {
			return more, run.Errorf(run.CodeInternal, "reading the journal: %w", err)
		}
	}
}

// lines yields the whole lines of the buffer, of which the last fresh bytes
// are new.
func (t *tail) lines(fresh int, yield func([]byte) bool) error {
	rest := t.buf
	seen := len(rest) - fresh // holds no newline
	for {
		end := bytes.IndexByte(rest[seen:], '\n')
		if end < 0 {
			break
		}
		line := rest[:seen+end+1]
		rest, seen = rest[seen+end+1:], 0
		if t.next == 0 {
			first, err := Decode(line)
			if err != nil {
				return err
			}
			t.next = first.N
		}
		t.next++
		if t.next <= t.from {
			continue
		}
		if !yield(line) || bytes.Contains(line, []byte(endMark)) {
			t.done = true
			return nil
		}
	}
	t.buf = t.buf[:copy(t.buf, rest)]
	return nil
}

func contextError(err error) error {
	code := run.CodeCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = run.CodeTimeout
	}
	return &run.Error{Code: code, Message: fmt.Sprintf("following the task: %v", err), Err: err}
}
