package executors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// ForgetTests returns the tests of forgetting removed executors and gone
// instances, by name.
func ForgetTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"executors":                           testForgetExecutors,
		"in_batches":                          testForgetBatches,
		"not_with_an_open_claim":              testForgetClaim,
		"not_while_its_set_may_be_waited_for": testForgetSet,
		"not_with_its_instance":               testForgetInstance,
		"claims_stay_with_their_run":          testForgetKeepsClaims,
	}
}

func remove(t *testing.T, s records.Store, id string) {
	t.Helper()
	_, err := s.RemoveExecutor(t.Context(), id, run.Removal{Reason: "it burnt", Force: true})
	require.NoError(t, err)
}

// forget forgets the executors that were removed more than a week ago.
func forget(t *testing.T, s records.Store, d *fixture.Database, n int) int {
	t.Helper()
	removed, err := s.ForgetExecutors(t.Context(), d.Clock.Now().Add(-7*24*time.Hour), n)
	require.NoError(t, err)
	return removed
}

func testForgetExecutors(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, id := range []string{"alive", "old", "new"} {
		require.NoError(t, fixture.Register(t, s, fixture.Executor(id)))
	}
	remove(t, s, "old")
	d.Clock.Advance(8 * 24 * time.Hour)
	remove(t, s, "new")
	fixture.RequireCode(t, run.CodeForbidden, fixture.Register(t, s, fixture.Executor("old")))
	require.Equal(t, 1, forget(t, s, d, 10))
	require.Zero(t, forget(t, s, d, 10))
	_, err := s.GetExecutor(t.Context(), "old")
	fixture.RequireCode(t, run.CodeNotFound, err)
	for _, id := range []string{"alive", "new"} {
		_, err := s.GetExecutor(t.Context(), id)
		require.NoError(t, err, "%s is not removed, or not for long", id)
	}
	require.NoError(t, fixture.Register(t, s, fixture.Executor("old")), "its id can be used again")
}

func testForgetBatches(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, fixture.Register(t, s, fixture.Executor(id)))
		remove(t, s, id)
	}
	d.Clock.Advance(8 * 24 * time.Hour)
	require.Equal(t, 2, forget(t, s, d, 2))
	require.Equal(t, 1, forget(t, s, d, 2))
}

// A run that has a claim of the executor asks whether the executor was removed,
// also years later.
func testForgetClaim(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	id := fixture.CreateHeld(t, s, "a")
	remove(t, s, "a")
	d.Clock.Advance(2 * 365 * 24 * time.Hour)
	require.Zero(t, forget(t, s, d, 10))
	lost, err := s.LostExecutors(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "it burnt"}, lost)

	// Also if the task is queued again, because a workflow that is reset may have
	// forgotten that.
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 2, 1)}})
	require.Zero(t, forget(t, s, d, 10))

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 2, 1, run.StatusSkipped)}, Result: run.ResultFailed, Finish: true})
	require.Equal(t, 1, forget(t, s, d, 10))
}

// A run may wait for a member that has no claim, if it adopted the task of
// another member.
func testForgetSet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, fixture.Register(t, s, fixture.Member(id, "blue")))
	}
	held := func(executor string) run.ID {
		id := fixture.CreateHeld(t, s, "")
		_, err := s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: id, Attempt: 1, Dispatch: 1}, Executor: executor, Set: "blue", JournalID: "j"})
		require.NoError(t, err)
		return id
	}
	id := held("a")
	remove(t, s, "b")
	d.Clock.Advance(8 * 24 * time.Hour)
	require.Zero(t, forget(t, s, d, 10), "the run may wait for b")
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true})
	younger := held("c")
	require.Equal(t, 1, forget(t, s, d, 10), "the run of c began after b was removed")
	remove(t, s, "a")
	remove(t, s, "c")
	lost, err := s.LostExecutors(t.Context(), []string{"a", "c"})
	require.NoError(t, err)
	require.Len(t, lost, 2)
	require.False(t, fixture.Get(t, s, younger).Phase.Final())
}

func testForgetInstance(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	row := ledgerRow(run.InstanceReady)
	row.Instance = "vm-1"
	_, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{row}})
	require.NoError(t, err)
	require.NoError(t, fixture.Register(t, s, instanceOf("a", "linux", "vm-1")))
	remove(t, s, "a")
	d.Clock.Advance(8 * 24 * time.Hour)
	require.Zero(t, forget(t, s, d, 10), "its instance exists")

	row.Number, row.From, row.State, row.GoneAt = 1, run.InstanceReady, run.InstanceGone, d.Clock.Now()
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Set: []records.LedgerChange{row}})
	require.NoError(t, err)
	require.Equal(t, 1, forget(t, s, d, 10))
	gone, err := s.ForgetInstances(t.Context(), d.Clock.Now().Add(-time.Hour), 10)
	require.NoError(t, err)
	require.Zero(t, gone, "it is not gone for long")
	d.Clock.Advance(2 * time.Hour)
	gone, err = s.ForgetInstances(t.Context(), d.Clock.Now().Add(-time.Hour), 10)
	require.NoError(t, err)
	require.Equal(t, 1, gone)
	list, err := s.FleetInstances(t.Context(), "linux", true)
	require.NoError(t, err)
	require.Empty(t, list)

	next := ledgerRow(run.InstanceReady)
	next.Instance = "vm-1"
	numbers, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{next}})
	require.NoError(t, err)
	require.Equal(t, []int{2}, numbers, "a number is not used again")
}

// The claims of a final run stay: only they tell an executor that comes back that
// its claim is closed, and refuse others. They go with the run.
func testForgetKeepsClaims(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	id := fixture.CreateHeld(t, s, "a")
	key := run.Key{Run: id, Attempt: 1, Dispatch: 1}
	remove(t, s, "a")
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	d.Clock.Advance(8 * 24 * time.Hour)
	require.Equal(t, 1, forget(t, s, d, 10))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	states, err := s.ClaimStates(t.Context(), "a", []run.Key{key})
	require.NoError(t, err)
	require.Equal(t, run.ClaimClosed, states[key])
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "b", JournalID: "j", SpecVersion: run.NewestSpecVersion})
	fixture.RequireCode(t, run.CodeConflict, err)

	require.NoError(t, s.DeleteRun(t.Context(), id))
	states, err = s.ClaimStates(t.Context(), "a", []run.Key{key})
	require.NoError(t, err)
	require.Equal(t, run.ClaimUnknown, states[key])
}
