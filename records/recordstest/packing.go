package recordstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func packingTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"switches":            testPackingSwitches,
		"leases":              testPackingLeases,
		"small_logs_stay":     testPackingSmall,
		"late_frames":         testPackingLate,
		"kept_logs":           testPackingKept,
		"deleted_while_taken": testPackingDeleted,
		"removed_executor":    testPackingRemoved,
		"stale":               testPackingStale,
		"at_once":             testPackingAtOnce,
	}
}

// taken leases the logs that are due for an hour.
func taken(t *testing.T, s records.Store) []records.PackingLog {
	t.Helper()
	logs, err := s.TakePacking(t.Context(), 10, time.Hour)
	require.NoError(t, err)
	return logs
}

func garbage(t *testing.T, s records.Store) []records.GarbageBatch {
	t.Helper()
	out, err := s.TakeGarbage(t.Context(), 100)
	require.NoError(t, err)
	require.NoError(t, s.CompleteGarbage(t.Context(), out))
	return out
}

func testPackingSwitches(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 3, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput)))
	require.Empty(t, garbage(t, s), "the object of a repeated batch is in use while it is not packed")
	require.Empty(t, taken(t, s), "the log has not ended")
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 4, run.FrameStepEnd, run.FrameTaskEnd)))
	select {
	case <-s.PackingWake():
	default:
		t.Fatal("the last frame does not wake the compactor")
	}
	logs := taken(t, s)
	require.Len(t, logs, 1)
	log := logs[0]
	require.Equal(t, key, log.Key)
	require.EqualValues(t, 5, log.Last)
	require.Len(t, log.Batches, 3)
	require.Equal(t, []run.LogPart{{Step: 0, Stream: run.StreamStdout, Bytes: 6, Lines: 1}}, log.Batches[1].Outline.Parts)

	require.NoError(t, s.SwitchPacked(ctx, log, 77))
	want := []records.Batch{{Key: key, Source: key, First: 1, Last: 5, End: true, Packed: true, Bytes: 77}}
	require.Equal(t, want, fixture.Batches(t, s, id, 0, records.BatchRef{}))
	require.Equal(t, want, fixture.Batches(t, s, id, 0, records.BatchRef{Key: key, Last: 3}), "a reader of the first batches continues with the packed log")
	require.Empty(t, fixture.Batches(t, s, id, 0, records.BatchRef{Key: key, Last: 5}))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 3}, {Key: key, Frame: 4}}, garbage(t, s))
	require.Empty(t, taken(t, s))
	fixture.RequireCode(t, run.CodeConflict, s.SwitchPacked(ctx, log, 77))
	require.Equal(t, want, fixture.Batches(t, s, id, 0, records.BatchRef{}), "a repeated switch changes nothing")
	require.Empty(t, garbage(t, s), "the object is in use")
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 4, run.FrameStepEnd, run.FrameTaskEnd)), "a packed batch is known")
	require.Equal(t, want, fixture.Batches(t, s, id, 0, records.BatchRef{}))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 4}}, garbage(t, s), "its object was stored again without a reference")

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true})
	require.NoError(t, s.DeleteRun(ctx, id))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 5, Packed: true}}, garbage(t, s))
}

func testPackingLeases(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, key := endedLog(t, s)
	first, err := s.TakePacking(ctx, 10, time.Nanosecond)
	require.NoError(t, err)
	require.Len(t, first, 1)
	second := taken(t, s)
	require.Equal(t, first, second, "the lease has ended")
	require.Empty(t, taken(t, s))
	require.NoError(t, s.SwitchPacked(ctx, first[0], 9), "the first switch succeeds")
	fixture.RequireCode(t, run.CodeConflict, s.SwitchPacked(ctx, second[0], 9))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 3}}, garbage(t, s))
}

// endedLog creates a finished run with a log of two batches.
func endedLog(t *testing.T, s records.Store) (run.ID, run.Key) {
	t.Helper()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 3, run.FrameStepEnd, run.FrameTaskEnd)))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true})
	return id, key
}

func testPackingSmall(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameTaskEnd)))
	require.Empty(t, taken(t, s))
	_, key = fixture.Running(t, s, fixture.OneTask("/a/b"))
	large := fixture.Batch(key, "x", 1, run.FrameOutput, run.FrameTaskEnd)
	large.Frames[0].Data = make([]byte, run.CompactThreshold+1)
	require.NoError(t, s.ApplyFrames(t.Context(), large))
	require.Len(t, taken(t, s), 1)
}

// testPackingLate packs the log of a failed dispatch, whose executor then sends
// more frames.
func testPackingLate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 2, run.FrameOutput)))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}})
	n, err := s.PackStale(ctx, fixture.Get(t, s, id).Tasks[0].EndedAt.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	leased := taken(t, s)[0]
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 3, run.FrameOutput)))
	require.NoError(t, s.SwitchPacked(ctx, leased, 5))
	require.Equal(t, []records.Batch{
		{Key: key, Source: key, First: 1, Last: 2, Packed: true, Bytes: 5}, {Key: key, Source: key, First: 3, Last: 3},
	}, fixture.Batches(t, s, id, 0, records.BatchRef{}))
	require.Empty(t, taken(t, s), "the log has not ended")
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 4, run.FrameTaskEnd)))
	again := taken(t, s)
	require.Len(t, again, 1)
	require.NoError(t, s.SwitchPacked(ctx, again[0], 6))
	require.Equal(t, []records.Batch{{Key: key, Source: key, First: 1, Last: 4, End: true, Packed: true, Bytes: 6}}, fixture.Batches(t, s, id, 0, records.BatchRef{}))
	require.ElementsMatch(t, []records.GarbageBatch{
		{Key: key, Frame: 1}, {Key: key, Frame: 2}, {Key: key, Frame: 2, Packed: true}, {Key: key, Frame: 3}, {Key: key, Frame: 4},
	}, garbage(t, s))
}

func testPackingKept(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	old, key := halfFailed(t, s)
	first := restarted(t, s, old.ID)
	require.NoError(t, s.CancelRun(ctx, first.ID, nil))
	second := restarted(t, s, first.ID)
	require.NoError(t, s.CancelRun(ctx, second.ID, nil))
	require.NoError(t, s.SwitchPacked(ctx, taken(t, s)[0], 50))
	third := restarted(t, s, second.ID)
	require.NoError(t, s.CancelRun(ctx, third.ID, nil))
	for _, id := range []run.ID{first.ID, second.ID, third.ID} {
		own := run.Key{Run: id, Attempt: 1, Dispatch: 1}
		require.Equal(t, []records.Batch{{Key: own, Source: key, First: 1, Last: 4, End: true, Packed: true, Bytes: 50}},
			fixture.Batches(t, s, id, 0, records.BatchRef{}))
	}
	garbage(t, s)
	for i, id := range []run.ID{old.ID, third.ID, first.ID, second.ID} {
		require.NoError(t, s.DeleteRun(ctx, id))
		left := garbage(t, s)
		if i < 3 {
			require.Empty(t, left)
			continue
		}
		require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 4, Packed: true}}, left)
	}
}

// testPackingDeleted deletes a run while its log is packed: the object that may
// have been written is recorded, and removed when the lease has ended.
func testPackingDeleted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	whole := func(key run.Key) []records.GarbageBatch {
		return []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 3}}
	}
	id, key := endedLog(t, s)
	log := taken(t, s)[0]
	require.NoError(t, s.DeleteRun(ctx, id))
	require.Equal(t, whole(key), garbage(t, s))
	fixture.RequireCode(t, run.CodeConflict, s.SwitchPacked(ctx, log, 9))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 4, Packed: true}}, garbage(t, s))
	fixture.RequireCode(t, run.CodeConflict, s.SwitchPacked(ctx, log, 9))
	require.Empty(t, garbage(t, s))

	id, key = endedLog(t, s)
	_, err := s.TakePacking(ctx, 1, time.Nanosecond) // by a process that died
	require.NoError(t, err)
	require.NoError(t, s.DeleteRun(ctx, id))
	require.Equal(t, whole(key), garbage(t, s))
	require.Empty(t, taken(t, s))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 4, Packed: true}}, garbage(t, s))

	id, key = endedLog(t, s)
	require.NoError(t, s.DeleteRun(ctx, id))
	require.Equal(t, whole(key), garbage(t, s))
	require.Empty(t, taken(t, s))
	require.Empty(t, garbage(t, s), "no process had begun to pack")
}

func testPackingRemoved(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 3, run.FrameOutput)))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("x")))
	_, err := s.RemoveExecutor(ctx, "x", run.Removal{Force: true, Reason: "it is gone"})
	require.NoError(t, err)
	logs := taken(t, s)
	require.Len(t, logs, 1)
	require.NoError(t, s.SwitchPacked(ctx, logs[0], 1))
	require.Equal(t, []records.Batch{{Key: key, Source: key, First: 1, Last: 3, Packed: true, Bytes: 1}}, fixture.Batches(t, s, id, 0, records.BatchRef{}))
}

func testPackingStale(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 2, run.FrameOutput)))
	stale := func(before time.Time) int {
		n, err := s.PackStale(ctx, before)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, stale(time.Now().Add(time.Hour)), "the task is running")
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	at := fixture.Get(t, s, id).Tasks[0].EndedAt
	require.Zero(t, stale(at.Add(-time.Hour)), "the rest of the log may still arrive")
	require.Equal(t, 1, stale(at.Add(time.Hour)))
	require.Len(t, taken(t, s), 1)

	_, key = fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 2, run.FrameOutput)))
	key.Dispatch = 2
	fixture.ClaimQueued(t, s, key)
	require.Equal(t, 1, stale(at.Add(-time.Hour)), "another dispatch has followed")
}

// testPackingAtOnce packs, restarts and deletes concurrently: in the end every
// piece of a log is referred to by a run, or garbage, and never both.
func testPackingAtOnce(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t), d.Store(t)}
	s := stores[0]
	for range 8 {
		old, key := halfFailed(t, s)
		first := restarted(t, s, old.ID)
		require.NoError(t, s.CancelRun(t.Context(), first.ID, nil))
		log := taken(t, s)[0]
		n := restartOf(t, s, first.ID)
		var second run.Run
		var group errgroup.Group
		group.Go(func() error {
			err := stores[0].SwitchPacked(t.Context(), log, 3)
			if run.CodeOf(err) == run.CodeConflict {
				return nil
			}
			return err
		})
		group.Go(func() error { return stores[1].DeleteRun(t.Context(), old.ID) })
		group.Go(func() (err error) {
			second, err = stores[2].CreateRun(t.Context(), n)
			return err
		})
		require.NoError(t, group.Wait())
		left := garbage(t, s)
		got := fixture.Batches(t, s, second.ID, 0, records.BatchRef{})
		own := run.Key{Run: second.ID, Attempt: 1, Dispatch: 1}
		if len(got) == 1 {
			require.Equal(t, []records.Batch{{Key: own, Source: key, First: 1, Last: 4, End: true, Packed: true, Bytes: 3}}, got)
			require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 4}}, left)
		} else {
			require.Len(t, got, 2)
			require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 4, Packed: true}}, left)
		}
		require.NoError(t, s.CancelRun(t.Context(), second.ID, nil))
		require.NoError(t, s.DeleteRun(t.Context(), first.ID))
		require.NoError(t, s.DeleteRun(t.Context(), second.ID))
		last := garbage(t, s)
		require.NotEmpty(t, last)
		require.NotContains(t, last, left[0])
		require.Empty(t, taken(t, s))
	}
}
