package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func testGroupReject(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyReject)
	a := create(t, s, grouped(3, "g"))
	_, err := s.CreateRun(t.Context(), newRun(t, grouped(3, "g")))
	requireCode(t, run.CodeChangeGroupBusy, err)
	page, err := s.ListRuns(t.Context(), run.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1, "nothing is stored")
	spec := grouped(3, "g")
	spec.Admission = run.AdmissionManual
	parked := create(t, s, spec)
	requireCode(t, run.CodeChangeGroupBusy, s.StartRun(t.Context(), parked.ID, nil))
	finish(t, s, a.ID)
	require.NoError(t, s.StartRun(t.Context(), parked.ID, nil))
}

func testGroupCancelQueued(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyCancelQueued)
	a := create(t, s, grouped(3, "g"))
	b := create(t, s, grouped(3, "g", "h"))
	c := create(t, s, grouped(3, "g"))
	running, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{a.ID}, running)
	require.Equal(t, []run.ID{c.ID}, waiting, "only the newest run waits")
	got := get(t, s, b.ID)
	require.Equal(t, run.PhaseCancelled, got.Phase)
	require.Contains(t, got.Reason, string(c.ID))
	_, waiting = members(t, s, "h")
	require.Empty(t, waiting)
	finish(t, s, a.ID)
	require.Equal(t, []run.ID{c.ID}, grantAll(t, s))
}

func testGroupStopRunning(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 2, run.OnBusyStopRunning)
	a, b := create(t, s, grouped(3, "g")), create(t, s, grouped(3, "g"))
	begin(t, s, a.ID)
	begin(t, s, b.ID)
	c := create(t, s, grouped(3, "g"))
	status, err := s.Begin(t.Context(), a.ID)
	require.NoError(t, err)
	require.True(t, status.StopRequested, "the run that has held its slot the longest is stopped")
	require.Contains(t, get(t, s, a.ID).Reason, string(c.ID))
	status, err = s.Begin(t.Context(), b.ID)
	require.NoError(t, err)
	require.False(t, status.StopRequested)
	_, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{c.ID}, waiting, "the new run waits until the stopped one has ended")
	finish(t, s, a.ID)
	require.Equal(t, []run.ID{c.ID}, grantAll(t, s))

	// One more run is stopped for the next run, and none again for the same
	// run.
	e := create(t, s, grouped(3, "g"))
	for id, desired := range map[run.ID]bool{b.ID: true, c.ID: false} {
		status, err = s.Begin(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, desired, status.StopRequested)
	}
	limit(t, s, "g", 2, run.OnBusyQueue)
	f := create(t, s, grouped(3, "g"))
	limit(t, s, "g", 2, run.OnBusyStopRunning)
	h := create(t, s, grouped(3, "g")) // all runs that can be stopped are stopping: h waits behind e and f
	finish(t, s, b.ID)
	require.Equal(t, []run.ID{e.ID}, grantAll(t, s))
	status, err = s.Begin(t.Context(), c.ID)
	require.NoError(t, err)
	require.True(t, status.StopRequested)
	finish(t, s, c.ID)
	require.Equal(t, []run.ID{f.ID}, grantAll(t, s))
	finish(t, s, e.ID)
	require.Equal(t, []run.ID{h.ID}, grantAll(t, s))
}

// testGroupStopNotBegun checks that a run that has a slot and has not begun is
// cancelled instead of stopped, and that the new run is admitted at once.
func testGroupStopNotBegun(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyStopRunning)
	a, b := create(t, s, grouped(3, "g")), create(t, s, grouped(3, "g"))
	got := get(t, s, a.ID)
	require.Equal(t, run.PhaseCancelled, got.Phase)
	require.Contains(t, got.Reason, string(b.ID))
	require.Equal(t, map[run.Status]int{run.StatusCancelled: 1}, got.TaskCounts)
	running, queued := members(t, s, "g")
	require.Equal(t, []run.ID{b.ID}, running)
	require.Empty(t, queued)
	begin(t, s, b.ID)
	require.ElementsMatch(t, []records.OutboxKind{records.OutboxStart, records.OutboxCancel, records.OutboxStart}, drain(t, s))
}

// testGroupStopSecondGroup checks that a run preempted in one group frees its
// slot in another group too, so that no second run is preempted there.
func testGroupStopSecondGroup(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyStopRunning)
	limit(t, s, "h", 2, run.OnBusyStopRunning)
	both, other := create(t, s, grouped(3, "g", "h")), create(t, s, grouped(3, "h"))
	c := create(t, s, grouped(3, "h", "g"))
	require.Equal(t, run.PhaseCancelled, get(t, s, both.ID).Phase)
	require.Equal(t, run.PhaseQueued, get(t, s, other.ID).Phase)
	running, _ := members(t, s, "h")
	require.Equal(t, []run.ID{other.ID, c.ID}, running)
}

// testGroupRejectFirst checks that a run rejected by one group preempts no run
// in another.
func testGroupRejectFirst(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyStopRunning)
	limit(t, s, "h", 1, run.OnBusyReject)
	a := create(t, s, grouped(3, "g", "h"))
	_, err := s.CreateRun(t.Context(), newRun(t, grouped(3, "g", "h")))
	requireCode(t, run.CodeChangeGroupBusy, err)
	require.ErrorContains(t, err, "change group h is busy: 1 of 1 slots are held")
	require.Equal(t, run.PhaseQueued, get(t, s, a.ID).Phase)
}

func testGroupCancelMany(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	a := create(t, s, grouped(3, "g"))
	for range 250 {
		create(t, s, grouped(3, "g"))
	}
	limit(t, s, "g", 1, run.OnBusyCancelQueued)
	c := create(t, s, grouped(5, "g"))
	running, queued := members(t, s, "g")
	require.Equal(t, []run.ID{a.ID}, running)
	require.Equal(t, []run.ID{c.ID}, queued, "all others are cancelled, regardless of their priority")
}
