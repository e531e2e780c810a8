package journal_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// writer is a fake shim: it runs as long as its lock is open.
type writer struct {
	t    testing.TB
	dir  string
	lock *os.File
	file *os.File
	next int64
}

func newWriter(t testing.TB) *writer {
	t.Helper()
	dir := t.TempDir()
	lock, err := process.Lock(dir)
	require.NoError(t, err)
	w := &writer{t: t, dir: dir, lock: lock, next: 1}
	t.Cleanup(w.die)
	return w
}

func (w *writer) begin() {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, journal.File), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	w.file = f
}

func (w *writer) raw(text string) {
	w.t.Helper()
	_, err := w.file.WriteString(text)
	require.NoError(w.t, err)
}

func (w *writer) line(kind run.FrameKind, data string) string {
	w.t.Helper()
	text, err := json.Marshal(run.Frame{Version: 1, N: w.next, Time: time.Now(), Kind: kind, Data: []byte(data)})
	require.NoError(w.t, err)
	w.next++
	return string(text) + "\n"
}

// die ends the shim, as the kernel does.
func (w *writer) die() {
	if w.lock == nil {
		return
	}
	_ = w.lock.Close()
	if w.file != nil {
		_ = w.file.Close()
	}
	w.lock = nil
}

// event is what a follower received.
type event struct {
	frame run.Frame
	err   error
}

// follow follows the journal in a goroutine.
func follow(t testing.TB, dir string, from int64, w *journal.Watcher) <-chan event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience(t))
	events := make(chan event)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		for f, err := range journal.Tail(ctx, dir, from, w) {
			select {
			case events <- event{f, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return events
}

// withAndWithoutWatcher runs a test with a watcher and without.
func withAndWithoutWatcher(t *testing.T, test func(t *testing.T, w *journal.Watcher)) {
	t.Helper()
	withWatcher(t, journal.NewNotifiedWatcher(), test)
	t.Run("polling", func(t *testing.T) {
		t.Parallel()
		test(t, nil)
	})
}

func withWatcher(t *testing.T, w *journal.Watcher, test func(t *testing.T, w *journal.Watcher)) {
	t.Helper()
	t.Run("notified", func(t *testing.T) {
		t.Parallel()
		t.Cleanup(func() { require.NoError(t, w.Close()) })
		test(t, w)
	})
}

func TestTail_follows_a_journal_as_it_grows(t *testing.T) {
	t.Parallel()
	withAndWithoutWatcher(t, func(t *testing.T, watcher *journal.Watcher) {
		t.Helper()
		w := newWriter(t)
		events := follow(t, w.dir, 1, watcher)
		w.begin()
		for _, text := range []string{"one", "two"} {
			w.raw(w.line(run.FrameOutput, text))
			require.Equal(t, text, string((<-events).frame.Data))
		}
		line := w.line(run.FrameOutput, strings.Repeat("long ", 100_000))
		w.raw(line[:1000])
		w.raw(line[1000:])
		require.Len(t, (<-events).frame.Data, 500_000)
		w.raw(w.line(run.FrameOutput, "three") + w.line(run.FrameTaskEnd, ""))
		require.Equal(t, int64(4), (<-events).frame.N)
		require.Equal(t, run.FrameTaskEnd, (<-events).frame.Kind)
		_, more := <-events
		require.False(t, more, "it ends with the task")
	})
}

func TestTail_ends_with_the_shim(t *testing.T) {
	t.Parallel()
	withAndWithoutWatcher(t, func(t *testing.T, watcher *journal.Watcher) {
		t.Helper()
		w := newWriter(t)
		w.begin()
		w.raw(w.line(run.FrameOutput, "one") + w.line(run.FrameOutput, "two")[:20])
		events := follow(t, w.dir, 1, watcher)
		require.Equal(t, "one", string((<-events).frame.Data))
		w.die()
		e := <-events
		require.Equal(t, run.CodeNotFound, run.CodeOf(e.err), "%v", e.err)
		require.Contains(t, e.err.Error(), "without writing the end")
	})
}

func TestTail_of_a_shim_that_never_begins(t *testing.T) {
	t.Parallel()
	withAndWithoutWatcher(t, func(t *testing.T, watcher *journal.Watcher) {
		t.Helper()
		w := newWriter(t)
		events := follow(t, w.dir, 1, watcher)
		w.die()
		e := <-events
		require.Equal(t, run.CodeNotFound, run.CodeOf(e.err), "%v", e.err)
		require.Contains(t, e.err.Error(), "did not begin")
	})
}

func TestTail_of_nothing(t *testing.T) {
	t.Parallel()
	var last error
	for _, err := range journal.Tail(t.Context(), filepath.Join(t.TempDir(), "absent"), 1, nil) {
		last = err
	}
	require.Equal(t, run.CodeNotFound, run.CodeOf(last))
}

func TestTail_of_a_damaged_journal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"nonsense\n", `{"v":99,"n":1}` + "\n"} {
		w := newWriter(t)
		w.begin()
		w.raw(text)
		e := <-follow(t, w.dir, 1, nil)
		require.Equal(t, run.CodeInternal, run.CodeOf(e.err), "%v", e.err)
		require.ErrorIs(t, e.err, journal.ErrDamaged)
	}
}

// A shim that waits for its acknowledgment runs, and writes nothing more.
func TestTail_of_a_journal_without_its_end(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, watcher *journal.Watcher) {
		t.Helper()
		w := newWriter(t)
		w.begin()
		w.raw(w.line(run.FrameOutput, "one"))
		events := follow(t, w.dir, 1, watcher)
		require.Equal(t, "one", string((<-events).frame.Data))
		state, err := json.Marshal(process.State{PID: os.Getpid(), Clean: true, Ended: true})
		require.NoError(t, err)
		_, err = w.lock.Write(state)
		require.NoError(t, err)
		e := <-events
		require.ErrorIs(t, e.err, journal.ErrDamaged)
		require.Contains(t, e.err.Error(), "lacks the end")
		ended, err := journal.Ended(w.dir)
		require.NoError(t, err)
		require.True(t, ended)
	}
	withWatcher(t, new(journal.Watcher), test) // the state is not notified: it polls
	t.Run("polling", func(t *testing.T) {
		t.Parallel()
		test(t, nil)
	})
}

func TestTail_until_the_context_ends(t *testing.T) {
	t.Parallel()
	withAndWithoutWatcher(t, func(t *testing.T, watcher *journal.Watcher) {
		t.Helper()
		w := newWriter(t)
		w.begin()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var last error
		for _, err := range journal.Tail(ctx, w.dir, 1, watcher) {
			last = err
		}
		require.Equal(t, run.CodeTimeout, run.CodeOf(last))
	})
}

func TestTail_continues_when_the_watcher_is_closed(t *testing.T) {
	t.Parallel()
	watcher := new(journal.Watcher)
	t.Cleanup(func() { require.NoError(t, watcher.Close()) }) // the follower may have opened it again
	w := newWriter(t)
	w.begin()
	events := follow(t, w.dir, 1, watcher)
	w.raw(w.line(run.FrameOutput, "one"))
	<-events
	require.NoError(t, watcher.Close())
	w.raw(w.line(run.FrameTaskEnd, ""))
	require.Equal(t, run.FrameTaskEnd, (<-events).frame.Kind)
}

func TestReadLines(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	var last error
	for _, err := range journal.ReadLines(w.dir, 1) {
		last = err
	}
	require.Equal(t, run.CodeNotFound, run.CodeOf(last))
	w.next = 5
	w.begin()
	var want string
	for range 4 {
		want = w.line(run.FrameOutput, "x")
		w.raw(want)
	}
	w.raw("{cut off")
	var got []string
	for line, err := range journal.ReadLines(w.dir, 8) {
		require.NoError(t, err)
		got = append(got, string(line))
	}
	require.Equal(t, []string{want}, got)
}

// BenchmarkTail measures the delivery of a frame from the writer to a follower,
// both awake.
func BenchmarkTail(b *testing.B) {
	watcher := new(journal.Watcher)
	defer func() { require.NoError(b, watcher.Close()) }()
	w := newWriter(b)
	w.begin()
	events := follow(b, w.dir, 1, watcher)
	for b.Loop() {
		w.raw(w.line(run.FrameOutput, "a line of output\n"))
		<-events
	}
}
