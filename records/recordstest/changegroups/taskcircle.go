package changegroups

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// mixed returns the specification of a run that names groups itself, and others for its task.
func mixed(ofRun string, ofTask ...run.TaskChangeGroup) *run.Spec {
	spec := locking(3, ofTask...)
	spec.ChangeGroups = []string{ofRun}
	return spec
}

// requireCircle checks that a run is refused that an open one could wait for.
func requireCircle(t *testing.T, s records.Store, spec *run.Spec, group string, other run.ID) {
	t.Helper()
	_, err := s.CreateRun(t.Context(), fixture.NewRun(t, spec))
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
	require.ErrorContains(t, err, "change group "+group)
	require.ErrorContains(t, err, "run "+string(other))
	n := fixture.NewRun(t, spec)
	_, err = s.CreateRun(run.HideOthers(t.Context()), n)
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
	require.NotContains(t, err.Error(), string(other), "the caller may not know of other runs")
}

// testTaskSlotsCircle refuses runs that would wait for each other's tasks for ever, and no
// others.
func testTaskSlotsCircle(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	first := begun(t, s, mixed("a", one("b")))
	second := begun(t, s, mixed("a", one("b")))
	requireCircle(t, s, mixed("b", one("c")), "b", first)
	requireCircle(t, s, mixed("c", one("a")), "a", first)
	requireCircle(t, s, locking(3, one("a")), "a", first)
	requireCircle(t, s, locking(3, one("b"), one("a")), "a", first)
	fixture.Create(t, s, fixture.Grouped(3, "a", "b"))
	plain := begun(t, s, locking(3, one("b")))
	await(t, s, first)
	endTask(t, s, first, run.StatusSuccess)
	requireCircle(t, s, mixed("b", one("a")), "a", second)
	require.NoError(t, s.CloseLost(t.Context(), second, "lost"))
	requireCircle(t, s, mixed("b", one("a")), "b", plain)
	await(t, s, plain)
	endTask(t, s, plain, run.StatusSuccess)
	third := fixture.Create(t, s, mixed("b", one("a"))).ID
	requireCircle(t, s, mixed("a", one("b")), "b", third)
	require.NoError(t, s.CancelRun(t.Context(), third, nil))
	fixture.Create(t, s, mixed("a", one("b")))
}

// testTaskSlotsCircleManual checks runs of manual admission when they are started: one that
// was not started is in no other's way.
func testTaskSlotsCircleManual(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := mixed("a", one("b"))
	spec.Admission = run.AdmissionManual
	waits := fixture.Create(t, s, spec).ID
	other := begun(t, s, locking(3, one("a")))
	err := s.StartRun(t.Context(), waits, nil)
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
	require.ErrorContains(t, err, "run "+string(other))
	require.Equal(t, run.PhaseQueued, fixture.Get(t, s, waits).Phase)
	fixture.Create(t, s, spec)
	await(t, s, other)
	endTask(t, s, other, run.StatusSuccess)
	require.NoError(t, s.StartRun(t.Context(), waits, nil))
	requireCircle(t, s, locking(3, one("a")), "a", waits)
}
