package executors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// ContactTests returns the tests of executors out of contact, by name.
func ContactTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"output_shows_it":             testContactByOutput,
		"steps_show_it":               testContactBySteps,
		"a_repeated_claim_shows_it":   testContactByClaim,
		"an_old_dispatch_shows_none":  testContactOldDispatch,
		"the_end_keeps_its_reason":    testContactEnded,
		"a_batch_known_shows_nothing": testContactKnown,
	}
}

// outOfContact returns a run whose only task has an executor out of contact.
func outOfContact(t *testing.T, s records.Store) (run.ID, run.Key) {
	t.Helper()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart)))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Reason: "executor x out of contact"},
	}})
	require.Equal(t, "executor x out of contact", fixture.Get(t, s, id).Tasks[0].Reason)
	return id, key
}

// requireContact checks that show changes nothing but the reason, that readers
// get one event about it, and that the next contact changes nothing.
func requireContact(t *testing.T, s records.Store, before run.Run, show func()) {
	t.Helper()
	last, err := s.LastEvent(t.Context())
	require.NoError(t, err)
	show()
	after := fixture.Get(t, s, before.ID)
	require.Greater(t, after.Version, before.Version)
	before.Tasks[0].Reason, before.Version = "", after.Version
	require.Equal(t, before, after)
	fixture.AwaitEvent(t, s, last+1)
	events := fixture.ReadAll(t, s, run.EventQuery{After: last})
	require.Equal(t, []any{run.EventTask, run.StatusRunning, "", "x"},
		[]any{events[0].Type, events[0].Status, events[0].Reason, events[0].Executor})
}

func testContactByOutput(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := outOfContact(t, s)
	before := fixture.Get(t, s, id)
	fixture.AwaitEvent(t, s, 6)
	requireContact(t, s, before, func() { require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 2, run.FrameOutput))) })
	after := fixture.Get(t, s, id)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 3, run.FrameOutput)))
	require.Equal(t, after, fixture.Get(t, s, id))
	fixture.AwaitEvent(t, s, 7)
}

func testContactBySteps(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := outOfContact(t, s)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 2, run.FrameStepEnd)))
	task := fixture.Get(t, s, id).Tasks[0]
	require.Empty(t, task.Reason)
	require.Equal(t, run.StatusSuccess, task.Steps[0].Status)
	fixture.AwaitEvent(t, s, 7)
}

func testContactByClaim(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := outOfContact(t, s)
	fixture.AwaitEvent(t, s, 6)
	requireContact(t, s, fixture.Get(t, s, id), func() { fixture.Claim(t, s, key) })
	after := fixture.Get(t, s, id)
	fixture.Claim(t, s, key)
	require.Equal(t, after, fixture.Get(t, s, id))
	fixture.AwaitEvent(t, s, 7)
}

func testContactOldDispatch(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := outOfContact(t, s)
	next := key
	next.Dispatch++
	fixture.ClaimQueued(t, s, next)
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 2, Status: run.StatusRunning, Reason: "executor x out of contact"},
	}})
	before := fixture.Get(t, s, id)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 2, run.FrameOutput)))
	require.Equal(t, before, fixture.Get(t, s, id))
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"})
	fixture.RequireCode(t, run.CodeClaimed, err)
	require.Equal(t, before, fixture.Get(t, s, id))
}

func testContactEnded(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := outOfContact(t, s)
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusFailed, Reason: "executor x was removed"},
	}})
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 2, run.FrameOutput, run.FrameTaskEnd)))
	require.Equal(t, "executor x was removed", fixture.Get(t, s, id).Tasks[0].Reason)
}

func testContactKnown(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := outOfContact(t, s)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart)), "a repeated batch may have been delayed")
	require.Equal(t, "executor x out of contact", fixture.Get(t, s, id).Tasks[0].Reason)
}
