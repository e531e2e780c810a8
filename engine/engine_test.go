package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

// bench is an engine on stores of its own, with an executor in a shell pool.
type bench struct {
	*engine.Engine
	store records.Store
	blobs *blobs.Store
}

const executorID = "host-1"

func newBench(t *testing.T) bench {
	t.Helper()
	return newBenchOf(t, 0)
}

// newBenchOf returns a bench that keeps logLimit bytes of a task's log.
func newBenchOf(t *testing.T, logLimit int64) bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	bucket, err := blobs.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(store.Close(), bucket.Close())) })
	b := bench{Engine: engine.New(engine.Deps{Store: store, Logs: bucket, Logger: slog.New(slog.DiscardHandler), LogLimit: logLimit}), store: store, blobs: bucket}
	_, err = b.Register(t.Context(), run.Executor{
		ID: executorID, Pool: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Slots: 1, JournalID: "j1",
	})
	require.NoError(t, err)
	return b
}

// submit creates a run of tasks with two steps each.
func (b bench) submit(t *testing.T, tasks map[string]*run.TaskSpec) run.Run {
	t.Helper()
	r, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{Name: "n", Group: "/a/b", Tasks: tasks}})
	require.NoError(t, err)
	return r
}

func twoSteps() *run.TaskSpec {
	return &run.TaskSpec{Steps: []run.Step{{Run: "one"}, {Run: "two"}}}
}

// claim queues and claims task 0.
func (b bench) claim(t *testing.T, id run.ID) run.Key {
	t.Helper()
	key := run.Key{Run: id, Attempt: 1, Dispatch: 1}
	_, err := b.store.Begin(t.Context(), id)
	require.NoError(t, err)
	_, _, err = b.store.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
	require.NoError(t, err)
	_, err = b.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: executorID, JournalID: "j1"})
	require.NoError(t, err)
	return key
}

func frame(n int64, kind run.FrameKind, step int, text string) run.Frame {
	return run.Frame{Version: 1, N: n, Time: time.Now(), Kind: kind, Step: step, Stream: run.StreamStdout, Data: []byte(text)}
}

func (b bench) appendFrames(t *testing.T, key run.Key, frames ...run.Frame) {
	t.Helper()
	require.NoError(t, b.AppendFrames(t.Context(), run.FrameBatch{Key: key, Executor: executorID, Frames: frames}))
}

// read reads a log to its end.
func (b bench) read(ctx context.Context, t *testing.T, q run.LogQuery) string {
	t.Helper()
	r, err := b.Logs(ctx, q)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var text strings.Builder
	at := q.Offset
	for {
		chunk, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		require.NoError(t, err)
		require.Equal(t, at, chunk.Offset)
		at += int64(len(chunk.Data))
		text.Write(chunk.Data)
	}
}

func TestLogs_selects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	b.appendFrames(t, key, frame(1, run.FrameOutput, run.SetupStep, "setup\n"), frame(2, run.FrameStepStart, 0, ""), frame(3, run.FrameOutput, 0, "first "))
	b.appendFrames(t, key, frame(4, run.FrameOutput, 0, "line\n"), frame(5, run.FrameStepEnd, 0, ""), frame(6, run.FrameStepStart, 1, ""), frame(7, run.FrameOutput, 1, "second\n"))
	b.appendFrames(t, key, frame(4, run.FrameOutput, 0, "line\n")) // repeated
	step := func(n int) *int { return &n }
	tests := map[string]struct {
		query run.LogQuery
		want  string
	}{
		"all":                 {run.LogQuery{}, "setup\nfirst line\nsecond\n"},
		"setup":               {run.LogQuery{Step: step(run.SetupStep)}, "setup\n"},
		"a step":              {run.LogQuery{Step: step(0)}, "first line\n"},
		"from an offset":      {run.LogQuery{Step: step(0), Offset: 3}, "st line\n"},
		"over chunks":         {run.LogQuery{Step: step(0), Offset: 8}, "ne\n"},
		"beyond the end":      {run.LogQuery{Step: step(0), Offset: 800}, ""},
		"ended step, follow":  {run.LogQuery{Step: step(0), Follow: true}, "first line\n"},
		"ended setup, follow": {run.LogQuery{Step: step(run.SetupStep), Follow: true}, "setup\n"},
		"an attempt":          {run.LogQuery{Attempt: 1, Step: step(1)}, "second\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.query.Run, tt.query.Task = id, "t"
			require.Equal(t, tt.want, b.read(t.Context(), t, tt.query))
		})
	}
}

func TestLogs_refuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	two, below := 2, -2
	tests := map[string]struct {
		query run.LogQuery
		want  run.Code
	}{
		"an unknown run":        {run.LogQuery{Run: "01jd0000000000000000000000", Task: "t"}, run.CodeNotFound},
		"an unknown task":       {run.LogQuery{Run: id, Task: "u"}, run.CodeNotFound},
		"an unknown attempt":    {run.LogQuery{Run: id, Task: "t", Attempt: 3}, run.CodeNotFound},
		"a step beyond":         {run.LogQuery{Run: id, Task: "t", Step: &two}, run.CodeNotFound},
		"a step below":          {run.LogQuery{Run: id, Task: "t", Step: &below}, run.CodeNotFound},
		"a negative offset":     {run.LogQuery{Run: id, Task: "t", Offset: -1}, run.CodeInvalid},
		"a negative attempt":    {run.LogQuery{Run: id, Task: "t", Attempt: -1}, run.CodeInvalid},
		"a task without a name": {run.LogQuery{Run: id}, run.CodeNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.Logs(t.Context(), tt.query)
			require.Equal(t, tt.want, run.CodeOf(err), "%v", err)
		})
	}
}

func TestLogs_follows_from_before_the_start_to_the_end(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	ctx := testenv.Context(t)
	got := make(chan string, 1)
	go func() { got <- b.read(ctx, t, run.LogQuery{Run: id, Task: "t", Follow: true}) }()
	key := b.claim(t, id)
	b.appendFrames(t, key, frame(1, run.FrameOutput, 0, "one\n"))
	b.appendFrames(t, key, frame(2, run.FrameOutput, 1, "two\n"))
	b.appendFrames(t, key, frame(3, run.FrameTaskEnd, 0, ""))
	require.Equal(t, "one\ntwo\n", <-got)
}

func TestAppendFrames_refuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	other := key
	other.Dispatch = 2
	one := func(f run.Frame) run.FrameBatch {
		f.Version, f.N, f.Time = 1, 1, time.Now()
		return run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{f}}
	}
	many := run.FrameBatch{Key: key, Executor: executorID}
	for n := range int64(run.MaxBatchFrames + 1) {
		many.Frames = append(many.Frames, frame(n+1, run.FrameOutput, 0, "x"))
	}
	tests := map[string]struct {
		batch run.FrameBatch
		want  run.Code
	}{
		"too many frames": {many, run.CodeTooLarge},
		"no such kind":    {one(run.Frame{Kind: "other"}), run.CodeInvalid},
		"no such step":    {one(run.Frame{Kind: run.FrameStepStart, Step: run.MaxSteps}), run.CodeInvalid},
		"no such stream":  {one(run.Frame{Kind: run.FrameOutput, Stream: "other"}), run.CodeInvalid},
		"no such status":  {one(run.Frame{Kind: run.FrameStepEnd, Status: "other"}), run.CodeInvalid},
		"a bad key":       {one(run.Frame{Kind: run.FrameOutputs, Outputs: map[string]string{"a b": "x"}}), run.CodeInvalid},
		"too much put out": {one(run.Frame{Kind: run.FrameOutputs, Outputs: map[string]string{
			"a": strings.Repeat("x", run.MaxStoredOutputBytes),
		}}), run.CodeTooLarge},
		"a long reason": {one(run.Frame{Kind: run.FrameTaskEnd, Result: &run.TaskResult{
			Status: run.StatusFailed, Reason: strings.Repeat("x", 5*run.MaxReason),
		}}), run.CodeTooLarge},
		"no frames":       {run.FrameBatch{Key: key, Executor: executorID}, run.CodeInvalid},
		"a gap":           {run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{frame(1, run.FrameOutput, 0, ""), frame(3, run.FrameOutput, 0, "")}}, run.CodeInvalid},
		"a later version": {run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{{Version: 99, N: 1}}}, run.CodeInvalid},
		"too much output": {run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{frame(1, run.FrameOutput, 0, strings.Repeat("x", run.MaxFrameData+1))}}, run.CodeTooLarge},
		"no claim":        {run.FrameBatch{Key: other, Executor: executorID, Frames: []run.Frame{frame(1, run.FrameOutput, 0, "")}}, run.CodeNotFound},
		"another's claim": {run.FrameBatch{Key: key, Executor: "host-2", Frames: []run.Frame{frame(1, run.FrameOutput, 0, "")}}, run.CodeNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, run.CodeOf(b.AppendFrames(t.Context(), tt.batch)))
		})
	}
}

// TestAppendFrames_limits_the_log sends more than logs.max_mib allows, in
// batches that are each within their bounds.
func TestAppendFrames_limits_the_log(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	b := newBenchOf(t, limit)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	text := strings.Repeat("x", run.MaxFrameData)
	n := int64(0)
	batch := func() run.FrameBatch {
		out := run.FrameBatch{Key: key, Executor: executorID}
		for range 100 {
			n++
			out.Frames = append(out.Frames, frame(n, run.FrameOutput, 0, text))
		}
		return out
	}
	var err error
	for err == nil && n*run.MaxFrameData < 100<<20 {
		err = b.AppendFrames(t.Context(), batch())
	}
	require.Equal(t, run.CodeTooLarge, run.CodeOf(err), "%d bytes were stored", n*run.MaxFrameData)
	require.GreaterOrEqual(t, n*run.MaxFrameData, int64(limit+(run.MaxSetupFrames+1)*run.MaxFrameData), "the setup's lines are not of the steps")
}

// TestAppendFrames_limits_outputs sends outputs in several frames.
func TestAppendFrames_limits_outputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	put := func(n int64, name string) error {
		f := frame(n, run.FrameOutputs, 0, "")
		f.Outputs = map[string]string{name: strings.Repeat("x", run.MaxOutputBytes-100)}
		return b.AppendFrames(t.Context(), run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{f}})
	}
	require.NoError(t, put(1, "a"))
	require.NoError(t, put(2, "b"))
	require.NoError(t, put(3, "c"))
	require.NoError(t, put(4, "c"), "in the place of the one before")
	require.Equal(t, run.CodeTooLarge, run.CodeOf(put(5, "d")))
	require.NoError(t, b.AppendFrames(t.Context(), run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{frame(5, run.FrameTaskEnd, 0, "")}}),
		"a batch that was refused leaves nothing")
}

func TestGet_explains_a_waiting_task(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	after := twoSteps()
	after.Depends = []run.Depend{{Task: "t"}}
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps(), "u": after}).ID
	_, err := b.store.Begin(t.Context(), id)
	require.NoError(t, err)
	_, _, err = b.store.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
	require.NoError(t, err)
	r, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "waits for an executor of pool shell", r.Tasks[0].Reason)
	require.Equal(t, "waits for t", r.Tasks[1].Reason)
	_, err = b.Renew(t.Context(), run.Renewal{Executor: executorID, JournalID: "j1", SlotsUsed: 1})
	require.NoError(t, err)
	r, err = b.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "the only slot of pool shell is in use; position 1 in queue", r.Tasks[0].Reason)
}

func TestCreate_refuses_pools(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	image := twoSteps()
	image.Image = "busybox"
	named := twoSteps()
	named.Pool = "gpu"
	_, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"image": image, "named": named}}})
	var refused *run.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, run.CodeInvalid, refused.Code)
	paths := make([]string, len(refused.Faults))
	for i, f := range refused.Faults {
		paths[i] = f.Path
	}
	require.ElementsMatch(t, []string{"tasks.image.image", "tasks.named.pool"}, paths)
}

func TestEvents_follow_a_run(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	ctx := testenv.Context(t)
	seen := make(chan run.Event, 100)
	go func() {
		defer close(seen)
		for event, err := range b.Events(ctx, run.EventQuery{Run: id}) {
			if err != nil {
				return
			}
			seen <- event
			if event.Type == run.EventTask && event.Status == run.StatusRunning {
				return
			}
		}
	}()
	b.claim(t, id)
	last := int64(0)
	var statuses []run.Status
	for event := range seen {
		require.Greater(t, event.Number, last)
		last = event.Number
		if event.Type == run.EventTask {
			statuses = append(statuses, event.Status)
		}
	}
	require.Equal(t, []run.Status{run.StatusQueued, run.StatusRunning}, statuses)
}

// readPositions records from where events are read.
type readPositions struct {
	records.Store

	after chan int64
}

func (s readPositions) ReadEvents(ctx context.Context, q run.EventQuery, n int) (records.EventPage, error) {
	select {
	case s.after <- q.After:
	case <-ctx.Done():
	}
	return s.Store.ReadEvents(ctx, q, n)
}

// TestEvents_of_groups: a reader of the events of some groups does not read the events of
// the others again, however long its own groups are silent.
func TestEvents_of_groups(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	store := readPositions{b.store, make(chan int64)}
	e := engine.New(engine.Deps{Store: store, Logs: b.blobs, Logger: slog.New(slog.DiscardHandler)})
	create := func(group string) run.ID {
		r, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{Name: "n", Group: group, Tasks: map[string]*run.TaskSpec{"a": twoSteps()}}})
		require.NoError(t, err)
		return r.ID
	}
	ctx, stop := context.WithCancel(t.Context())
	events, done := make(chan run.Event), make(chan struct{})
	go func() {
		defer close(done)
		for event, err := range e.Events(ctx, run.EventQuery{Within: []string{"/own"}}) {
			if err != nil {
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	require.Zero(t, <-store.after)
	create("/other/x")
	_, last, err := b.EventBounds(t.Context(), "")
	require.NoError(t, err)
	for after := int64(0); after < last; after = <-store.after {
		create("/other/x") // wakes the reader
	}
	own := create("/own/x")
	for received := false; !received; {
		select {
		case event := <-events:
			require.Equal(t, own, event.Run)
			received = true
		case <-store.after:
		}
	}
	stop()
	<-done
}

// silentEvents has no events of the reader's groups up to a number.
type silentEvents struct {
	records.Store

	upTo int64
}

func (s silentEvents) ReadEvents(_ context.Context, q run.EventQuery, _ int) (records.EventPage, error) {
	next := min(s.upTo, q.After+10_000)
	return records.EventPage{Next: next, More: next < s.upTo}, nil
}

// TestEvents_positions: a reader that gets no events learns its position, to resume there.
func TestEvents_positions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := engine.New(engine.Deps{Store: silentEvents{b.store, 25_000}, Logs: b.blobs, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var positions []int64
	for event, err := range e.Events(ctx, run.EventQuery{Within: []string{"/own"}}) {
		require.NoError(t, err)
		require.Equal(t, run.Event{Number: event.Number}, event)
		if positions = append(positions, event.Number); event.Number == 25_000 {
			stop()
		}
	}
	require.Equal(t, []int64{10_000, 20_000, 25_000}, positions)
}
