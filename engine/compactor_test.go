package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/maintenance"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

// counting counts the reads of packed logs, and of batches.
type counting struct {
	*blobs.Store
	blocks  atomic.Int64
	batches atomic.Int64
}

func (c *counting) PackedFrames(ctx context.Context, key run.Key, last int64, b run.LogBlock) ([]run.Frame, error) {
	c.blocks.Add(1)
	return c.Store.PackedFrames(ctx, key, last, b)
}

func (c *counting) GetFrames(ctx context.Context, key run.Key, first int64) ([]run.Frame, error) {
	c.batches.Add(1)
	return c.Store.GetFrames(ctx, key, first)
}

// packBench is a bench whose logs can be packed, in a directory.
type packBench struct {
	bench
	logs      *counting
	metrics   *maintenance.Metrics
	compactor *maintenance.Compactor
	collector *maintenance.GarbageCollector
}

func newPackBench(t *testing.T, dir string) packBench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "records.db"), sqlite.Options{})
	require.NoError(t, err)
	bucket, err := blobs.Open(t.Context(), "file://"+filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(store.Close(), bucket.Close())) })
	logs := &counting{Store: bucket}
	metrics, logger := maintenance.NewMetrics(), slog.New(slog.DiscardHandler)
	b := packBench{
		bench: bench{Engine: engine.New(engine.Deps{Store: store, Logs: logs, Logger: logger}), store: store}, logs: logs, metrics: metrics,
		compactor: maintenance.NewCompactor(store, logs, logger, metrics), collector: maintenance.NewGarbageCollector(store, logs, logger),
	}
	_, err = b.Register(t.Context(), run.Executor{
		ID: executorID, Pool: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Slots: 1, JournalID: "j1",
	})
	require.NoError(t, err)
	return b
}

// longLog appends a log of two steps in many batches, and returns its output.
func (b packBench) longLog(t *testing.T, key run.Key, seed uint64, chunks int) []run.LogChunk {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	at := time.Now().Add(-time.Hour).UTC()
	var out []run.LogChunk
	frames := []run.Frame{{Kind: run.FrameOutput, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("image pulled\n")}, {Kind: run.FrameStepStart}}
	for i := range chunks {
		f := run.Frame{Kind: run.FrameOutput, Step: i * 2 / chunks, Stream: run.StreamStdout}
		if random.IntN(3) == 0 {
			f.Stream = run.StreamStderr
		}
		switch random.IntN(4) {
		case 0:
			f.Data = make([]byte, random.IntN(run.MaxFrameData))
			for j := range f.Data {
				f.Data[j] = byte(random.Uint32())
			}
		case 1:
			f.Data = bytes.Repeat([]byte("50%\r"), random.IntN(50))
		case 2:
			f.Data = []byte("part of a line, ")
		case 3:
			f.Data = []byte(strings.Repeat("a line\n", random.IntN(30)))
		}
		frames = append(frames, f)
		if i+1 == (chunks+1)/2 {
			frames = append(frames, run.Frame{Kind: run.FrameStepEnd, Status: run.StatusSuccess}, run.Frame{Kind: run.FrameStepStart, Step: 1})
		}
	}
	frames = append(frames, run.Frame{Kind: run.FrameStepEnd, Step: 1, Status: run.StatusSuccess})
	for i := range chunks / 10 {
		service := run.ServiceStream([]string{"db", "web"}[i*20/chunks])
		frames = append(frames, run.Frame{Kind: run.FrameOutput, Step: run.SetupStep, Stream: service, Data: []byte(strings.Repeat("a line of a service\n", i%30))})
	}
	frames = append(frames,
		run.Frame{Kind: run.FrameTaskEnd, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("the end\n"), Result: &run.TaskResult{Status: run.StatusFailed}})
	for i := range frames {
		f := &frames[i]
		f.Version, f.N, f.Time = run.FrameVersion, int64(i+1), at.Add(time.Duration(i)*time.Second)
		if f.Kind == run.FrameOutput || f.Kind == run.FrameTaskEnd {
			out = append(out, run.LogChunk{Time: f.Time, Step: f.Step, Stream: f.Stream, Data: f.Data})
		}
	}
	for len(frames) > 0 {
		n := min(len(frames), 1+random.IntN(40))
		b.appendFrames(t, key, frames[:n]...)
		frames = frames[n:]
	}
	return out
}

// want returns the output that a query selects, computed without an index.
func want(chunks []run.LogChunk, q run.LogQuery) []byte {
	var all []byte
	since, begun := -1, false
	for _, c := range chunks {
		begun = begun || c.Step != run.SetupStep
		if q.Step != nil && (c.Step != *q.Step || begun && c.Step == run.SetupStep) || len(c.Data) == 0 {
			continue
		}
		if len(q.Streams) > 0 && c.Stream != q.Streams[0] || len(q.Streams) == 0 && c.Stream.Service() != "" {
			continue
		}
		if since < 0 && !c.Time.Before(q.Since) {
			since = len(all)
		}
		all = append(all, c.Data...)
	}
	start := int(min(q.Offset, int64(len(all))))
	if since < 0 {
		since = len(all)
	}
	start = max(start, since)
	if q.Tail != nil {
		lines := bytes.SplitAfter(all, []byte("\n"))
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		lines = lines[max(0, len(lines)-*q.Tail):]
		start = max(start, len(all)-len(bytes.Join(lines, nil)))
	}
	return all[start:]
}

func (b packBench) readAll(t *testing.T, q run.LogQuery) []byte {
	t.Helper()
	r, err := b.Logs(t.Context(), q)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	at := r.Offset()
	var out []byte
	for {
		chunk, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		require.Equal(t, at, chunk.Offset)
		at += int64(len(chunk.Data))
		out = append(out, chunk.Data...)
	}
}

// TestCompactor_queries reads all kinds of parts of a log before and after it is
// packed.
func TestCompactor_queries(t *testing.T) {
	t.Parallel()
	b := newPackBench(t, t.TempDir())
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	chunks := b.longLog(t, key, 7, 2000)
	random := rand.New(rand.NewPCG(3, 2))
	total := len(want(chunks, run.LogQuery{}))
	setup, last := run.SetupStep, 1
	queries := []run.LogQuery{{Run: id, Task: "t", Step: &setup, Tail: &last}, {Run: id, Task: "t", Tail: &last}}
	for range 150 {
		q := run.LogQuery{Run: id, Task: "t"}
		if random.IntN(2) == 0 {
			step := random.IntN(3) - 1
			q.Step = &step
		}
		if random.IntN(2) == 0 {
			q.Streams = []run.Stream{[]run.Stream{run.StreamStdout, run.StreamStderr, run.StreamSystem, run.ServiceStream("db"), run.ServiceStream("web"), run.ServiceStream("none")}[random.IntN(6)]}
		}
		switch random.IntN(4) {
		case 0:
			q.Offset = int64(random.IntN(total + 10))
		case 1:
			lines := random.IntN(300)
			q.Tail = &lines
		case 2:
			q.Since = chunks[random.IntN(len(chunks))].Time.Add(time.Duration(random.IntN(3)-1) * 100 * time.Millisecond)
		}
		if q.Offset == 0 && random.IntN(4) == 0 {
			lines := 1 << random.IntN(12)
			q.Tail = &lines
		}
		// Following a log that has ended is the same as reading it.
		q.Follow = random.IntN(2) == 0
		queries = append(queries, q)
	}
	check := func() {
		for _, q := range queries {
			require.True(t, bytes.Equal(want(chunks, q), b.readAll(t, q)), "%+v", q)
		}
	}
	check()
	require.Zero(t, b.logs.blocks.Load())
	require.NoError(t, b.compactor.Pack(t.Context()))
	require.NoError(t, b.collector.Collect(t.Context()))
	b.logs.batches.Store(0)
	check()
	require.Zero(t, b.logs.batches.Load(), "all of it is packed")
	list, err := b.store.Batches(t.Context(), id, 0, 1, records.BatchRef{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	found := gatherMetrics(t, b.metrics)
	require.EqualValues(t, 1, found["drover_log_packing_seconds_count"])
	require.EqualValues(t, list[0].Bytes, found["drover_log_packing_written_bytes_total"])
	require.Greater(t, found["drover_log_packing_read_bytes_total"], found["drover_log_packing_written_bytes_total"])
}

// A piece can have less output than its outline counts. A query for the last lines reads
// what there is.
func TestLogs_tail_of_less_than_the_outline_counts(t *testing.T) {
	t.Parallel()
	b := newPackBench(t, t.TempDir())
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	b.appendFrames(t, key, run.Frame{Version: run.FrameVersion, N: 1, Kind: run.FrameOutput, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("a line\n")})
	end := run.Frame{Version: run.FrameVersion, N: 2, Kind: run.FrameTaskEnd, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("the end\n"), Result: &run.TaskResult{Status: run.StatusFailed}}
	b.appendFrames(t, key, end)
	require.NoError(t, b.logs.DeleteFrames(t.Context(), key, 2))
	end.Data = nil
	_, err := b.logs.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: []run.Frame{end}})
	require.NoError(t, err)
	for lines := range 3 {
		want := ""
		if lines > 0 {
			want = "a line\n"
		}
		require.Equal(t, want, string(b.readAll(t, run.LogQuery{Run: id, Task: "t", Tail: &lines})))
	}
}

// TestCompactor_reads_parts reads only those blocks of a packed log that are
// needed.
func TestCompactor_reads_parts(t *testing.T) {
	t.Parallel()
	b := newPackBench(t, t.TempDir())
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	chunks := b.longLog(t, b.claim(t, id), 8, 8000)
	few, setup := 10, run.SetupStep
	total := int64(len(want(chunks, run.LogQuery{})))
	queries := map[string]run.LogQuery{
		"tail":   {Tail: &few},
		"since":  {Since: chunks[len(chunks)-5].Time},
		"offset": {Offset: total - 10},
		"stream": {Streams: []run.Stream{run.StreamSystem}},
		"setup":  {Step: &setup},
	}
	read := func(most int64, counter *atomic.Int64) {
		for name, q := range queries {
			q.Run, q.Task = id, "t"
			counter.Store(0)
			require.True(t, bytes.Equal(want(chunks, q), b.readAll(t, q)), name)
			require.LessOrEqual(t, counter.Load(), most, name)
		}
	}
	read(6, &b.logs.batches)
	require.NoError(t, b.compactor.Pack(t.Context()))
	b.readAll(t, run.LogQuery{Run: id, Task: "t"})
	require.Greater(t, b.logs.blocks.Load(), int64(10), "the log has enough blocks for the test")
	read(4, &b.logs.blocks)
}

// TestCompactor_followers has all kinds of readers in the middle of a log while it
// is packed and its batches are removed.
func TestCompactor_followers(t *testing.T) {
	t.Parallel()
	b := newPackBench(t, t.TempDir())
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	chunks := b.longLog(t, b.claim(t, id), 9, 1500)
	whole := want(chunks, run.LogQuery{})
	type reading struct {
		run.LogReader
		got []byte
	}
	var readers []*reading
	for i := range 40 {
		r, err := b.Logs(t.Context(), run.LogQuery{Run: id, Task: "t", Follow: i%2 == 0})
		require.NoError(t, err)
		in := &reading{LogReader: r}
		readers = append(readers, in)
		for range i * 35 {
			chunk, err := r.Next(t.Context())
			require.NoError(t, err)
			in.got = append(in.got, chunk.Data...)
			if len(in.got) > len(whole)*i/45 {
				break
			}
		}
	}
	require.NoError(t, b.compactor.Pack(t.Context()))
	require.NoError(t, b.collector.Collect(t.Context()))
	for _, r := range readers {
		for {
			chunk, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.EqualValues(t, len(r.got), chunk.Offset)
			r.got = append(r.got, chunk.Data...)
		}
		require.True(t, bytes.Equal(whole, r.got))
		require.NoError(t, r.Close())
	}
}

func TestCompactor_runs(t *testing.T) {
	t.Parallel()
	b := newPackBench(t, t.TempDir())
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.compactor.Run(ctx) }()
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	b.longLog(t, b.claim(t, id), 10, 100)
	testenv.Await(t, func() (bool, string) {
		list, err := b.store.Batches(t.Context(), id, 0, 1, records.BatchRef{})
		require.NoError(t, err)
		return len(list) == 1 && list[0].Packed, "the log is not packed"
	})
	stop(errors.New("the test is done"))
	require.NoError(t, <-done)
}

// The environment of a child process of TestCompactor_killed. killAt names the point at
// which it dies.
const (
	killAt  = "DROVER_TEST_KILL_AT"
	killDir = "DROVER_TEST_KILL_DIR"
)

// die ends the process as kill -9 does.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// killingLogs kills the process at a given point.
type killingLogs struct {
	*blobs.Store
	at string
}

func (d *killingLogs) PackFrames(ctx context.Context, key run.Key, last int64, frames iter.Seq2[run.Frame, error]) (int64, error) {
	if d.at == "before" {
		die()
	}
	size, err := d.Store.PackFrames(ctx, key, last, func(yield func(run.Frame, error) bool) {
		n := 0
		for f, err := range frames {
			if n++; d.at == "inside" && n == 1500 {
				die()
			}
			if !yield(f, err) {
				return
			}
		}
		if d.at == "end" {
			die()
		}
	})
	if d.at == "written" {
		die()
	}
	return size, err
}

func (d *killingLogs) DeleteFrames(ctx context.Context, key run.Key, first int64) error {
	if d.at == "deleting" && first > 500 {
		die()
	}
	return d.Store.DeleteFrames(ctx, key, first)
}

// packAndDie packs the logs in a directory, and dies on the way.
func packAndDie(t *testing.T, dir, at string) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "records.db"), sqlite.Options{})
	require.NoError(t, err)
	bucket, err := blobs.Open(t.Context(), "file://"+filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	logs, logger := &killingLogs{Store: bucket, at: at}, slog.New(slog.DiscardHandler)
	require.NoError(t, maintenance.NewCompactor(store, logs, logger, maintenance.NewMetrics()).Pack(t.Context()))
	if at == "switched" {
		die()
	}
	require.NoError(t, maintenance.NewGarbageCollector(store, logs, logger).Collect(t.Context()))
	if at == "done" {
		die()
	}
	t.Fatal("it was not killed")
}

// TestCompactor_killed kills a process in each step. After each kill the log can
// be read, another process completes the packing, and then the only object is
// the one that the records name.
func TestCompactor_killed(t *testing.T) {
	if dir := os.Getenv(killDir); dir != "" {
		packAndDie(t, dir, os.Getenv(killAt))
	}
	t.Parallel()
	for _, at := range []string{"before", "inside", "end", "written", "switched", "deleting", "done"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := newPackBench(t, dir)
			id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
			chunks := b.longLog(t, b.claim(t, id), 11, 3000)
			q := run.LogQuery{Run: id, Task: "t"}

			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCompactor_killed$")
			child.Env = append(os.Environ(), killAt+"="+at, killDir+"="+dir)
			out, err := child.CombinedOutput()
			require.ErrorContains(t, err, "killed", "%s", out)
			require.True(t, bytes.Equal(want(chunks, q), b.readAll(t, q)), "after the kill")

			// The lease of the dead process expires.
			later, err := sqlite.Open(t.Context(), filepath.Join(dir, "records.db"),
				sqlite.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }})
			require.NoError(t, err)
			defer func() { require.NoError(t, later.Close()) }()
			logger := slog.New(slog.DiscardHandler)
			require.NoError(t, maintenance.NewCompactor(later, b.logs, logger, maintenance.NewMetrics()).Pack(t.Context()))
			require.NoError(t, maintenance.NewGarbageCollector(later, b.logs, logger).Collect(t.Context()))
			require.True(t, bytes.Equal(want(chunks, q), b.readAll(t, q)), "in the end")
			list, err := b.store.Batches(t.Context(), id, 0, 1, records.BatchRef{})
			require.NoError(t, err)
			require.Len(t, list, 1)
			left := files(t, filepath.Join(dir, "blobs"))
			require.Len(t, left, 1, "%v", left)
			require.Contains(t, left[0], fmt.Sprintf("packed.%012d.zst", list[0].Last))
			info, err := os.Stat(left[0])
			require.NoError(t, err)
			require.Equal(t, list[0].Bytes, info.Size())
		})
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	}))
	return out
}
