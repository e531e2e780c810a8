package recordstest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func sharingTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"all_is_there_after_reopening":  testReopen,
		"opened_by_several_at_once":     testOpenAtOnce,
		"watch_across_stores":           testWatchAcross,
		"outbox_wakes_across_stores":    testOutboxAcross,
		"a_closed_store_is_unavailable": testClosed,
		"an_ended_context_is_obeyed":    testContext,
		"writers_on_one_run":            testOneRun,
	}
}

func testReopen(t *testing.T, d *fixture.Database) {
	first := d.Open(t, d.Clock.Now, nil)
	id, key := fixture.Running(t, first, rich())
	require.NoError(t, first.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutputs)))
	require.NoError(t, fixture.Register(t, first, fixture.Executor("x")))
	want := fixture.Get(t, first, id)
	fixture.AwaitEvent(t, first, 5)
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "again is no error")

	s := d.Store(t)
	require.NoError(t, s.Check(t.Context()))
	require.Empty(t, cmp.Diff(want, fixture.Get(t, s, id)))
	fixture.AwaitEvent(t, s, 5)
	fixture.Claim(t, s, key)
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxExecutor}, fixture.Drain(t, s))
	next := fixture.Create(t, s, rich())
	require.Equal(t, int64(2), next.Counter)
	fixture.AwaitEvent(t, s, 6)
	executors, err := s.ListExecutors(t.Context())
	require.NoError(t, err)
	require.Len(t, executors, 1)
}

func testOpenAtOnce(t *testing.T, d *fixture.Database) {
	var group errgroup.Group
	for range 5 {
		group.Go(func() error {
			s := d.Open(t, d.Clock.Now, nil)
			_, err := s.CreateRun(t.Context(), fixture.NewRun(t, fixture.OneTask("/a/b")))
			if err != nil {
				return err
			}
			return s.Close()
		})
	}
	require.NoError(t, group.Wait())
	page, err := d.Store(t).ListRuns(t.Context(), run.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 5)
}

// changesAcross is more than the signals that the opening of stores, and the creation of
// a run, can still cause when a test begins to count.
const changesAcross = 10

func testWatchAcross(t *testing.T, d *fixture.Database) {
	local, remote := d.Store(t), d.Store(t)
	r := fixture.Create(t, remote, fixture.OneTask("/a/b"))
	signal, stop := local.Watch(r.ID)
	defer stop()
	for i := range changesAcross {
		require.NoError(t, remote.Annotate(t.Context(), r.ID, "", map[string]string{"n": fixture.Itoa(int64(i))}, nil))
		fixture.AwaitSignal(t, signal)
		require.Equal(t, fixture.Itoa(int64(i)), fixture.Get(t, local, r.ID).Annotations["n"])
	}
	// A follower of events in one store sees what the other store writes.
	stop()
	all, stopAll := local.Watch("")
	defer stopAll()
	last, err := local.LastEvent(t.Context())
	require.NoError(t, err)
	_, err = remote.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	for {
		events := fixture.ReadAll(t, local, run.EventQuery{After: last, Run: r.ID})
		if len(events) > 0 && events[len(events)-1].Phase == run.PhaseRunning {
			return
		}
		fixture.AwaitSignal(t, all)
	}
}

func testOutboxAcross(t *testing.T, d *fixture.Database) {
	local, remote := d.Store(t), d.Store(t)
	wake := local.OutboxWake()
	for range changesAcross {
		fixture.Create(t, remote, fixture.OneTask("/a/b"))
		fixture.AwaitSignal(t, wake)
		require.Len(t, fixture.TakeAll(t, local), 1)
	}
}

func testClosed(t *testing.T, d *fixture.Database) {
	s := d.Open(t, d.Clock.Now, nil)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.Close())
	_, err := s.GetRun(t.Context(), r.ID)
	fixture.RequireCode(t, run.CodeUnavailable, err)
	_, err = s.Begin(t.Context(), r.ID)
	fixture.RequireCode(t, run.CodeUnavailable, err)
	fixture.RequireCode(t, run.CodeUnavailable, s.Check(t.Context()))
}

func testContext(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(context.Canceled)
	_, err := s.GetRun(gone, r.ID)
	fixture.RequireCode(t, run.CodeCanceled, err)
	_, err = s.Begin(gone, r.ID)
	fixture.RequireCode(t, run.CodeCanceled, err)
	late, cancelLate := context.WithDeadlineCause(t.Context(), time.Now().Add(-time.Second), context.DeadlineExceeded)
	defer cancelLate()
	_, err = s.GetRun(late, r.ID)
	fixture.RequireCode(t, run.CodeTimeout, err)
	require.Equal(t, run.PhaseQueued, fixture.Get(t, s, r.ID).Phase)
}

// testOneRun changes one run concurrently through two stores: no change is
// lost.
func testOneRun(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	const width = 40
	r := fixture.Create(t, stores[0], fixture.Wide("/a/b", width))
	fixture.Begin(t, stores[0], r.ID)
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			s := stores[i%2]
			for task := i; task < width; task += 4 {
				key := run.Key{Run: r.ID, Task: task, Attempt: 1, Dispatch: 1}
				if _, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "j"}); err != nil {
					return err
				}
				if err := s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameStepEnd)); err != nil {
					return err
				}
				if _, _, err := s.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(task, 1, 1, run.StatusSuccess)}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	got := fixture.Get(t, stores[0], r.ID)
	require.Equal(t, map[run.Status]int{run.StatusSuccess: width}, got.TaskCounts)
	require.Equal(t, int64(1+1+3*width), got.Version, "each change creates a version")
	status, _ := fixture.Apply(t, stores[1], r.ID, records.Changes{Result: run.ResultSuccess, Finish: true})
	require.Equal(t, run.PhaseFinished, status.Phase)
}
