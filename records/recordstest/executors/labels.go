package executors

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// createLabelled creates a run with a queued task for each set of labels, nil for none.
func createLabelled(t *testing.T, s records.Store, labels ...map[string]string) run.ID {
	t.Helper()
	return createLabelledIn(t, s, "/a/b", labels...)
}

func createLabelledIn(t *testing.T, s records.Store, group string, labels ...map[string]string) run.ID {
	t.Helper()
	n := fixture.NewRun(t, fixture.Wide(group, len(labels)))
	var c records.Changes
	for i, l := range labels {
		n.Tasks[i].Labels = run.LabelsText(l)
		c.Tasks = append(c.Tasks, fixture.Queued(i, 1, 1))
	}
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, c)
	return r.ID
}

func labelledExecutor(t *testing.T, s records.Store, id string, slots int, labels map[string]string) {
	t.Helper()
	e := fixture.Executor(id)
	e.Slots, e.Labels = slots, labels
	require.NoError(t, fixture.Register(t, s, e))
}

func desired(t *testing.T, s records.Store, id string) run.DesiredState {
	t.Helper()
	d, err := s.RenewExecutor(t.Context(), run.Renewal{Executor: id, JournalID: "j-" + id})
	require.NoError(t, err)
	return d
}

func claimAs(t *testing.T, s records.Store, id run.ID, task int, executor string) error {
	t.Helper()
	_, err := s.Claim(t.Context(), run.ClaimRequest{
		Key: run.Key{Run: id, Task: task, Attempt: 1, Dispatch: 1}, Executor: executor, JournalID: "j-" + executor, SpecVersion: run.NewestSpecVersion,
	})
	return err
}

func testWaitingLabels(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	a100, zone := map[string]string{"gpu": "a100"}, map[string]string{"zone": "b"}
	both := map[string]string{"gpu": "a100", "zone": "b"}
	labelledExecutor(t, s, "plain", 2, nil)
	labelledExecutor(t, s, "gpu", 2, map[string]string{"gpu": "a100", "rack": "7"})
	labelledExecutor(t, s, "all", 2, both)
	require.Equal(t, run.DesiredState{}, desired(t, s, "all"))
	id := createLabelled(t, s, nil, a100, zone, both, a100)
	require.Equal(t, run.DesiredState{}, desired(t, s, "plain"))
	require.Equal(t, []map[string]string{a100}, desired(t, s, "gpu").Labels)
	require.ElementsMatch(t, []map[string]string{a100, both, zone}, desired(t, s, "all").Labels)
	got := fixture.Get(t, s, id)
	require.Nil(t, got.Tasks[0].Labels)
	require.Equal(t, both, got.Tasks[3].Labels)
	positions, err := s.QueuePositions(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 2}, positions, "each set of labels has a queue of its own")

	require.False(t, desired(t, s, "gpu").LabelsOnly)
	require.NoError(t, claimAs(t, s, id, 0, "plain"))
	require.True(t, desired(t, s, "gpu").LabelsOnly, "the task without labels is claimed")
	require.False(t, desired(t, s, "plain").LabelsOnly)
	require.NoError(t, claimAs(t, s, id, 1, "gpu"))
	require.Equal(t, []map[string]string{a100}, desired(t, s, "gpu").Labels)
	require.NoError(t, claimAs(t, s, id, 4, "all"))
	require.Empty(t, desired(t, s, "gpu").Labels, "no such task waits any more")
	drained, err := s.RenewExecutor(t.Context(), run.Renewal{Executor: "all", JournalID: "j-all", Draining: true})
	require.NoError(t, err)
	require.Empty(t, drained.Labels)
}

// testManyLabels lets more sets of labels wait than an executor polls for. Each is polled
// for by some executor, or will be.
func testManyLabels(t *testing.T, d *fixture.Database) {
	const sets, most = 450, 100
	now := time.Now().Truncate(time.Minute).Add(10 * time.Second)
	at := func(then time.Time) { d.Clock.Fixed.Store(then.UnixNano()) }
	at(now)
	s := d.Store(t)
	offer := run.Resources{CPU: "64", Memory: "64Gi"}.Labels()
	for _, id := range []string{"a", "b", "small"} {
		if id == "small" {
			offer = run.Resources{CPU: "64", Memory: "1Ki"}.Labels()
		}
		labelledExecutor(t, s, id, 2, offer)
	}
	waiting := make([]map[string]string, sets)
	for i := range waiting {
		waiting[i] = run.Resources{Memory: strconv.Itoa(100_000_001 + i)}.Labels()
	}
	own := run.Resources{CPU: "1"}.Labels()
	createLabelled(t, s, append(waiting, own)...)
	require.Equal(t, []map[string]string{own}, desired(t, s, "small").Labels, "it is found among those that the executor has not")

	polled := map[string]bool{}
	poll := func(id string) (labels []string) {
		t.Helper()
		for _, l := range desired(t, s, id).Labels {
			labels = append(labels, run.LabelsText(l))
			polled[run.LabelsText(l)] = true
		}
		return labels
	}
	first := poll("a")
	require.Len(t, first, most)
	require.NotEqual(t, first, poll("b"), "executors begin at different places")
	at(now.Add(40 * time.Second))
	require.Equal(t, first, poll("a"), "and stay there for a minute")
	for turns := 1; len(polled) <= sets; turns++ {
		require.Less(t, turns, 4*sets/most, "%d sets of %d were polled for", len(polled), sets+1)
		at(now.Add(time.Duration(turns) * time.Minute))
		labelledExecutor(t, s, "a", 2, run.Resources{CPU: "64", Memory: "64Gi"}.Labels())
		require.Len(t, poll("a"), most)
	}
}

// testLabelsOfGroups lets the tasks of one group require more sets of labels than an
// executor polls for. It polls for the few of other groups all the time.
func testLabelsOfGroups(t *testing.T, d *fixture.Database) {
	now := time.Now().Truncate(time.Minute)
	at := func(then time.Time) { d.Clock.Fixed.Store(then.UnixNano()) }
	at(now)
	s := d.Store(t)
	sets := func(from, n int) (all []map[string]string) {
		for i := range n {
			all = append(all, run.Resources{Memory: strconv.Itoa(100_000_001 + from + i)}.Labels())
		}
		return all
	}
	createLabelled(t, s, sets(0, 1000)...)
	few := sets(1000, 3)
	createLabelledIn(t, s, "/c", few[:2]...)
	createLabelledIn(t, s, "/d/e", few[2])
	createLabelledIn(t, s, "/gpu", map[string]string{"gpu": "a100"}) // which no executor has
	for minute := range 4 {
		at(now.Add(time.Duration(minute) * time.Minute))
		for _, id := range []string{"a", "b", "c"} {
			labelledExecutor(t, s, id, 2, run.Resources{CPU: "64", Memory: "64Gi"}.Labels())
			polled := desired(t, s, id).Labels
			require.Len(t, polled, 100)
			require.Subset(t, polled, few, "executor %s, minute %d", id, minute)
		}
	}
}

// testMoreLabelsThanRead lets more sets of labels wait than the store reads at once. None
// is left out for good.
func testMoreLabelsThanRead(t *testing.T, d *fixture.Database) {
	now := time.Now().Truncate(time.Minute)
	at := func(seconds int) { d.Clock.Fixed.Store(now.Add(time.Duration(seconds) * time.Second).UnixNano()) }
	at(0)
	s := d.Store(t)
	own := map[string]string{"zone": "b"} // after all others in the order of texts
	labelledExecutor(t, s, "own", 2, own)
	waiting := make([]map[string]string, 10_000)
	for i := range waiting {
		waiting[i] = run.Resources{CPU: strconv.Itoa(i+1) + "m"}.Labels()
	}
	createLabelled(t, s, waiting...)
	createLabelled(t, s, own)
	require.Empty(t, desired(t, s, "own").Labels)
	at(6)
	require.Equal(t, []map[string]string{own}, desired(t, s, "own").Labels, "the next reading begins where the first ended")
	at(12)
	require.Equal(t, []map[string]string{own}, desired(t, s, "own").Labels, "so does the next")
}

func testLabelledClaim(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, _, err := s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: fixture.Executor("any").Driver, Labels: map[string]string{"zone": "b"}})
	require.NoError(t, err)
	labelledExecutor(t, s, "plain", 2, nil)
	labelledExecutor(t, s, "other", 2, map[string]string{"gpu": "l4", "zone": "c"})
	labelledExecutor(t, s, "gpu", 2, map[string]string{"gpu": "a100"})
	id := createLabelled(t, s, map[string]string{"gpu": "a100", "zone": "b"})
	for _, x := range []string{"plain", "other", "unknown"} {
		err := claimAs(t, s, id, 0, x)
		fixture.RequireCode(t, run.CodeConflict, err)
		require.ErrorContains(t, err, "does not have labels gpu=a100 and zone=b")
	}
	require.NoError(t, claimAs(t, s, id, 0, "gpu"), "its pool has the other label")
	labelledExecutor(t, s, "gpu", 2, nil)
	require.NoError(t, claimAs(t, s, id, 0, "gpu"), "a repeated claim, after the executor lost the label")
}

func testMaxRunning(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	put := func(limit int) {
		t.Helper()
		got, _, err := s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: fixture.Executor("any").Driver, MaxRunning: limit})
		require.NoError(t, err)
		require.Equal(t, limit, got.MaxRunning)
	}
	slots := func() (n int) {
		t.Helper()
		for _, x := range []string{"a", "b", "c"} {
			n += *desired(t, s, x).Slots
		}
		return n
	}
	put(3)
	gpu := map[string]string{"gpu": "a100"}
	labelledExecutor(t, s, "a", 2, nil)
	labelledExecutor(t, s, "b", 4, nil)
	labelledExecutor(t, s, "c", 4, gpu)
	require.Equal(t, 3, slots())
	id := createLabelled(t, s, nil, nil, nil, nil, gpu)
	require.Equal(t, 3, slots())
	require.NoError(t, claimAs(t, s, id, 0, "a"))
	require.NoError(t, claimAs(t, s, id, 1, "b"))
	require.NoError(t, claimAs(t, s, id, 2, "b"))
	require.Equal(t, []int{1, 2, 0}, []int{*desired(t, s, "a").Slots, *desired(t, s, "b").Slots, *desired(t, s, "c").Slots})
	err := claimAs(t, s, id, 3, "b")
	fixture.RequireCode(t, run.CodeExhausted, err)
	require.ErrorContains(t, err, "3 of at most 3 tasks of pool linux are running")
	require.NoError(t, claimAs(t, s, id, 2, "b"), "a repeated claim")
	require.Equal(t, run.StatusQueued, fixture.Get(t, s, id).Tasks[3].Status)

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	require.Equal(t, 3, slots())
	require.NoError(t, claimAs(t, s, id, 3, "a"))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(1, 1, 1, run.StatusSuccess), fixture.Ended(2, 1, 1, run.StatusFailed)}})
	require.Equal(t, []int{1, 0, 2}, []int{*desired(t, s, "a").Slots, *desired(t, s, "b").Slots, *desired(t, s, "c").Slots},
		"only c can run what waits")
	put(1)
	require.Zero(t, *desired(t, s, "c").Slots, "a lower limit stops nothing")
	fixture.RequireCode(t, run.CodeExhausted, claimAs(t, s, id, 4, "c"))
	put(0)
	require.Nil(t, desired(t, s, "c").Slots)
	require.NoError(t, claimAs(t, s, id, 4, "c"))
}

// testMaxRunningRace claims tasks of a pool with a limit concurrently.
func testMaxRunningRace(t *testing.T, d *fixture.Database) {
	const tasks, limit = 12, 5
	s := d.Store(t)
	_, _, err := s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: fixture.Executor("any").Driver, MaxRunning: limit})
	require.NoError(t, err)
	ids := make([]run.ID, tasks)
	for i := range ids {
		labelledExecutor(t, s, fmt.Sprint(i), 1, nil)
		ids[i] = createLabelled(t, s, nil)
	}
	granted := make([]bool, tasks)
	var group errgroup.Group
	for i, id := range ids {
		group.Go(func() error {
			_, err := s.Claim(t.Context(), run.ClaimRequest{
				Key: run.Key{Run: id, Attempt: 1, Dispatch: 1}, Executor: fmt.Sprint(i), JournalID: "j-" + fmt.Sprint(i), SpecVersion: run.NewestSpecVersion,
			})
			if granted[i] = err == nil; run.CodeOf(err) == run.CodeExhausted {
				return nil
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	n := 0
	for _, ok := range granted {
		if ok {
			n++
		}
	}
	require.Equal(t, limit, n)
}

// testLabelledFleets checks which waiting tasks count for the fleets of a pool, and the
// free slots beside them.
func testLabelledFleets(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	gpu, l4, spare := map[string]string{"gpu": "a100"}, map[string]string{"gpu": "l4"}, map[string]string{run.LabelFleet: "spare"}
	putFleet(t, s, "plain", func(x *run.FleetSpec) { x.Priority = 5 })
	putFleet(t, s, "gpu", func(x *run.FleetSpec) { x.Labels = map[string]string{"gpu": "a100", "rack": "7"} })
	putFleet(t, s, "spare", func(x *run.FleetSpec) { x.Labels = gpu })
	labelledExecutor(t, s, "by-hand", 3, gpu)
	labelledExecutor(t, s, "by-hand-too", 3, gpu)
	labelledExecutor(t, s, "small", 1, gpu)
	createLabelled(t, s, nil, gpu, gpu, l4, spare)
	view := func(name string) records.FleetView {
		t.Helper()
		v, err := s.ViewFleet(t.Context(), name)
		require.NoError(t, err)
		return v
	}
	all := []records.QueuedTasks{{Queued: 1}, {Labels: spare, Queued: 1}, {Labels: gpu, Queued: 2}}
	for _, name := range []string{"plain", "gpu", "spare"} {
		require.Equal(t, all, view(name).Tasks, "no fleet has the label of the other task")
		require.Equal(t, []records.FreeSlots{{Labels: gpu, Slots: 1, Free: 1}, {Labels: gpu, Slots: 3, Free: 6}}, view(name).FreeSlots)
	}
	_, err := s.ControlFleet(t.Context(), "spare", run.FleetControl{Action: run.FleetActionPause, By: "me"})
	require.NoError(t, err)
	require.Equal(t, []records.QueuedTasks{all[0], all[2]}, view("gpu").Tasks, "a paused fleet creates no instances")
	pool := fixture.Executor("any").Pool
	_, _, err = s.PutPool(t.Context(), run.Pool{Name: pool, Driver: fixture.Executor("any").Driver, MaxRunning: 2, Labels: l4})
	require.NoError(t, err)
	require.Equal(t, []records.QueuedTasks{{Queued: 1}, {Labels: gpu, Queued: 1}}, view("gpu").Tasks, "as many as may run")
	require.Equal(t, l4, view("gpu").PoolLabels)
	require.Equal(t, gpu, view("gpu").FreeSlots[0].Labels, "those of an executor come before those of the pool")
	d.Clock.Advance(run.SlotTimeout + time.Second)
	require.Equal(t, []records.QueuedTasks{{Queued: 1, Overdue: 1}, {Labels: gpu, Queued: 1, Overdue: 1}}, view("gpu").Tasks)
	require.Empty(t, view("gpu").FreeSlots, "the executors are offline")
}

// testResources checks which executors and fleets tasks that reserve resources are for.
func testResources(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	two, six := run.Resources{CPU: "2"}.Labels(), run.Resources{CPU: "6", Memory: "1Gi"}.Labels()
	labelledExecutor(t, s, "none", 8, nil)
	labelledExecutor(t, s, "small", 4, run.Resources{CPU: "4", Memory: "8Gi"}.Labels())
	labelledExecutor(t, s, "large", 8, run.Resources{CPU: "8", Memory: "8Gi"}.Labels())
	id := createLabelled(t, s, two, six)
	require.Empty(t, desired(t, s, "none").Labels)
	require.Equal(t, []map[string]string{two}, desired(t, s, "small").Labels)
	require.ElementsMatch(t, []map[string]string{two, six}, desired(t, s, "large").Labels)
	require.ErrorContains(t, claimAs(t, s, id, 1, "small"), "executor small does not have 6 CPU and 1Gi of memory")
	require.ErrorContains(t, claimAs(t, s, id, 0, "none"), "executor none does not have 2 CPU")
	require.NoError(t, claimAs(t, s, id, 0, "small"))
	require.NoError(t, claimAs(t, s, id, 1, "large"))
}
