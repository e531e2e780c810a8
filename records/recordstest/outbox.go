package recordstest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func outboxTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"rows_of_a_run_are_in_order": testOutboxOrder,
		"leases_expire":              testOutboxLease,
		"retries_are_delayed":        testOutboxRetry,
		"concurrent_takers":          testOutboxTakers,
		"wake":                       testOutboxWake,
	}
}

func testOutboxOrder(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	first := fixture.Create(t, s, fixture.Manual("/a/b"))
	require.NoError(t, s.StartRun(ctx, first.ID, nil))
	second := fixture.Create(t, s, fixture.OneTask("/a/b"))

	rows := fixture.TakeAll(t, s)
	require.Len(t, rows, 2)
	require.Equal(t, []run.ID{first.ID, second.ID}, []run.ID{rows[0].Run, rows[1].Run})
	require.Equal(t, records.OutboxStart, rows[0].Kind)
	require.Equal(t, 1, rows[0].Attempts)
	require.WithinDuration(t, time.Now(), rows[0].Created, time.Minute)
	require.Empty(t, fixture.TakeAll(t, s), "the next row of a run waits for the one before")
	require.NoError(t, s.CompleteOutbox(ctx, rows[0].ID))
	require.NoError(t, s.CompleteOutbox(ctx, rows[0].ID), "again is no error")
	next := fixture.TakeAll(t, s)
	require.Len(t, next, 1)
	require.Equal(t, records.OutboxAdmit, next[0].Kind)
	require.NoError(t, s.CompleteOutbox(ctx, next[0].ID))
	require.NoError(t, s.CompleteOutbox(ctx, rows[1].ID))
	stats, err := s.Stats(ctx)
	require.NoError(t, err)
	require.Zero(t, stats.Outbox)
}

func testOutboxLease(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Create(t, s, fixture.OneTask("/a/b"))
	rows := fixture.TakeAll(t, s)
	require.Len(t, rows, 1)
	d.Clock.Advance(30 * time.Second)
	require.Empty(t, fixture.TakeAll(t, s))
	d.Clock.Advance(31 * time.Second)
	again := fixture.TakeAll(t, s)
	require.Len(t, again, 1)
	require.Equal(t, rows[0].ID, again[0].ID)
	require.Equal(t, 2, again[0].Attempts)
}

func testOutboxRetry(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	r := fixture.Create(t, s, fixture.Manual("/a/b"))
	require.NoError(t, s.StartRun(ctx, r.ID, nil))
	rows := fixture.TakeAll(t, s)
	require.NoError(t, s.RetryOutbox(ctx, rows[0].ID, 10*time.Second))
	require.Empty(t, fixture.TakeAll(t, s), "neither the retried row nor those after it are due")
	d.Clock.Advance(11 * time.Second)
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxAdmit}, fixture.Drain(t, s))
}

// testOutboxTakers takes rows concurrently: each row goes to one taker, and the
// rows of a run come in their order.
func testOutboxTakers(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	const runs = 40
	for range runs {
		r := fixture.Create(t, stores[0], fixture.Manual("/a/b"))
		require.NoError(t, stores[0].StartRun(t.Context(), r.ID, nil))
	}
	var mu sync.Mutex
	taken := make(map[run.ID][]records.OutboxKind)
	total := 0
	var group errgroup.Group
	for i := range 6 {
		group.Go(func() error {
			for {
				rows, err := stores[i%2].TakeOutbox(t.Context(), 3, time.Minute)
				if err != nil {
					return err
				}
				for _, row := range rows {
					mu.Lock()
					taken[row.Run] = append(taken[row.Run], row.Kind)
					total++
					mu.Unlock()
					if err := stores[i%2].CompleteOutbox(t.Context(), row.ID); err != nil {
						return err
					}
				}
				mu.Lock()
				done := total >= 2*runs
				mu.Unlock()
				if done {
					return nil
				}
			}
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 2*runs, total, "no row is handed out twice")
	for _, kinds := range taken {
		require.True(t, slices.Equal([]records.OutboxKind{records.OutboxStart, records.OutboxAdmit}, kinds), kinds)
	}
}

func testOutboxWake(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	wake := s.OutboxWake()
	drainSignal(wake)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitSignal(t, wake)
	fixture.Begin(t, s, r.ID)
	require.NoError(t, s.StopRun(t.Context(), r.ID, nil))
	fixture.AwaitSignal(t, wake)
	rows := fixture.TakeAll(t, s)
	drainSignal(wake)
	require.NoError(t, s.CompleteOutbox(t.Context(), rows[0].ID))
	fixture.AwaitSignal(t, wake) // the next row of the run may be taken
}

// drainSignal discards a pending signal.
func drainSignal(signal <-chan struct{}) {
	select {
	case <-signal:
	default:
	}
}
