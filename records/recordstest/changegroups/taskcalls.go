package changegroups

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// testTaskSlotsClaim refuses claims of tasks that do not hold their slots, which a control
// worker dispatches that does not know the change groups of tasks, and makes such a task wait.
func testTaskSlotsClaim(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, holds := waiting(t, s, locking(3, one("g")))
	require.True(t, holds)
	b, _ := waiting(t, s, locking(3, one("g")))
	c := begun(t, s, locking(3, one("g")))
	claim := func(id run.ID) error {
		_, err := s.Claim(t.Context(), run.ClaimRequest{
			Key: run.Key{Run: id, Task: 0, Attempt: 1, Dispatch: 1}, Executor: "x", JournalID: "jx", SpecVersion: run.NewestSpecVersion,
		})
		return err
	}
	for _, id := range []run.ID{b, c} {
		err := claim(id)
		fixture.RequireCode(t, run.CodeConflict, err)
		require.ErrorContains(t, err, "waits for slots of its change groups")
	}
	_, waits := slots(t, s, "g")
	require.Equal(t, []run.ID{b, c}, waits, "the task that did not wait does")
	fixture.Drain(t, s)
	require.NoError(t, claim(a))
	fixture.Apply(t, s, a, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true})
	require.Equal(t, []records.Grant{{Run: b, Task: 0}}, grantEach(t, s))
	require.NoError(t, claim(b))
	require.NoError(t, claim(b), "its own claim, again")
	fixture.RequireCode(t, run.CodeConflict, claim(c))
}

// testTaskSlotsQueued makes a task wait that a control worker queues which does not know the
// change groups of tasks.
func testTaskSlotsQueued(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, b := begun(t, s, locking(3, one("g"))), begun(t, s, locking(3, one("g")))
	queue := func(id run.ID) run.Status {
		_, statuses := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
		require.Equal(t, statuses[0].Status, fixture.Get(t, s, id).Tasks[0].Status)
		return statuses[0].Status
	}
	require.Equal(t, run.StatusWaitingChangeGroup, queue(a))
	require.Equal(t, run.StatusQueued, queue(a), "it has got a free slot")
	for range 2 {
		require.Equal(t, run.StatusWaitingChangeGroup, queue(b))
	}
	endTask(t, s, a, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: b, Task: 0}}, grantEach(t, s))
	require.Equal(t, run.StatusQueued, queue(b))
}

// testTaskSlotsAtOnce changes a task several times in one call.
func testTaskSlotsAtOnce(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	id := begun(t, s, locking(3, one("g")))
	progress, statuses := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Status: run.StatusWaitingChangeGroup}, {Task: 0, Status: run.StatusSkipped},
	}})
	require.Empty(t, progress.Granted)
	require.Equal(t, run.StatusSkipped, statuses[1].Status)
	requireNoneLeft(t, s)
	id = begun(t, s, locking(3, one("g")))
	_, statuses = fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1), {Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusSkipped}}})
	require.Equal(t, run.StatusSkipped, statuses[1].Status)
	requireNoneLeft(t, s)
	b := begun(t, s, locking(3, one("g")))
	progress, _ = fixture.Apply(t, s, b, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1), {Task: 0, Status: run.StatusWaitingChangeGroup}}})
	require.Equal(t, []int{0}, progress.Granted)
}

// testTaskSlotsPositions counts what waits ahead of a run: tasks and runs for its position, and
// their slots beside.
func testTaskSlotsPositions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 4, run.OnBusyQueue)
	a, _ := waiting(t, s, locking(3, units("g", 2)))
	b, holds := waiting(t, s, locking(3, units("g", 3)))
	require.False(t, holds)
	c, _ := waiting(t, s, locking(3, units("g", 2)))
	r := fixture.Create(t, s, fixture.Grouped(3, "g")).ID
	at := records.GroupWait{Group: "g", MaxRunning: 4, Holding: 2, Holders: []run.ID{a}}
	of := func(position, ahead, units int) []records.GroupWait {
		w := at
		w.Position, w.Ahead, w.Units = position, ahead, units
		return []records.GroupWait{w}
	}
	got, err := s.GroupWaits(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, of(3, 5, 0), got)
	for id, want := range map[run.ID][]records.GroupWait{b: of(1, 0, 3), c: of(2, 3, 2)} {
		waits, err := s.TaskWaits(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, map[int][]records.GroupWait{0: want}, waits)
	}
}

// testTaskSlotsPolicies checks that policies for runs count runs alone: no run is stopped to
// make room for tasks.
func testTaskSlotsPolicies(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 3, run.OnBusyStopRunning)
	a := fixture.Create(t, s, fixture.Grouped(3, "g")).ID
	fixture.Begin(t, s, a)
	_, holds := waiting(t, s, locking(3, units("g", 2)))
	require.True(t, holds)
	b, holds := waiting(t, s, locking(3, units("g", 3)))
	require.False(t, holds)
	c := fixture.Create(t, s, fixture.Grouped(3, "g")).ID
	require.False(t, fixture.Get(t, s, a).StopRequested, "one of three slots is a run's")
	_, queued := members(t, s, "g")
	require.Equal(t, []run.ID{c}, queued)
	fixture.Limit(t, s, "g", 1, run.OnBusyStopRunning)
	e := fixture.Create(t, s, fixture.Grouped(3, "g")).ID
	require.True(t, fixture.Get(t, s, a).StopRequested, "the runs alone are more than there are slots")
	fixture.Limit(t, s, "g", 1, run.OnBusyCancelQueued)
	f := fixture.Create(t, s, fixture.Grouped(3, "g")).ID
	_, queued = members(t, s, "g")
	require.Equal(t, []run.ID{f}, queued, "only the newest run waits")
	require.Equal(t, run.PhaseCancelled, fixture.Get(t, s, e).Phase)
	_, waits := slots(t, s, "g")
	require.Equal(t, []run.ID{b}, waits, "tasks are not cancelled")
	fixture.Limit(t, s, "g", 1, run.OnBusyReject)
	_, err := s.CreateRun(t.Context(), fixture.NewRun(t, fixture.Grouped(3, "g")))
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
}

// testTaskSlotsPreemptedToken checks that tokens of the groups of tasks cover runs that others
// preempt.
func testTaskSlotsPreemptedToken(t *testing.T, d *fixture.Database) {
	for policy, begin := range map[run.OnBusy]bool{run.OnBusyStopRunning: true, run.OnBusyCancelQueued: false} {
		s := d.Store(t)
		of, task := "of-"+string(policy), "task-"+string(policy)
		fixture.Limit(t, s, of, 1, policy)
		fixture.Limit(t, s, task, 1, run.OnBusyQueue)
		first := fixture.Create(t, s, fixture.Grouped(3, of)).ID
		spec := mixed(of, one(task))
		if begin {
			fixture.Finish(t, s, first)
		}
		m := fixture.Create(t, s, spec).ID
		if begin {
			fixture.Begin(t, s, m)
		}
		_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{task}})
		require.NoError(t, err)
		fixture.Create(t, s, fixture.Grouped(3, of))
		got := fixture.Get(t, s, m)
		require.True(t, got.StopRequested || got.Phase == run.PhaseCancelled)
		_, _, err = s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: task, MaxRunning: 1, OnBusy: run.OnBusyQueue}, token)
		fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
	}
}

// testTaskSlotsWithConditions makes a task wait in one call with tasks whose conditions take so
// long that the call takes several transactions. It returns who got slots in any of them: nothing
// else tells the workflow.
func testTaskSlotsWithConditions(t *testing.T, d *fixture.Database) {
	const slow = `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20].all(a, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20].all(b, a + b > 0))`
	s := d.Store(t)
	fixture.Limit(t, s, "g", 9, run.OnBusyQueue)
	spec := locking(3, one("g"))
	steps := spec.Tasks["build"].Steps
	spec.Tasks["wide"] = &run.TaskSpec{
		Pool: "linux", If: slow, Steps: steps, ChangeGroups: []run.TaskChangeGroup{one("g")},
		Matrix: run.Matrix{Axes: map[string][]string{"I": fixture.Numbers(8)}},
	}
	id := begun(t, s, spec)
	var c records.Changes
	for task := range 9 {
		c.Tasks = append(c.Tasks, run.TaskChange{Task: task, Status: run.StatusWaitingChangeGroup})
	}
	progress, statuses := fixture.Apply(t, s, id, c)
	var want []int
	for _, x := range statuses {
		if x.Status == run.StatusWaitingChangeGroup {
			want = append(want, x.Task)
		}
	}
	require.Greater(t, len(want), 5, "several transactions")
	require.ElementsMatch(t, want, progress.Granted)
}

// testTaskSlotsForeach gives each task of a list slots of its own, and none to the task that
// stands for them.
func testTaskSlotsForeach(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 2, run.OnBusyQueue)
	spec := locking(3, one("g"))
	spec.Tasks["build"].Foreach = run.Foreach{List: `["x", "y", "z"]`}
	id := begun(t, s, spec)
	made, err := s.Expand(t.Context(), id, 0)
	require.NoError(t, err)
	require.Equal(t, 3, made.Width)
	changes := []run.TaskChange{{Task: 0, Status: run.StatusSuccess}}
	for i := range made.Width {
		changes = append(changes, run.TaskChange{Task: made.First + i, Status: run.StatusWaitingChangeGroup})
	}
	progress, _ := fixture.Apply(t, s, id, records.Changes{Tasks: changes})
	require.Equal(t, []int{made.First, made.First + 1}, progress.Granted)
	progress, _ = fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(made.First, 1, 1)}})
	require.Empty(t, progress.Granted, "only of the tasks that begin to wait")
	progress, err = s.Begin(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []int{made.First + 1}, progress.Granted, "the first one is queued")
	fixture.Drain(t, s)
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(made.First, 1, 1, run.StatusFailed)}})
	require.Equal(t, []records.Grant{{Run: id, Task: made.First + 2}}, grantEach(t, s))
}

// testTaskSlotsRestart restarts a run whose task failed: the new run's task waits again, and a
// task that is kept takes no slot.
func testTaskSlotsRestart(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	old, holds := waiting(t, s, locking(3, one("g")))
	require.True(t, holds)
	fixture.Apply(t, s, old, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusSuccess}}, Result: run.ResultSuccess, Finish: true})
	other, holds := waiting(t, s, locking(3, one("g")))
	require.True(t, holds)
	restart := func(group string, kept map[int]int) run.ID {
		n := fixture.NewRun(t, locking(3, one(group)))
		n.Restart = &records.Restart{From: old, Kept: kept}
		_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
		require.NoError(t, err)
		r, err := s.CreateRun(t.Context(), n)
		require.NoError(t, err)
		_, _, err = s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: "g", MaxRunning: 1, OnBusy: run.OnBusyQueue}, token)
		fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
		fixture.Begin(t, s, r.ID)
		return r.ID
	}
	again := restart("g", nil)
	require.Empty(t, await(t, s, again))
	kept := restart("g", map[int]int{0: 0})
	require.Equal(t, run.StatusSuccess, fixture.Get(t, s, kept).Tasks[0].Status)
	fixture.Apply(t, s, kept, records.Changes{Result: run.ResultSuccess, Finish: true})
	restart("h", nil) // the restart changes the old run, of which a task names the group
	fixture.Drain(t, s)
	endTask(t, s, other, run.StatusSuccess)
	require.Equal(t, []records.Grant{{Run: again, Task: 0}}, grantEach(t, s))
}
