package executortest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(task int) run.Key {
	return run.Key{Run: "01aaaaaaaaaaaaaaaaaaaaaaaa", Task: task, Attempt: 1, Dispatch: 1}
}

func order(task int) executor.Task {
	return executor.Task{
		Definition: run.Definition{Key: key(task), Task: "t"}, Log: func(string) {},
		Launch: func() (int64, error) { return 3, nil },
	}
}

func read(t testing.TB, h executor.Handle) (frames []run.Frame, err error) {
	t.Helper()
	for f, err := range h.Events(testenv.Context(t), 1) {
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}

func TestScripted_runs_its_scripts(t *testing.T) {
	t.Parallel()
	s := executortest.NewScripted()
	s.Script(key(1), executortest.Fails(3))
	s.ScriptTask("t", executortest.Succeeds("hello"))
	for task, want := range map[int]run.Status{1: run.StatusFailed, 2: run.StatusSuccess} {
		h, err := s.Start(t.Context(), order(task))
		require.NoError(t, err)
		frames, err := read(t, h)
		require.NoError(t, err)
		for i, f := range frames {
			require.Equal(t, int64(3+i), f.N)
		}
		require.Equal(t, want, frames[len(frames)-1].Result.Status)
		require.NoError(t, h.Remove(t.Context()))
	}
	keys, err := s.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestScripted_detects_double_starts(t *testing.T) {
	t.Parallel()
	s := executortest.NewScripted()
	_, err := s.Start(t.Context(), order(1))
	require.NoError(t, err)
	_, err = s.Start(t.Context(), order(1))
	require.NoError(t, err)
	require.Empty(t, s.Doubled())
	require.Equal(t, executortest.Counts{Starts: 2, Launches: 1, Begun: 1}, s.Counts(key(1)))
	s.RemoveEnvironment(key(1))
	_, err = s.Start(t.Context(), order(1))
	require.NoError(t, err)
	require.Equal(t, []run.Key{key(1)}, s.Doubled())
}

func TestScripted_faults(t *testing.T) {
	t.Parallel()
	refused := run.Errorf(run.CodeInvalid, "image pull failed")
	s := executortest.NewScripted()

	s.Script(key(1), executortest.Script{StartErr: refused})
	_, err := s.Start(t.Context(), order(1))
	require.ErrorIs(t, err, refused)
	_, err = s.Attach(t.Context(), key(1))
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))

	late := executortest.Succeeds()
	late.LaunchedErr = run.Errorf(run.CodeUnavailable, "connection reset")
	s.Script(key(2), late)
	_, err = s.Start(t.Context(), order(2))
	require.ErrorIs(t, err, late.LaunchedErr)
	h, err := s.Attach(t.Context(), key(2))
	require.NoError(t, err)
	_, err = read(t, h)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err), "the task has not begun")
	again := order(2)
	again.Resume = true
	h, err = s.Start(t.Context(), again)
	require.NoError(t, err)
	_, err = read(t, h)
	require.NoError(t, err)

	again = order(9)
	again.Resume = true
	_, err = s.Start(t.Context(), again)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))

	s.Script(key(3), executortest.Hangs())
	h, err = s.Start(t.Context(), order(3))
	require.NoError(t, err)
	s.SetDown(run.Errorf(run.CodeUnavailable, "the daemon is unavailable"))
	_, err = read(t, h)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	require.Equal(t, run.CodeUnavailable, run.CodeOf(s.Check(t.Context())))
	s.SetDown(nil)
	s.Vanish(key(3), "out of memory")
	frames, err := read(t, h)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.ErrorContains(t, err, "out of memory")
	require.Len(t, frames, 1)
	require.Empty(t, s.Doubled())
}

func TestScripted_runs_until_it_is_ended(t *testing.T) {
	t.Parallel()
	s := executortest.NewScripted()
	s.ScriptAll(executortest.Hangs())
	for task, end := range map[int]func(executor.Handle){
		1: func(h executor.Handle) { require.NoError(t, h.Stop(t.Context(), 0)) },
		2: func(executor.Handle) {
			s.Emit(key(2), run.Frame{Kind: run.FrameStepEnd})
			s.End(key(2), run.TaskResult{Status: run.StatusSuccess})
		},
	} {
		h, err := s.Start(t.Context(), order(task))
		require.NoError(t, err)
		done := make(chan struct{})
		var frames []run.Frame
		go func() {
			defer close(done)
			frames, err = read(t, h)
		}()
		require.NoError(t, s.Await(t.Context(), key(task), func(c executortest.Counts) bool { return c.Begun == 1 }))
		end(h)
		<-done
		require.NoError(t, err)
		require.Equal(t, run.FrameTaskEnd, frames[len(frames)-1].Kind)
	}
}

func TestScripted_canceled_start(t *testing.T) {
	t.Parallel()
	s := executortest.NewScripted()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	_, err := s.Start(ctx, order(1))
	require.Equal(t, run.CodeCanceled, run.CodeOf(err))
	task := order(2)
	task.Launch = func() (int64, error) { return 0, run.Errorf(run.CodeConflict, "closed") }
	_, err = s.Start(t.Context(), task)
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	keys, err := s.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
	require.Zero(t, s.Counts(key(1)).Begun+s.Counts(key(2)).Begun)
}
