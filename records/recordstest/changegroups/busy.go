package changegroups

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func testGroupReject(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyReject)
	a := fixture.Create(t, s, fixture.Grouped(3, "g"))
	_, err := s.CreateRun(t.Context(), fixture.NewRun(t, fixture.Grouped(3, "g")))
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
	page, err := s.ListRuns(t.Context(), run.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1, "nothing is stored")
	spec := fixture.Grouped(3, "g")
	spec.Admission = run.AdmissionManual
	notStarted := fixture.Create(t, s, spec)
	fixture.RequireCode(t, run.CodeChangeGroupBusy, s.StartRun(t.Context(), notStarted.ID, nil))
	fixture.Finish(t, s, a.ID)
	require.NoError(t, s.StartRun(t.Context(), notStarted.ID, nil))
}

func testGroupCancelQueued(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyCancelQueued)
	a := fixture.Create(t, s, fixture.Grouped(3, "g"))
	b := fixture.Create(t, s, fixture.Grouped(3, "g", "h"))
	c := fixture.Create(t, s, fixture.Grouped(3, "g"))
	running, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{a.ID}, running)
	require.Equal(t, []run.ID{c.ID}, waiting, "only the newest run waits")
	got := fixture.Get(t, s, b.ID)
	require.Equal(t, run.PhaseCancelled, got.Phase)
	require.Contains(t, got.Reason, string(c.ID))
	_, waiting = members(t, s, "h")
	require.Empty(t, waiting)
	fixture.Finish(t, s, a.ID)
	require.Equal(t, []run.ID{c.ID}, grantAll(t, s))
}

func testGroupStopRunning(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 2, run.OnBusyStopRunning)
	a, b := fixture.Create(t, s, fixture.Grouped(3, "g")), fixture.Create(t, s, fixture.Grouped(3, "g"))
	fixture.Begin(t, s, a.ID)
	fixture.Begin(t, s, b.ID)
	c := fixture.Create(t, s, fixture.Grouped(3, "g"))
	status, err := s.Begin(t.Context(), a.ID)
	require.NoError(t, err)
	require.True(t, status.StopRequested, "the run that has held its slot the longest is stopped")
	require.Contains(t, fixture.Get(t, s, a.ID).Reason, string(c.ID))
	status, err = s.Begin(t.Context(), b.ID)
	require.NoError(t, err)
	require.False(t, status.StopRequested)
	_, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{c.ID}, waiting, "the new run waits until the stopped one has ended")
	fixture.Finish(t, s, a.ID)
	require.Equal(t, []run.ID{c.ID}, grantAll(t, s))

	// One more run is stopped for the next run, and none again for the same
	// run.
	e := fixture.Create(t, s, fixture.Grouped(3, "g"))
	for id, desired := range map[run.ID]bool{b.ID: true, c.ID: false} {
		status, err = s.Begin(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, desired, status.StopRequested)
	}
	fixture.Limit(t, s, "g", 2, run.OnBusyQueue)
	f := fixture.Create(t, s, fixture.Grouped(3, "g"))
	fixture.Limit(t, s, "g", 2, run.OnBusyStopRunning)
	h := fixture.Create(t, s, fixture.Grouped(3, "g")) // all runs that can be stopped are stopping: h waits behind e and f
	fixture.Finish(t, s, b.ID)
	require.Equal(t, []run.ID{e.ID}, grantAll(t, s))
	status, err = s.Begin(t.Context(), c.ID)
	require.NoError(t, err)
	require.True(t, status.StopRequested)
	fixture.Finish(t, s, c.ID)
	require.Equal(t, []run.ID{f.ID}, grantAll(t, s))
	fixture.Finish(t, s, e.ID)
	require.Equal(t, []run.ID{h.ID}, grantAll(t, s))
}

// testGroupStopNotBegun checks that a run that has a slot and has not begun is
// cancelled instead of stopped, and that the new run is admitted at once.
func testGroupStopNotBegun(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyStopRunning)
	a, b := fixture.Create(t, s, fixture.Grouped(3, "g")), fixture.Create(t, s, fixture.Grouped(3, "g"))
	got := fixture.Get(t, s, a.ID)
	require.Equal(t, run.PhaseCancelled, got.Phase)
	require.Contains(t, got.Reason, string(b.ID))
	require.Equal(t, map[run.Status]int{run.StatusCancelled: 1}, got.TaskCounts)
	running, queued := members(t, s, "g")
	require.Equal(t, []run.ID{b.ID}, running)
	require.Empty(t, queued)
	fixture.Begin(t, s, b.ID)
	require.ElementsMatch(t, []records.OutboxKind{records.OutboxStart, records.OutboxCancel, records.OutboxStart}, fixture.Drain(t, s))
}

// testGroupStopSecondGroup checks that a run preempted in one group frees its
// slot in another group too, so that no second run is preempted there.
func testGroupStopSecondGroup(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyStopRunning)
	fixture.Limit(t, s, "h", 2, run.OnBusyStopRunning)
	both, other := fixture.Create(t, s, fixture.Grouped(3, "g", "h")), fixture.Create(t, s, fixture.Grouped(3, "h"))
	c := fixture.Create(t, s, fixture.Grouped(3, "h", "g"))
	require.Equal(t, run.PhaseCancelled, fixture.Get(t, s, both.ID).Phase)
	require.Equal(t, run.PhaseQueued, fixture.Get(t, s, other.ID).Phase)
	running, _ := members(t, s, "h")
	require.Equal(t, []run.ID{other.ID, c.ID}, running)
}

// testGroupRejectFirst checks that a run rejected by one group preempts no run
// in another.
func testGroupRejectFirst(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyStopRunning)
	fixture.Limit(t, s, "h", 1, run.OnBusyReject)
	a := fixture.Create(t, s, fixture.Grouped(3, "g", "h"))
	_, err := s.CreateRun(t.Context(), fixture.NewRun(t, fixture.Grouped(3, "g", "h")))
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
	require.ErrorContains(t, err, "change group h is busy: 1 of 1 slots are held")
	require.Equal(t, run.PhaseQueued, fixture.Get(t, s, a.ID).Phase)
}

func testGroupCancelMany(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a := fixture.Create(t, s, fixture.Grouped(3, "g"))
	for range 250 {
		fixture.Create(t, s, fixture.Grouped(3, "g"))
	}
	fixture.Limit(t, s, "g", 1, run.OnBusyCancelQueued)
	c := fixture.Create(t, s, fixture.Grouped(5, "g"))
	running, queued := members(t, s, "g")
	require.Equal(t, []run.ID{a.ID}, running)
	require.Equal(t, []run.ID{c.ID}, queued, "all others are cancelled, regardless of their priority")
}
