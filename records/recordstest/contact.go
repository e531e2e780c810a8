package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func contactTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
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
	id, key := running(t, s, oneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 1, run.FrameStepStart)))
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Reason: "executor x out of contact"},
	}})
	require.Equal(t, "executor x out of contact", get(t, s, id).Tasks[0].Reason)
	return id, key
}

// requireContact checks that show changes nothing but the reason, that readers
// get one event about it, and that the next contact changes nothing.
func requireContact(t *testing.T, s records.Store, before run.Run, show func()) {
	t.Helper()
	last, err := s.LastEvent(t.Context())
	require.NoError(t, err)
	show()
	after := get(t, s, before.ID)
	require.Greater(t, after.Version, before.Version)
	before.Tasks[0].Reason, before.Version = "", after.Version
	require.Equal(t, before, after)
	lastEvent(t, s, last+1)
	events := readAll(t, s, run.EventQuery{After: last})
	require.Equal(t, []any{run.EventTask, run.StatusRunning, "", "x"},
		[]any{events[0].Type, events[0].Status, events[0].Reason, events[0].Executor})
}

func testContactByOutput(t *testing.T, d *database) {
	s := d.store(t)
	id, key := outOfContact(t, s)
	before := get(t, s, id)
	lastEvent(t, s, 5)
	requireContact(t, s, before, func() { require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 2, run.FrameOutput))) })
	after := get(t, s, id)
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 3, run.FrameOutput)))
	require.Equal(t, after, get(t, s, id))
	lastEvent(t, s, 6)
}

func testContactBySteps(t *testing.T, d *database) {
	s := d.store(t)
	id, key := outOfContact(t, s)
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 2, run.FrameStepEnd)))
	task := get(t, s, id).Tasks[0]
	require.Empty(t, task.Reason)
	require.Equal(t, run.StatusSuccess, task.Steps[0].Status)
	lastEvent(t, s, 6)
}

func testContactByClaim(t *testing.T, d *database) {
	s := d.store(t)
	id, key := outOfContact(t, s)
	lastEvent(t, s, 5)
	requireContact(t, s, get(t, s, id), func() { claim(t, s, key) })
	after := get(t, s, id)
	claim(t, s, key)
	require.Equal(t, after, get(t, s, id))
	lastEvent(t, s, 6)
}

func testContactOldDispatch(t *testing.T, d *database) {
	s := d.store(t)
	id, key := outOfContact(t, s)
	next := key
	next.Dispatch++
	claimQueued(t, s, next)
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 2, Status: run.StatusRunning, Reason: "executor x out of contact"},
	}})
	before := get(t, s, id)
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 2, run.FrameOutput)))
	require.Equal(t, before, get(t, s, id))
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"})
	requireCode(t, run.CodeClaimed, err)
	require.Equal(t, before, get(t, s, id))
}

func testContactEnded(t *testing.T, d *database) {
	s := d.store(t)
	id, key := outOfContact(t, s)
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusFailed, Reason: "executor x was removed"},
	}})
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 2, run.FrameOutput, run.FrameTaskEnd)))
	require.Equal(t, "executor x was removed", get(t, s, id).Tasks[0].Reason)
}

func testContactKnown(t *testing.T, d *database) {
	s := d.store(t)
	id, key := outOfContact(t, s)
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 1, run.FrameStepStart)), "a repeated batch may have been delayed")
	require.Equal(t, "executor x out of contact", get(t, s, id).Tasks[0].Reason)
}
