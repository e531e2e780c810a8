package executors

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// RemovedTests returns the tests of calls of removed executors, by name.
func RemovedTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"calls_are_refused":        testRemovedCalls,
		"nothing_is_written_after": testRemovedRace,
	}
}

// executorCalls returns all calls of the store on behalf of an executor, which
// has claimed the key.
func executorCalls(t *testing.T, s records.Store, e run.Executor, key run.Key) map[string]func() error {
	t.Helper()
	ctx := t.Context()
	c := records.ArchiveClaim{Key: key, Executor: e.ID}
	return map[string]func() error{
		"RegisterExecutor": func() error { return fixture.Register(t, s, e) },
		"RenewExecutor":    func() error { return fixture.Renew(t, s, run.Renewal{Executor: e.ID, JournalID: e.JournalID}) },
		"Claim": func() error {
			_, err := s.Claim(ctx, run.ClaimRequest{Key: key, Executor: e.ID, JournalID: e.JournalID, SpecVersion: run.NewestSpecVersion})
			return err
		},
		"Claim, repeated": func() error {
			_, err := s.Claim(ctx, run.ClaimRequest{Key: key, Executor: e.ID, JournalID: e.JournalID, SpecVersion: run.NewestSpecVersion, ReclaimOnly: true})
			return err
		},
		"ClaimStates": func() error { _, err := s.ClaimStates(ctx, e.ID, []run.Key{key}); return err },
		"ApplyFrames": func() error {
			return s.ApplyFrames(ctx, fixture.Batch(key, e.ID, 1, run.FrameStepStart, run.FrameOutputs))
		},
		"ArchivePlace": func() error { _, err := s.ArchiveContext(ctx, c); return err },
		"SavedArchive": func() error { _, err := s.SavedArchive(ctx, c, "", ""); return err },
		"FindCache":    func() error { _, err := s.FindCache(ctx, c, []string{"/a/b"}, []string{"k"}); return err },
		"Workspaces":   func() error { _, err := s.Workspaces(ctx, c); return err },
		"CommitArchive": func() error {
			if err := s.PutObject(ctx, "object", fixture.Lease); err != nil {
				return err
			}
			_, err := s.CommitArchive(ctx, c, fixture.Workspace("object", 1))
			return err
		},
		"MayRead": func() error {
			err := s.CheckObjectAccess(ctx, c, "object")
			if run.CodeOf(err) == run.CodeGone { // it was not committed yet
				err = nil
			}
			return err
		},
	}
}

func testRemovedCalls(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	e := fixture.Executor("a")
	require.NoError(t, fixture.Register(t, s, e))
	r := fixture.Create(t, s, fixture.Pipeline())
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: e.ID, JournalID: e.JournalID, SpecVersion: run.NewestSpecVersion})
	require.NoError(t, err)
	_, err = s.RemoveExecutor(t.Context(), e.ID, run.Removal{Force: true})
	require.NoError(t, err)
	before := fixture.Get(t, s, r.ID)
	for name, call := range executorCalls(t, s, e, key) {
		require.Equal(t, run.CodeForbidden, run.CodeOf(call()), name)
	}
	require.Equal(t, before, fixture.Get(t, s, r.ID))
	require.Empty(t, fixture.Batches(t, s, r.ID, 0, records.BatchRef{}))

	other := fixture.Executor("b")
	require.NoError(t, fixture.Register(t, s, other))
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 2)}})
	key.Dispatch = 2
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: other.ID, JournalID: other.JournalID, SpecVersion: run.NewestSpecVersion})
	require.NoError(t, err)
	for name, call := range executorCalls(t, s, other, key) {
		require.NoError(t, call(), name)
	}
}

// testRemovedRace removes executors while they send frames: nothing is stored
// after the removal has returned.
func testRemovedRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	const rounds = 10
	for range rounds {
		r := fixture.Create(t, s, fixture.OneTask("/a/b"))
		fixture.Begin(t, s, r.ID)
		fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
		e := fixture.Executor("x-" + string(r.ID))
		require.NoError(t, fixture.Register(t, s, e))
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
		_, err := s.Claim(ctx, run.ClaimRequest{Key: key, Executor: e.ID, JournalID: e.JournalID})
		require.NoError(t, err)
		var sending sync.WaitGroup
		var stored atomic.Int64
		var removed atomic.Bool
		var last error
		sending.Go(func() {
			const more = 20 // batches after the removal, if none is refused
			for n, end := int64(1), int64(0); last == nil && (end == 0 || n < end); n++ {
				if removed.Load() && end == 0 {
					end = n + more
				}
				if last = s.ApplyFrames(ctx, fixture.Batch(key, e.ID, n, run.FrameOutput)); last == nil {
					stored.Store(n)
				}
			}
		})
		testenv.Await(t, func() (bool, string) { return stored.Load() > 2, "frames are not stored" })
		_, err = s.RemoveExecutor(ctx, e.ID, run.Removal{Force: true})
		require.NoError(t, err)
		then := fixture.Batches(t, s, r.ID, 0, records.BatchRef{})
		removed.Store(true)
		sending.Wait()
		fixture.RequireCode(t, run.CodeForbidden, last)
		require.Equal(t, then, fixture.Batches(t, s, r.ID, 0, records.BatchRef{}))
	}
}
