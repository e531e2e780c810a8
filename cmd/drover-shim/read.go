package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const (
	// readBuffer is the size of the write buffer.
	readBuffer = 64 << 10
	// flushSoon is how long a line waits for others to be written with it.
	flushSoon = 2 * time.Millisecond
)

// errReaderGone is the cause when the reader has closed stdin.
var errReaderGone = errors.New("the reader has gone")

// followOptions selects the frames to follow.
type followOptions struct {
	dir       string
	from      int64
	keepalive time.Duration
}

// read prints the current content of the journal.
func read(dir string, from int64, stdout, stderr io.Writer) int {
	out := newLineWriter(stdout, 0)
	return printLines(journal.ReadLines(dir, from), dir, out, stderr)
}

// verify decodes the current content of the journal. The other readers pass lines
// on unchanged, and the executor that decodes them does not know whether the task
// continues.
func verify(dir string, from int64, stdout, stderr io.Writer) int {
	decoded := func(yield func([]byte, error) bool) {
		for line, err := range journal.ReadLines(dir, from) {
			if err == nil {
				_, err = journal.Decode(line)
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
	code := printLines(decoded, dir, newLineWriter(io.Discard, 0), stderr)
	if code == shim.ExitDone {
		_, _ = io.WriteString(stdout, shim.Done)
	}
	return code
}

// followJournal prints the journal until the task's end. With a pulse it ends when
// stdin does, so that a lost connection leaves no process behind.
func followJournal(ctx context.Context, f followOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.keepalive > 0 {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel(errReaderGone)
		}()
	}
	out := newLineWriter(stdout, f.keepalive)
	return printLines(journal.TailLines(ctx, f.dir, f.from, new(journal.Watcher)), f.dir, out, stderr)
}

func printLines(lines iter.Seq2[[]byte, error], dir string, out *lineWriter, stderr io.Writer) int {
	fail := func(code int, err error) int {
		_, _ = fmt.Fprintln(stderr, "drover-shim read:", errors.Join(err, out.close()))
		return code
	}
	for line, err := range lines {
		if run.CodeOf(err) == run.CodeNotFound {
			if !journal.Exists(dir) {
				return fail(shim.ExitNoJournal, err)
			}
			return fail(shim.ExitEnded, err)
		}
		if errors.Is(err, journal.ErrDamaged) {
			if ended, _ := journal.Ended(dir); ended {
				return fail(shim.ExitSpoiled, err)
			}
			return fail(shim.ExitDamaged, err)
		}
		if err == nil {
			err = out.write(line)
		}
		if err != nil {
			return fail(shim.ExitFiles, err)
		}
	}
	if err := out.close(); err != nil {
		return fail(shim.ExitFiles, err)
	}
	return shim.ExitDone
}

// lineWriter writes lines, those that come close together at once, and an empty
// line after each silence. It is safe for concurrent use.
type lineWriter struct {
	keepalive time.Duration

	mu     sync.Mutex
	out    *bufio.Writer
	timer  *time.Timer
	closed bool
	err    error
}

func newLineWriter(out io.Writer, keepalive time.Duration) *lineWriter {
	w := &lineWriter{keepalive: keepalive, out: bufio.NewWriterSize(out, readBuffer)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.pause(), w.flushOrKeepalive)
	return w
}

// pause returns the interval of the timer while nothing is buffered.
func (w *lineWriter) pause() time.Duration {
	if w.keepalive > 0 {
		return w.keepalive
	}
	return time.Hour
}

func (w *lineWriter) write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		if w.out.Buffered() == 0 {
			w.timer.Reset(flushSoon)
		}
		_, w.err = w.out.Write(line)
	}
	return w.err
}

// flushOrKeepalive flushes the buffer, or writes a keepalive.
func (w *lineWriter) flushOrKeepalive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.err != nil {
		return
	}
	if w.out.Buffered() == 0 && w.keepalive > 0 {
		_ = w.out.WriteByte('\n') // Flush returns the error
	}
	w.err = w.out.Flush()
	w.timer.Reset(w.pause())
}

func (w *lineWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}
