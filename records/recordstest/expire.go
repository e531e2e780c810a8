package recordstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func expireTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"oldest_first":       testExpireOldest,
		"kept_logs":          testExpireKept,
		"while_it_is_packed": testExpirePacking,
		"frames_too_late":    testExpireLate,
	}
}

// afterTest is a time after everything in a test.
func afterTest() time.Time { return time.Now().Add(time.Hour) }

func expireLogs(t *testing.T, s records.Store, before time.Time, n int) records.ExpiredLogs {
	t.Helper()
	out, err := s.ExpireLogs(t.Context(), before, n)
	require.NoError(t, err)
	return out
}

func expired(t *testing.T, s records.Store, id run.ID, task string) bool {
	t.Helper()
	got, err := s.GetTask(t.Context(), id, task)
	require.NoError(t, err)
	return got.LogsExpired
}

func testExpireOldest(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	open, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	var ids []run.ID
	for range 3 {
		id, _ := endedLog(t, s)
		ids = append(ids, id)
	}
	require.Zero(t, expireLogs(t, s, fixture.Get(t, s, ids[0]).EndedAt, 10))
	for _, log := range taken(t, s) {
		require.NoError(t, s.SwitchPacked(t.Context(), log, 100))
	}
	garbage(t, s)
	require.Equal(t, records.ExpiredLogs{Runs: 2, Bytes: 200}, expireLogs(t, s, afterTest(), 2))
	for i, id := range ids {
		require.Equal(t, i < 2, expired(t, s, id, "build"))
		require.Equal(t, i < 2, len(fixture.Batches(t, s, id, 0, records.BatchRef{})) == 0)
	}
	require.Len(t, garbage(t, s), 2)
	require.Equal(t, records.ExpiredLogs{Runs: 1, Bytes: 100}, expireLogs(t, s, afterTest(), 2))
	require.Zero(t, expireLogs(t, s, afterTest(), 2))
	require.Len(t, garbage(t, s), 1)
	require.False(t, expired(t, s, open, "build"))
	require.NoError(t, s.DeleteRun(t.Context(), ids[0]))
	require.Empty(t, garbage(t, s))
}

// testExpireKept removes a log that another run keeps, and restarts both runs:
// none of the runs has the log.
func testExpireKept(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	old, key := halfFailed(t, s)
	first := restarted(t, s, old.ID)
	require.False(t, expired(t, s, first.ID, "build"))
	require.Equal(t, 1, expireLogs(t, s, afterTest(), 1).Runs)
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 4}}, garbage(t, s))
	require.True(t, expired(t, s, old.ID, "build"))
	require.True(t, expired(t, s, first.ID, "build"), "the bytes are the first run's")
	require.False(t, expired(t, s, first.ID, "later"), "the task runs again")
	require.NoError(t, s.CancelRun(t.Context(), first.ID, nil))
	for _, of := range []run.ID{old.ID, first.ID} {
		again := restarted(t, s, of)
		require.True(t, expired(t, s, again.ID, "build"))
		require.False(t, expired(t, s, again.ID, "later"))
	}
}

// testExpirePacking removes a log while it is packed.
func testExpirePacking(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := endedLog(t, s)
	log := taken(t, s)[0]
	require.Equal(t, 1, expireLogs(t, s, afterTest(), 10).Runs)
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 3}}, garbage(t, s))
	fixture.RequireCode(t, run.CodeConflict, s.SwitchPacked(t.Context(), log, 9))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 4, Packed: true}}, garbage(t, s))
	require.True(t, expired(t, s, id, "build"))
	require.Empty(t, fixture.Batches(t, s, id, 0, records.BatchRef{}))
}

// testExpireLate appends the rest of a log that has expired: the store accepts
// it, so that its executor finishes, and discards it at once.
func testExpireLate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameOutput)))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	require.Equal(t, 1, expireLogs(t, s, afterTest(), 10).Runs)
	garbage(t, s)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 2, run.FrameOutput, run.FrameTaskEnd)))
	require.Empty(t, fixture.Batches(t, s, id, 0, records.BatchRef{}))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 2}}, garbage(t, s))
}
