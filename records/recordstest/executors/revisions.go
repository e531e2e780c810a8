package executors

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// revisionNumbers returns the numbers of the revisions of a fleet, the current
// one first.
func revisionNumbers(t *testing.T, s records.Store) (numbers []int) {
	t.Helper()
	all, err := s.FleetRevisions(t.Context(), "linux")
	require.NoError(t, err)
	for _, r := range all {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

func withImage(name string) func(*run.FleetSpec) {
	return func(x *run.FleetSpec) { x.PluginConfig = json.RawMessage(`{"image":"` + name + `","token":"hidden"}`) }
}

func testRevisions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	f := putFleet(t, s, "linux", withImage("a"))
	require.Equal(t, 1, f.Revision)
	require.False(t, f.RolloutSince.IsZero())
	_, err := s.UndoFleet(t.Context(), "linux", run.FleetUndo{})
	require.Equal(t, run.CodeConflict, run.CodeOf(err), "there is no earlier revision")
	f = putFleet(t, s, "linux", func(x *run.FleetSpec) { withImage("a")(x); x.MaxInstances = 7 })
	require.Equal(t, 1, f.Revision, "the limit is no part of an instance")
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{ledgerRow(run.InstanceReady)}})
	require.NoError(t, err)

	f = putFleet(t, s, "linux", withImage("b"))
	require.Equal(t, 2, f.Revision)
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{ledgerRow(run.InstanceReady)}})
	require.NoError(t, err)
	instances, err := s.FleetInstances(t.Context(), "linux", false)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{instances[0].Revision, instances[1].Revision})
	all, err := s.FleetRevisions(t.Context(), "linux")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.JSONEq(t, `{"image":"b","token":"hidden"}`, string(all[0].Settings.PluginConfig))
	require.Equal(t, []any{1, "me", 1}, []any{all[1].Number, all[1].By, all[1].Instances})

	for _, number := range []int{2, 3} {
		_, err = s.UndoFleet(t.Context(), "linux", run.FleetUndo{Revision: number})
		require.Equal(t, map[int]run.Code{2: run.CodeConflict, 3: run.CodeNotFound}[number], run.CodeOf(err))
	}
	f, err = s.ControlFleet(t.Context(), "linux", run.FleetControl{Action: run.FleetActionPauseRollout, By: "me"})
	require.NoError(t, err)
	require.True(t, f.RolloutPaused)
	f, err = s.UndoFleet(t.Context(), "linux", run.FleetUndo{By: "you", Reason: "b does not boot"})
	require.NoError(t, err)
	require.Equal(t, 3, f.Revision)
	require.False(t, f.RolloutPaused)
	require.JSONEq(t, `{"image":"a","token":"hidden"}`, string(f.Spec.PluginConfig))
	require.Equal(t, []int{3, 2}, revisionNumbers(t, s), "revision 1 is revision 3 now")
	instances, err = s.FleetInstances(t.Context(), "linux", false)
	require.NoError(t, err)
	require.Equal(t, []int{3, 2}, []int{instances[0].Revision, instances[1].Revision}, "its instance stays")
	events, err := s.FleetEvents(t.Context(), "linux", -1, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"undo", "you", "revision 3 has the settings of revision 1: b does not boot"}, []string{events[0].Kind, events[0].By, events[0].Text})
	f = putFleet(t, s, "linux", withImage("b"))
	require.Equal(t, 4, f.Revision)
	require.Equal(t, []int{4, 3}, revisionNumbers(t, s), "settings of an earlier revision are that revision")

	for n := range run.KeptFleetRevisions + 2 {
		putFleet(t, s, "linux", withImage(fmt.Sprintf("n%d", n)))
	}
	require.Len(t, revisionNumbers(t, s), run.KeptFleetRevisions)

	// A resumed rollout begins again, for its failures.
	before, err := s.GetFleet(t.Context(), "linux")
	require.NoError(t, err)
	f, err = s.ControlFleet(t.Context(), "linux", run.FleetControl{Action: run.FleetActionResumeRollout, By: "me"})
	require.NoError(t, err)
	require.True(t, f.RolloutSince.After(before.RolloutSince))
	require.Equal(t, before.Revision, f.Revision)

	_, err = s.DeleteFleet(t.Context(), "linux", "me")
	require.NoError(t, err)
	_, err = s.UndoFleet(t.Context(), "linux", run.FleetUndo{})
	require.Equal(t, run.CodeConflict, run.CodeOf(err), "it is being deleted")
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	_, err = s.FleetRevisions(t.Context(), "linux")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	last := f.Revision
	f = putFleet(t, s, "linux", withImage("a"))
	require.Equal(t, last+1, f.Revision, "numbers continue")
	require.Equal(t, []int{f.Revision}, revisionNumbers(t, s), "the settings of the deleted fleet are removed")
}
