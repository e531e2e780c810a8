package executortest

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

const (
	// firstFrame is returned by Launch: some frames of a setup came before.
	firstFrame = 4
	// grace is that of the definitions, long enough for any response to SIGTERM.
	grace = 20 * time.Second
	// endless is a grace that no test waits for.
	endless = 10 * time.Hour
)

func join(list []string) string { return strings.Join(list, ", ") }

// key returns a unique key.
func key() run.Key {
	const length = 26
	text := strings.ToLower(rand.Text() + rand.Text())[:length]
	return run.Key{Run: run.ID(text), Task: 1, Attempt: 1, Dispatch: 1}
}

// define returns a definition with a unique key and the scripts as steps.
func (b *bench) define(scripts ...string) run.Definition {
	d := run.Definition{
		Key: key(), RunName: "conformance", RunGroup: "/suite/drivers", RunCounter: 7, Task: "case",
		Image: b.Image, PullPolicy: run.PullNever, Shell: run.DefaultShell(), Grace: grace,
	}
	for _, s := range scripts {
		d.Steps = append(d.Steps, run.StepDef{Script: s, When: run.WhenOnSuccess})
	}
	return d
}

// launches counts the calls of Launch.
type launches struct{ n atomic.Int32 }

func (l *launches) launch() (int64, error) {
	l.n.Add(1)
	return firstFrame, nil
}

// task returns the task that starts the definition.
func (b *bench) task(d run.Definition) executor.Task {
	return executor.Task{Definition: d, Log: func(line string) { b.Log("setup:", line) }, Launch: new(launches).launch}
}

// start starts the definition, and removes it at the end of the case.
func (b *bench) start(d run.Definition) executor.Handle {
	b.Helper()
	h, err := b.driver.Start(b.limit(), b.task(d))
	require.NoError(b, err)
	b.Cleanup(func() { b.cleanUp(d.Key) })
	return h
}

// cleanUp removes the environment of a failed case.
func (b *bench) cleanUp(key run.Key) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience(b))
	defer cancel()
	h, err := b.driver.Attach(ctx, key)
	if err == nil {
		err = h.Remove(ctx)
	}
	if err != nil && run.CodeOf(err) != run.CodeNotFound {
		b.Errorf("clean up: %v", err)
	}
}

// remove removes the environment.
func (b *bench) remove(h executor.Handle) {
	b.Helper()
	require.NoError(b, h.Remove(b.limit()))
}

// limit returns a context with the timeout of one call.
func (b *bench) limit() context.Context {
	return testenv.Context(b)
}

// recording holds the frames of an environment, and the error that ended them.
type recording struct {
	frames []run.Frame
	err    error
}

// read reads frames until the end, or until enough returns true.
func read(ctx context.Context, h executor.Handle, from int64, enough func(recording) bool) recording {
	var s recording
	for f, err := range h.Events(ctx, from) {
		if err != nil {
			s.err = err
			return s
		}
		s.frames = append(s.frames, f)
		if enough != nil && enough(s) {
			return s
		}
	}
	return s
}

// follow reads all frames, which must be complete.
func (b *bench) follow(h executor.Handle) recording {
	b.Helper()
	s := read(b.limit(), h, 1, nil)
	require.NoError(b, s.err)
	b.requireWhole(s, firstFrame)
	return s
}

// run starts the definition, follows it to its end and removes it.
func (b *bench) run(d run.Definition) recording {
	b.Helper()
	h := b.start(d)
	s := b.follow(h)
	b.remove(h)
	return s
}

// requireWhole checks the invariants of every complete recording.
func (b *bench) requireWhole(s recording, first int64) {
	b.Helper()
	require.NotEmpty(b, s.frames)
	for i, f := range s.frames {
		require.Equal(b, first+int64(i), f.N, "frame numbers are dense")
		require.Equal(b, f.Kind.Version(), f.Version)
		require.False(b, f.Time.IsZero())
		require.LessOrEqual(b, len(f.Data), run.MaxFrameData)
		require.Equal(b, i == len(s.frames)-1, f.Kind == run.FrameTaskEnd, "the last frame, and no other, is the task's end")
	}
	require.NotNil(b, s.frames[len(s.frames)-1].Result)
	for batch := range slices.Chunk(s.frames, run.MaxBatchFrames) {
		require.NoError(b, run.CheckFrames(batch), "the gateway accepts all frames")
	}
}

// result returns the result of the task.
func (s recording) result() run.TaskResult { return *s.frames[len(s.frames)-1].Result }

// output returns the output of a stream; "" is any.
func (s recording) output(stream run.Stream) string {
	var out strings.Builder
	for _, f := range s.frames {
		if stream == "" || f.Stream == stream {
			out.Write(f.Output())
		}
	}
	return out.String()
}

// stepOutput returns the output of one step.
func (s recording) stepOutput(step int) string {
	var out strings.Builder
	for _, f := range s.frames {
		if f.Kind == run.FrameOutput && f.Step == step {
			out.Write(f.Data)
		}
	}
	return out.String()
}

// kinds returns the kinds of the frames without repetitions.
func (s recording) kinds() []run.FrameKind {
	var out []run.FrameKind
	for _, f := range s.frames {
		out = append(out, f.Kind)
	}
	return slices.Compact(out)
}

// shows returns a condition for read: the output contains text.
func shows(text string) func(recording) bool {
	return func(s recording) bool { return strings.Contains(s.output(""), text) }
}

// awaitOutput reads until the output contains text.
func (b *bench) awaitOutput(h executor.Handle, text string) recording {
	b.Helper()
	s := read(b.limit(), h, 1, shows(text))
	require.NoError(b, s.err)
	require.Contains(b, s.output(""), text)
	return s
}

// refused checks that a definition is rejected as invalid, before its launch, and
// that nothing of it is left.
func (b *bench) refused(d run.Definition) error {
	b.Helper()
	var l launches
	task := b.task(d)
	task.Launch = l.launch
	_, err := b.driver.Start(b.limit(), task)
	require.Error(b, err)
	require.Equal(b, run.CodeInvalid, run.CodeOf(err), "%v", err)
	require.Zero(b, l.n.Load(), "Launch was called")
	return err
}
