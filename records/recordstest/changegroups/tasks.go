package changegroups

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// locking returns the specification of a run of one task with change groups.
func locking(priority int, groups ...run.TaskChangeGroup) *run.Spec {
	spec := fixture.OneTask("/a/b")
	spec.Priority, spec.Tasks["build"].ChangeGroups = priority, groups
	return spec
}

// one returns a change group of which a task takes one slot.
func one(name string) run.TaskChangeGroup { return run.TaskChangeGroup{Name: name} }

// units returns a change group of which a task takes several slots.
func units(name string, n int) run.TaskChangeGroup { return run.TaskChangeGroup{Name: name, Units: n} }

// begun creates a run that has begun.
func begun(t testing.TB, s records.Store, spec *run.Spec) run.ID {
	t.Helper()
	id := fixture.Create(t, s, spec).ID
	fixture.Begin(t, s, id)
	return id
}

// await makes task 0 of a run wait for its slots, and returns the tasks that hold theirs.
func await(t testing.TB, s records.Store, id run.ID) []int {
	t.Helper()
	progress, statuses := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingChangeGroup}}})
	require.Equal(t, run.StatusWaitingChangeGroup, statuses[0].Status)
	return progress.Granted
}

// waiting creates a run whose task waits for its slots, or holds them.
func waiting(t testing.TB, s records.Store, spec *run.Spec) (id run.ID, holds bool) {
	t.Helper()
	id = begun(t, s, spec)
	return id, len(await(t, s, id)) > 0
}

// endTask ends the task of a run, and the run.
func endTask(t testing.TB, s records.Store, id run.ID, status run.Status) {
	t.Helper()
	now := fixture.Get(t, s, id).Tasks[0]
	fixture.Apply(t, s, id, records.Changes{
		Tasks:  []run.TaskChange{{Task: 0, Attempt: now.Attempt, Dispatch: now.Dispatch, Status: status}},
		Result: run.ResultSuccess, Finish: true,
	})
}

// slots returns the runs whose tasks hold slots of a group, and those whose tasks wait.
func slots(t testing.TB, s records.Store, name string) (holding, waits []run.ID) {
	t.Helper()
	groups, _, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{name}})
	require.NoError(t, err)
	ids := func(of []run.TaskSlots) []run.ID {
		var out []run.ID
		for _, x := range of {
			out = append(out, x.Run)
		}
		return out
	}
	return ids(groups[0].HoldingTasks), ids(groups[0].WaitingTasks)
}

// requireTotals checks how many slots of a group are held, and how many runs and tasks wait.
func requireTotals(t require.TestingT, s records.Store, name string, held, waiting int) {
	groups, _, err := s.ChangeGroups(context.Background(), run.ChangeGroupQuery{Names: []string{name, "other"}})
	require.NoError(t, err)
	i := slices.IndexFunc(groups, func(g run.ChangeGroup) bool { return g.Name == name })
	require.Equal(t, []int{held, waiting}, []int{groups[i].Held, groups[i].Waiting}, "slots held, and what waits, in %s", name)
}

// requireNoneLeft checks that no task that has ended has slots. It also enqueues grants that were
// forgotten.
func requireNoneLeft(t require.TestingT, s records.Store) {
	n, err := s.SweepSlots(context.Background(), 1_000)
	require.NoError(t, err)
	require.Zero(t, n, "tasks that have ended and have slots")
}

func testTaskSlots(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, holds := waiting(t, s, locking(3, one("g")))
	require.True(t, holds, "a free slot is taken at once")
	b, holds := waiting(t, s, locking(3, one("g")))
	require.False(t, holds)
	c, holds := waiting(t, s, locking(1, one("g")))
	require.False(t, holds)
	holding, waits := slots(t, s, "g")
	require.Equal(t, []run.ID{a}, holding)
	require.Equal(t, []run.ID{c, b}, waits, "by priority, then in order")
	require.Empty(t, await(t, s, b), "to wait again changes nothing")

	// A task without its slot is not queued, also if its workflow asks for it.
	_, statuses := fixture.Apply(t, s, b, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.Equal(t, run.StatusWaitingChangeGroup, statuses[0].Status)
	_, statuses = fixture.Apply(t, s, a, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.Equal(t, run.StatusQueued, statuses[0].Status)
	progress, err := s.Begin(t.Context(), a)
	require.NoError(t, err)
	require.Empty(t, progress.Granted, "it is queued")
	require.Equal(t, []int{0}, await2(t, s, a), "a workflow that was reset asks again")

	fixture.Drain(t, s)
	endTask(t, s, a, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: c, Task: 0}}, grantEach(t, s))
	progress, err = s.Begin(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []int{0}, progress.Granted)
	holding, waits = slots(t, s, "g")
	require.Equal(t, []run.ID{c}, holding)
	require.Equal(t, []run.ID{b}, waits)
	endTask(t, s, c, run.StatusSkipped)
	require.Equal(t, []records.Grant{{Run: b, Task: 0}}, grantEach(t, s))
	endTask(t, s, b, run.StatusFailed)
	holding, waits = slots(t, s, "g")
	require.Empty(t, holding)
	require.Empty(t, waits)
	requireNoneLeft(t, s)
}

// await2 makes a task wait that is further on, and returns the tasks that hold their slots.
func await2(t testing.TB, s records.Store, id run.ID) []int {
	t.Helper()
	progress, _ := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingChangeGroup}}})
	return progress.Granted
}

func testTaskSlotsUnits(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 3, run.OnBusyQueue)
	a, holds := waiting(t, s, locking(3, units("g", 2)))
	require.True(t, holds)
	b, holds := waiting(t, s, locking(3, units("g", 2)))
	require.False(t, holds, "one of three slots is left")
	c, holds := waiting(t, s, locking(3, one("g")))
	require.False(t, holds, "none overtakes")
	endTask(t, s, a, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: b, Task: 0}, {Run: c, Task: 0}}, grantEach(t, s))

	e, holds := waiting(t, s, locking(3, units("g", 9)))
	require.False(t, holds)
	f, holds := waiting(t, s, locking(3, one("g")))
	require.False(t, holds)
	endTask(t, s, b, run.StatusSuccess)
	require.Empty(t, grantEach(t, s))
	endTask(t, s, c, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: e, Task: 0}}, grantEach(t, s), "more slots than there are means all of them")
	fixture.Create(t, s, fixture.Grouped(3, "other"))
	requireTotals(t, s, "g", 3, 1)
	requireTotals(t, s, "other", 1, 0)
	waits, err := s.TaskWaits(t.Context(), f)
	require.NoError(t, err)
	require.Equal(t, map[int][]records.GroupWait{0: {{Group: "g", MaxRunning: 3, Units: 1, Holding: 3, Holders: []run.ID{e}, Position: 1}}}, waits)
	fixture.Limit(t, s, "g", 10, run.OnBusyQueue)
	require.Equal(t, []records.Grant{{Run: f, Task: 0}}, grantEach(t, s), "a greater limit takes effect at once")
	requireTotals(t, s, "g", 10, 0)
	fixture.Limit(t, s, "g", 0, run.OnBusyQueue)
	_, holds = waiting(t, s, locking(3, units("g", 100)))
	require.True(t, holds, "no limit")
}

func testTaskSlotsTogether(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	fixture.Limit(t, s, "h", 1, run.OnBusyQueue)
	a, holds := waiting(t, s, locking(3, one("g")))
	require.True(t, holds)
	b, holds := waiting(t, s, locking(3, one("g"), one("h")))
	require.False(t, holds)
	holding, _ := slots(t, s, "h")
	require.Empty(t, holding, "all of them or none")
	c, holds := waiting(t, s, locking(3, one("h")))
	require.False(t, holds, "none overtakes, in any of its groups")
	endTask(t, s, a, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: b, Task: 0}}, grantEach(t, s))
	endTask(t, s, b, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: c, Task: 0}}, grantEach(t, s))
}

// testTaskSlotsBeforeRuns checks that tasks do not wait for runs that wait: these may wait
// for a slot that the run of the task holds.
func testTaskSlotsBeforeRuns(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	fixture.Limit(t, s, "group:/a", 1, run.OnBusyQueue)
	a := begun(t, s, locking(3, one("g")))
	r := fixture.Create(t, s, fixture.Grouped(1, "g")).ID
	_, waits := members(t, s, "g")
	require.Equal(t, []run.ID{r}, waits, "it waits for the slot of its path, which the first run holds")
	require.Equal(t, []int{0}, await(t, s, a))
	fixture.Limit(t, s, "group:/a", 2, run.OnBusyQueue)
	require.Empty(t, grantEach(t, s), "the task holds the slot")
	requireTotals(t, s, "g", 1, 1)
	requireTotals(t, s, "group:/a", 1, 1)
	got, err := s.GroupWaits(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, []records.GroupWait{
		{Group: "g", MaxRunning: 1, Holding: 1, Holders: []run.ID{a}, Position: 1},
		{Group: "group:/a", MaxRunning: 2, Holding: 1, Holders: []run.ID{a}, Position: 1},
	}, got)
	endTask(t, s, a, run.StatusSuccess)
	require.Equal(t, []run.ID{r}, grantAll(t, s))
}

// testTaskSlotsClosed checks that a run whose workflow is lost, and one that is deleted, leave
// no slot behind.
func testTaskSlotsClosed(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, holds := waiting(t, s, locking(3, one("g")))
	require.True(t, holds)
	b, _ := waiting(t, s, locking(3, one("g")))
	c, _ := waiting(t, s, locking(3, one("g")))
	require.NoError(t, s.CloseLost(t.Context(), b, "lost"))
	require.NoError(t, s.CloseLost(t.Context(), a, "lost"))
	require.Equal(t, []records.Grant{{Run: c, Task: 0}}, grantEach(t, s))
	endTask(t, s, c, run.StatusStopped)
	deleted, err := s.DeleteRuns(t.Context(), run.DeleteQuery{Group: "/a/b", Keep: 1})
	require.NoError(t, err)
	require.Equal(t, 2, deleted.Runs)
	page, err := s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g"}})
	require.NoError(t, err)
	require.Equal(t, []run.ID{c}, fixture.IDs(page), "runs are found by the groups of their tasks")
	requireNoneLeft(t, s)
}

// testTaskSlotsAttempts checks that a task keeps its slots through all of its attempts.
func testTaskSlotsAttempts(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, _ := waiting(t, s, locking(3, one("g")))
	b, _ := waiting(t, s, locking(3, one("g")))
	key := run.Key{Run: a, Task: 0, Attempt: 1, Dispatch: 1}
	for range 3 {
		fixture.ClaimQueued(t, s, key)
		key.Attempt++
		fixture.Apply(t, s, a, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, key.Attempt, 1)}})
		holding, waits := slots(t, s, "g")
		require.Equal(t, []run.ID{a}, holding)
		require.Equal(t, []run.ID{b}, waits)
	}
	fixture.Claim(t, s, key)
	fixture.Apply(t, s, a, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, key.Attempt, 1, run.StatusFailed)}})
	require.Equal(t, []records.Grant{{Run: b, Task: 0}}, grantEach(t, s), "the slot is free before the run has ended")
}

// testTaskSlotsToken checks that update tokens cover the slots of tasks.
func testTaskSlotsToken(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	stale := func(when string, change func()) {
		t.Helper()
		_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
		require.NoError(t, err)
		change()
		_, _, err = s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: "g", MaxRunning: 1, OnBusy: run.OnBusyQueue}, token)
		require.Equal(t, run.CodeChangeGroupConflict, run.CodeOf(err), "%s: %v", when, err)
	}
	var a, b run.ID
	stale("a run is created", func() { a = begun(t, s, locking(3, one("g"))) })
	stale("its task holds", func() { await(t, s, a) })
	b = begun(t, s, locking(3, one("g")))
	stale("a task waits", func() { await(t, s, b) })
	stale("a task has ended", func() { endTask(t, s, a, run.StatusSuccess) })
	stale("a task is granted", func() { grantEach(t, s) })
	stale("a client changes the run", func() { require.NoError(t, s.Annotate(t.Context(), b, "", map[string]string{"k": "v"}, nil)) })
	_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
	require.NoError(t, err)
	fixture.Apply(t, s, b, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	_, _, err = s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: "g", MaxRunning: 1, OnBusy: run.OnBusyQueue}, token)
	require.NoError(t, err, "that changes no slot")
}

// grantOnce grants slots of a group once, and returns the kinds of the outbox rows that this wrote.
func grantOnce(t testing.TB, s records.Store, name string) ([]records.Grant, []records.OutboxKind) {
	t.Helper()
	rows := fixture.TakeAll(t, s)
	granted, _, err := s.Grant(t.Context(), name)
	require.NoError(t, err)
	var kinds []records.OutboxKind
	for _, row := range fixture.TakeAll(t, s) {
		kinds = append(kinds, row.Kind)
		require.NoError(t, s.CompleteOutbox(t.Context(), row.ID))
	}
	for _, row := range rows { // the rest of what they ask for
		if row.Kind == records.OutboxGrant {
			for more := true; more; {
				var next []records.Grant
				next, more, err = s.Grant(t.Context(), row.ChangeGroup)
				require.NoError(t, err)
				granted = append(granted, next...)
			}
		}
		require.NoError(t, s.CompleteOutbox(t.Context(), row.ID))
	}
	return granted, kinds
}

// testTaskSlotsMany makes all tasks of a large run wait in one call.
func testTaskSlotsMany(t *testing.T, d *fixture.Database) {
	const width, limit = run.MaxTaskSlots + 150, 120
	s := d.Store(t)
	fixture.Limit(t, s, "g", limit, run.OnBusyQueue)
	spec := fixture.Wide("/a/b", width)
	spec.Tasks["all"].ChangeGroups = []run.TaskChangeGroup{one("g")}
	id := begun(t, s, spec)
	changes := make([]run.TaskChange, width)
	for i := range changes {
		changes[i] = run.TaskChange{Task: i, Status: run.StatusWaitingChangeGroup}
	}
	progress, _ := fixture.Apply(t, s, id, records.Changes{Tasks: changes})
	first := make([]int, limit)
	for i := range first {
		first[i] = i
	}
	require.Equal(t, first, progress.Granted)
	holding, waits := slots(t, s, "g")
	require.Len(t, holding, limit)
	require.Len(t, waits, run.MaxTaskSlots, "the first ones")
	requireTotals(t, s, "g", limit, width-limit)
	set, _, err := s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: "g", MaxRunning: limit, OnBusy: run.OnBusyQueue}, nil)
	require.NoError(t, err)
	require.Equal(t, []int{limit, width - limit}, []int{set.Held, set.Waiting})
	fixture.Drain(t, s)
	before := fixture.Get(t, s, id).Version
	for i := range changes {
		changes[i].Status = run.StatusSuccess
	}
	fixture.Apply(t, s, id, records.Changes{Tasks: changes[:limit]})
	grants, kinds := grantOnce(t, s, "g")
	require.Equal(t, []records.OutboxKind{records.OutboxSlots}, kinds, "its workflow is notified once for all tasks of a grant")
	require.Equal(t, before+4, fixture.Get(t, s, id).Version, "of the ends, and of three grants, of up to 50 tasks each")
	grants = append(grants, grantEach(t, s)...)
	require.Len(t, grants, limit)
	require.True(t, slices.IsSortedFunc(grants, func(a, b records.Grant) int { return a.Task - b.Task }))
	require.Equal(t, records.Grant{Run: id, Task: limit}, grants[0])
	fixture.Apply(t, s, id, records.Changes{Tasks: changes, Result: run.ResultSuccess, Finish: true})
	require.Empty(t, grantEach(t, s))
}
