package executors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// MembershipTests returns the tests of instances of fleets, by name.
func MembershipTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"is_kept":                   testMembershipKept,
		"is_of_one_instance":        testMembershipOne,
		"does_not_follow_labels":    testMembershipLabels,
		"tokens_end_with_instances": testMembershipTokens,
	}
}

// instanceOf returns an executor that is an instance of a fleet, with labels
// that name it.
func instanceOf(id, fleet, instance string) run.Executor {
	e := fixture.Executor(id)
	e.Fleet, e.Instance, e.Temporary = fleet, instance, true
	e.Labels = map[string]string{run.LabelFleet: fleet, run.LabelInstance: instance}
	return e
}

// testMembershipKept registers an instance of a fleet again as an executor of
// no fleet: it stays that instance, with its uses, its bound and its end.
func testMembershipKept(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", func(x *run.FleetSpec) { x.MaxUseCount = 2 })
	e := instanceOf("a", "linux", "vm-1")
	require.NoError(t, fixture.Register(t, s, e))
	id := fixture.CreateHeld(t, s, "a", "")
	plain := fixture.Executor("a")
	require.NoError(t, fixture.Register(t, s, plain))
	got, err := s.GetExecutor(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []any{"linux", "vm-1", 1, 2, true}, []any{got.Fleet, got.Instance, got.Uses, got.MaxUses, got.Temporary})
	v, err := s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Len(t, v.Executors, 1)
	key := run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "a", JournalID: "j-a"})
	require.NoError(t, err)
	third := fixture.CreateHeld(t, s, "")
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: third, Attempt: 1, Dispatch: 1}, Executor: "a", JournalID: "j-a"})
	fixture.RequireCode(t, run.CodeConflict, err)
}

// testMembershipOne checks that an executor becomes another instance only once
// its own is gone, and changes pools only with its fleet.
func testMembershipOne(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	putFleet(t, s, "other", nil)
	row := ledgerRow(run.InstanceReady)
	row.Instance = "vm-1"
	_, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{row}})
	require.NoError(t, err)
	require.NoError(t, fixture.Register(t, s, instanceOf("a", "linux", "vm-1")))
	fixture.RequireCode(t, run.CodeConflict, fixture.Register(t, s, instanceOf("a", "linux", "vm-2")))
	fixture.RequireCode(t, run.CodeConflict, fixture.Register(t, s, instanceOf("a", "other", "vm-1")))
	elsewhere := instanceOf("a", "linux", "vm-1")
	elsewhere.Pool = "elsewhere"
	fixture.RequireCode(t, run.CodeConflict, fixture.Register(t, s, elsewhere))

	row.Number, row.From, row.State = 1, run.InstanceReady, run.InstanceGone
	numbers, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Set: []records.LedgerChange{row}})
	require.NoError(t, err)
	require.Len(t, numbers, 1)
	require.NoError(t, fixture.Register(t, s, instanceOf("a", "other", "vm-2")))
	e, err := s.GetExecutor(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []string{"other", "vm-2"}, []string{e.Fleet, e.Instance})

	_, err = s.DeleteFleet(t.Context(), "other", "me")
	require.NoError(t, err)
	_, err = s.ChangeFleet(t.Context(), "other", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	e, err = s.GetExecutor(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, e.Fleet, "the fleet was deleted")
}

// testMembershipLabels registers executors whose labels name a fleet that their
// tokens do not prove.
func testMembershipLabels(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	e := instanceOf("a", "linux", "vm-1")
	e.Fleet, e.Instance = "", ""
	fixture.RequireCode(t, run.CodeInvalid, fixture.Register(t, s, e))
	_, err := s.GetExecutor(t.Context(), "a")
	fixture.RequireCode(t, run.CodeNotFound, err)

	require.NoError(t, fixture.Register(t, s, instanceOf("a", "linux", "vm-1")))
	require.NoError(t, fixture.Register(t, s, e), "a token of an older version, of an executor that is registered as the instance")
	got, err := s.GetExecutor(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []string{"linux", "vm-1"}, []string{got.Fleet, got.Instance})
}

// testMembershipTokens checks in each state of an instance whether its executor
// gets a new token.
func testMembershipTokens(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	renewed := func() run.DesiredState {
		t.Helper()
		w, err := s.RenewExecutor(t.Context(), run.Renewal{Executor: "a", JournalID: "j-a", Expiring: true})
		require.NoError(t, err)
		return w
	}
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	require.Equal(t, run.DesiredState{}, renewed(), "the executor is of no fleet")
	require.NoError(t, fixture.Register(t, s, instanceOf("a", "linux", "vm-1")))
	require.Equal(t, run.DesiredState{Fleet: "linux", Instance: "vm-1", Gone: true}, renewed(), "the ledger has no such instance")
	row := ledgerRow(run.InstanceCreating)
	row.Instance = "vm-1"
	_, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{row}})
	require.NoError(t, err)
	row.Number, row.From = 1, run.InstanceCreating
	for _, c := range []struct {
		state run.InstanceState
		gone  bool
	}{
		{run.InstanceCreating, false},
		{run.InstanceBootstrapping, false},
		{run.InstanceReady, false},
		{run.InstanceDraining, false},
		{run.InstanceDeleting, true},
		{run.InstanceGone, true},
	} {
		row.State = c.state
		numbers, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Set: []records.LedgerChange{row}})
		require.NoError(t, err)
		require.Len(t, numbers, 1)
		require.Equal(t, run.DesiredState{Fleet: "linux", Instance: "vm-1", Gone: c.gone}, renewed(), c.state)
		row.From = c.state
	}
}
