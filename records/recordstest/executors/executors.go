// Package executors tests the executors, pools and fleets of a records.Store.
package executors

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// ExecutorTests returns the tests of registrations, by name.
func ExecutorTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"register_and_renew":       testRegister,
		"one_journal_holds_an_id":  testRegisterConflict,
		"make_and_fit_their_pool":  testPools,
		"report_their_features":    testFeatures,
		"pools_count_their_demand": testDemand,
		"pools_share_large_counts": testSharedCounts,
		"pools_share_executors":    testSharedExecutors,
		"poll_for_their_labels":    testWaitingLabels,
		"poll_for_many_labels":     testManyLabels,
		"poll_for_all_groups":      testLabelsOfGroups,
		"poll_for_more_than_read":  testMoreLabelsThanRead,
		"claim_with_their_labels":  testLabelledClaim,
		"limit_of_a_pool":          testMaxRunning,
		"limit_of_a_pool_races":    testMaxRunningRace,
	}
}

func testRegister(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	fixture.RequireCode(t, run.CodeNotFound, fixture.Renew(t, s, run.Renewal{Executor: "b", JournalID: "j-b"}))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("b")))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	list, err := s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	want := fixture.Executor("a")
	want.State, want.RegisteredAt, want.LastContact = run.ExecutorOnline, list[0].RegisteredAt, list[0].LastContact
	require.Equal(t, want, list[0])
	require.WithinDuration(t, time.Now(), list[0].RegisteredAt, time.Minute)

	d.Clock.Advance(run.ExecutorTimeout - time.Second)
	require.NoError(t, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a", SlotsUsed: 3, Draining: true}))
	d.Clock.Advance(2 * time.Second)
	list, err = s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Equal(t, run.ExecutorDraining, list[0].State)
	require.Equal(t, 3, list[0].SlotsUsed)
	require.Equal(t, run.ExecutorOffline, list[1].State)
	require.NoError(t, fixture.Renew(t, s, run.Renewal{Executor: "b", JournalID: "j-b"}))
	registered := list[1].RegisteredAt
	e := fixture.Executor("b")
	e.Slots = 9
	require.NoError(t, fixture.Register(t, s, e))
	list, err = s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Equal(t, run.ExecutorOnline, list[1].State)
	require.Equal(t, 9, list[1].Slots)
	require.Equal(t, registered, list[1].RegisteredAt)
}

func testRegisterConflict(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	other := fixture.Executor("a")
	other.JournalID = "other"
	fixture.RequireCode(t, run.CodeConflict, fixture.Register(t, s, other))
	fixture.RequireCode(t, run.CodeConflict, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "other"}))
	d.Clock.Advance(run.ExecutorTimeout + time.Second)
	fixture.RequireCode(t, run.CodeNotFound, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "other"}))
	require.NoError(t, fixture.Register(t, s, other), "the other process is silent")
	fixture.RequireCode(t, run.CodeConflict, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a"}))
}

func testPools(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	for name, change := range map[string]func(e *run.Executor){
		"driver": func(e *run.Executor) { e.Driver = "shell" },
		"os":     func(e *run.Executor) { e.OS = "windows" },
		"arch":   func(e *run.Executor) { e.Arch = "arm64" },
	} {
		e := fixture.Executor("b")
		change(&e)
		err := fixture.Register(t, s, e)
		fixture.RequireCode(t, run.CodeInvalid, err)
		require.ErrorContains(t, err, name)
	}
	list, err := s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	shell := fixture.Executor("c")
	shell.Pool, shell.Driver, shell.Labels = "shell", "shell", nil
	require.NoError(t, fixture.Register(t, s, shell))
	pools, err := s.ListPools(ctx)
	require.NoError(t, err)
	require.Equal(t, []run.Pool{
		{
			Name: "linux", Driver: "docker", OS: "linux", Arch: "amd64", Privileged: true,
			Online: 1, Slots: 4, SlotsUsed: 1,
		},
		{Name: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Privileged: true, Online: 1, Slots: 4, SlotsUsed: 1},
	}, pools)
	d.Clock.Advance(run.ExecutorTimeout + time.Second)
	pools, err = s.ListPools(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 0, 0}, []int{pools[0].Online, pools[0].Offline, pools[0].Slots, pools[0].SlotsUsed}, "a pool stays without executors")
}

// A pool has the features of all its executors, if they are known.
func testFeatures(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	register := func(id string, features ...run.Feature) run.Executor {
		t.Helper()
		e := fixture.Executor(id)
		e.Features = features
		require.NoError(t, fixture.Register(t, s, e))
		stored, err := s.GetExecutor(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, features, stored.Features)
		return e
	}
	pool := func() []run.Feature {
		t.Helper()
		p, err := s.GetPool(t.Context(), "linux")
		require.NoError(t, err)
		return p.Features
	}
	register("a", run.FeatureImages, run.FeatureUsers)
	require.Equal(t, []run.Feature{run.FeatureImages, run.FeatureUsers}, pool())
	register("b", run.FeatureCheckouts)
	require.Equal(t, []run.Feature{run.FeatureCheckouts, run.FeatureImages, run.FeatureUsers}, pool())
	register("b")
	require.Nil(t, pool(), "of an earlier version")
	register("b", run.FeatureCheckouts)
	d.Clock.Advance(run.ExecutorTimeout + time.Second)
	require.Len(t, pool(), 3, "executors out of contact count")
	_, err := s.RemoveExecutor(t.Context(), "b", run.Removal{})
	require.NoError(t, err)
	require.Equal(t, []run.Feature{run.FeatureImages, run.FeatureUsers}, pool())

	f := putFleet(t, s, "spot", nil)
	require.Equal(t, "linux", f.Spec.Pool)
	require.Nil(t, pool(), "the machines of a fleet without any may have other features")
	_, err = s.DeleteFleet(t.Context(), "spot", "me")
	require.NoError(t, err)
	_, err = s.ChangeFleet(t.Context(), "spot", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	require.Len(t, pool(), 2)
}

func testDemand(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	r := fixture.Create(t, s, fixture.Wide("/a/b", 30))
	fixture.Begin(t, s, r.ID)
	var c records.Changes
	for i := range 20 {
		c.Tasks = append(c.Tasks, fixture.Queued(i, 1, 1))
	}
	fixture.Apply(t, s, r.ID, c)
	for i := range 5 {
		fixture.Claim(t, s, run.Key{Run: r.ID, Task: i, Attempt: 1, Dispatch: 1})
	}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	pools, err := s.ListPools(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{15, 4}, []int{pools[0].Queued, pools[0].Running})
	require.Positive(t, pools[0].MeanElapsed)
	require.Less(t, pools[0].MeanElapsed, time.Hour)
}

// testSharedCounts counts tasks until there are so many that callers share the counts.
func testSharedCounts(t *testing.T, d *fixture.Database) {
	const many = 2_100
	s := d.Store(t)
	d.Clock.Fixed.Store(time.Now().UnixNano())
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	putFleet(t, s, "spot", nil)
	r := fixture.Create(t, s, fixture.Wide("/a/b", many))
	fixture.Begin(t, s, r.ID)
	change := func(from, to int, status run.Status) {
		t.Helper()
		var c records.Changes
		for i := from; i < to; i++ {
			c.Tasks = append(c.Tasks, run.TaskChange{Task: i, Attempt: 1, Dispatch: 1, Status: status})
		}
		fixture.Apply(t, s, r.ID, c)
	}
	requireQueued := func(want int, why string) {
		t.Helper()
		all, err := s.ListPools(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, all[0].Queued, why)
		one, err := s.GetPool(t.Context(), "linux")
		require.NoError(t, err)
		require.Equal(t, all[0], one)
		v, err := s.ViewFleet(t.Context(), "spot")
		require.NoError(t, err)
		require.Len(t, v.Tasks, 1)
		require.Equal(t, want, v.Tasks[0].Queued)
	}
	later := func() { d.Clock.Fixed.Add(int64(time.Second)) }
	change(0, 10, run.StatusQueued)
	requireQueued(10, "")
	change(10, 20, run.StatusQueued)
	requireQueued(20, "few tasks are counted for each call")
	change(20, many-1, run.StatusQueued)
	requireQueued(many-1, "")
	change(many-1, many, run.StatusQueued)
	requireQueued(many-1, "calls share the count of many tasks")
	later()
	requireQueued(many, "for a second")
	change(0, many-5, run.StatusSkipped)
	later()
	requireQueued(5, "")
	change(many-5, many-4, run.StatusSkipped)
	requireQueued(4, "few tasks are counted for each call again")
}

// testSharedExecutors counts executors until there are so many that callers share the
// counts.
func testSharedExecutors(t *testing.T, d *fixture.Database) {
	const many = 201
	s := d.Store(t)
	d.Clock.Fixed.Store(time.Now().UnixNano())
	requireOnline := func(want int) {
		t.Helper()
		p, err := s.GetPool(t.Context(), "linux")
		require.NoError(t, err)
		require.Equal(t, want, p.Online)
		all, err := s.ServingExecutors(t.Context())
		require.NoError(t, err)
		online := 0
		for _, e := range all {
			if e.State == run.ExecutorOnline {
				online++
			}
		}
		require.Equal(t, want, online)
	}
	drain := func(id string) {
		t.Helper()
		_, err := s.DrainExecutor(t.Context(), id, true, "")
		require.NoError(t, err)
	}
	for i := range many {
		require.NoError(t, fixture.Register(t, s, fixture.Executor(fixture.Itoa(int64(i)))))
		if i < 2 {
			requireOnline(i + 1)
		}
	}
	requireOnline(many)
	drain("7")
	requireOnline(many)
	list, err := s.ListExecutors(t.Context())
	require.NoError(t, err)
	draining := func(e run.Executor) bool { return e.ID == "7" && e.State == run.ExecutorDraining }
	require.True(t, slices.ContainsFunc(list, draining), "a list is new")
	pools, executors, err := s.ChoosePools(t.Context())
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(executors, draining), "a run is accepted by the executors as they are")
	require.Equal(t, 1, pools[0].Draining)
	d.Clock.Fixed.Add(int64(time.Second))
	requireOnline(many - 1)

	_, _, err = s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: fixture.Executor("any").Driver, MaxRunning: 10 * many})
	require.NoError(t, err)
	labelledExecutor(t, s, "new", 4, nil)
	requireOnline(many - 1)
	require.Equal(t, 4, *desired(t, s, "new").Slots, "an executor that is newer than what callers share")
}
