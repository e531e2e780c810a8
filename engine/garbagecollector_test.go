package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine/maintenance"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// flakyLogs is a log store that can be unavailable.
type flakyLogs struct {
	maintenance.LogRemover
	unavailable atomic.Bool
	tried       atomic.Int64
	removed     atomic.Int64
}

func (f *flakyLogs) DeleteFrames(_ context.Context, key run.Key, first int64) error {
	f.tried.Add(1)
	if f.unavailable.Load() {
		return errors.New("out of reach")
	}
	f.removed.Add(1)
	return nil
}

func TestGarbageCollector_removes_objects_of_deleted_runs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	logs := &flakyLogs{}
	j := maintenance.NewGarbageCollector(b.store, logs, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	require.NoError(t, b.Delete(t.Context(), b.ended(t, run.StatusFailed).ID))
	await := func(n int64) {
		testenv.Await(t, func() (bool, string) {
			left, err := b.store.TakeGarbage(t.Context(), 10)
			require.NoError(t, err)
			return logs.removed.Load() == n && len(left) == 0, "the bytes of the deleted run are still there"
		})
	}
	await(1)
	require.NoError(t, b.Delete(t.Context(), b.ended(t, run.StatusFailed).ID))
	await(2)
	stop(errors.New("the test is done"))
	require.NoError(t, <-done)
}

func TestGarbageCollector_survives_an_outage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	logs := &flakyLogs{}
	logs.unavailable.Store(true)
	j := maintenance.NewGarbageCollector(b.store, logs, slog.New(slog.DiscardHandler))
	const runs = 5
	for range runs {
		require.NoError(t, b.Delete(t.Context(), b.ended(t, run.StatusFailed).ID))
	}
	require.ErrorContains(t, j.Collect(t.Context()), "out of reach")
	require.EqualValues(t, 3, logs.tried.Load(), "it gives up soon")
	left, err := b.store.TakeGarbage(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, left, runs, "what it cannot remove stays noted")
	logs.unavailable.Store(false)
	require.NoError(t, j.Collect(t.Context()))
	require.EqualValues(t, runs, logs.removed.Load())
	left, err = b.store.TakeGarbage(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, left)
}
