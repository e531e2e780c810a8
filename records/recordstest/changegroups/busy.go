package changegroups

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

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

// createMany creates runs of a change group at the same time.
func createMany(t *testing.T, s records.Store, n int, group string) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for clients := range 16 {
		all.Go(func() {
			for i := clients; i < n; i += 16 {
				_, errs[i] = s.CreateRun(t.Context(), fixture.NewRun(t, fixture.Grouped(3, group)))
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

// cancelled returns how many runs each transaction cancelled, by their time, and the
// reasons.
func cancelled(t *testing.T, s records.Store, group string) (batches []int, reasons []string) {
	t.Helper()
	page, err := s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{group}, Phases: []run.Phase{run.PhaseCancelled}, Limit: 1000})
	require.NoError(t, err)
	ended := map[time.Time]int{}
	for _, r := range page.Runs {
		ended[r.EndedAt]++
		reasons = append(reasons, r.Reason)
	}
	slices.Sort(reasons)
	return slices.Sorted(maps.Values(ended)), slices.Compact(reasons)
}

// testGroupPreemptMany preempts more runs than one transaction does, with a token.
func testGroupPreemptMany(t *testing.T, d *fixture.Database) {
	const many = 510
	s := d.Store(t)
	for _, c := range []struct {
		policy run.OnBusy
		limit  int // until the policy is set
		waits  bool
		want   []int
	}{
		{run.OnBusyCancelQueued, 1, true, []int{10, 500}},
		{run.OnBusyStopRunning, many + 1, false, []int{11, 500}},
	} {
		g := string(c.policy)
		fixture.Limit(t, s, g, c.limit, run.OnBusyQueue)
		first := fixture.Create(t, s, fixture.Grouped(3, g))
		createMany(t, s, many, g)
		fixture.Limit(t, s, g, 1, c.policy)
		_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{g}})
		require.NoError(t, err)
		n := fixture.NewRun(t, fixture.Grouped(5, g))
		n.Token = token
		r, err := s.CreateRun(t.Context(), n)
		require.NoError(t, err)
		running, queued := members(t, s, g)
		if c.waits {
			require.Equal(t, []run.ID{first.ID}, running)
			require.Equal(t, []run.ID{r.ID}, queued, "all others are cancelled, regardless of their priority")
		} else {
			require.Equal(t, []run.ID{r.ID}, running)
			require.Empty(t, queued)
		}
		batches, reasons := cancelled(t, s, g)
		require.Equal(t, c.want, batches)
		require.Equal(t, []string{"a new run of change group " + g + " took its place", "run " + string(r.ID) + " of change group " + g + " took its place"}, reasons)
		_, err = s.CreateRun(t.Context(), n)
		fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
	}
}

// testGroupPreemptLarge starts a run that preempts runs with more tasks than one
// transaction cancels.
func testGroupPreemptLarge(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	fixture.Create(t, s, fixture.Grouped(3, "g"))
	for range 3 {
		spec := fixture.Wide("/a/b", run.MaxTasks*6/10)
		spec.ChangeGroups = []string{"g"}
		fixture.Create(t, s, spec)
	}
	spec := fixture.Manual("/a/b")
	spec.ChangeGroups = []string{"g"}
	r := fixture.Create(t, s, spec)
	fixture.Limit(t, s, "g", 1, run.OnBusyCancelQueued)
	_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), r.ID, token))
	_, queued := members(t, s, "g")
	require.Equal(t, []run.ID{r.ID}, queued)
	batches, reasons := cancelled(t, s, "g")
	require.Equal(t, []int{1, 1, 1}, batches)
	require.Equal(t, []string{"run " + string(r.ID) + " of change group g took its place"}, reasons)
}
