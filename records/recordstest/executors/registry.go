package executors

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// RegistryTests returns the tests of pools, drains and removals, by name.
func RegistryTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"drain":                              testDrain,
		"tasks_held":                         testHeld,
		"removal_notifies_runs":              testRemoval,
		"removal_needs_force":                testRemovalForce,
		"removal_and_claims":                 testRemovalRace,
		"removal_of_a_member":                testRemovalSet,
		"temporary_executors_expire":         testExpire,
		"the_last_with_tasks_stays":          testExpireLast,
		"unclaimed_executor_is_removed":      testUnclaimedExecutorRemoved,
		"put_pools":                          testPutPool,
		"pools_that_are_used_stay":           testDeletePool,
		"definitions_have_pool_details":      testPoolDefinition,
		"images_of_pools":                    testPoolImages,
		"one_default_of_each_kind":           testDefaultPool,
		"registration_notifies_the_workflow": testExecutorNotifies,
		"clock_jumps":                        testClockJumps,
		"clock_jumps_do_not_expire":          testExpireClockJumps,
	}
}

// takeRemovals returns the executors of the removals in the outbox, by run.
func takeRemovals(t *testing.T, s records.Store) map[run.ID][]string {
	t.Helper()
	reported := map[run.ID][]string{}
	for {
		rows := fixture.TakeAll(t, s)
		if len(rows) == 0 {
			return reported
		}
		for _, row := range rows {
			if row.Kind == records.OutboxExecutorRemoved {
				reported[row.Run] = append(reported[row.Run], row.Executor+": "+row.Reason)
				slices.Sort(reported[row.Run])
			}
			require.NoError(t, s.CompleteOutbox(t.Context(), row.ID))
		}
	}
}

func testExecutorNotifies(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	rows := fixture.TakeAll(t, s)
	require.Len(t, rows, 1)
	require.Equal(t, records.OutboxExecutor, rows[0].Kind)
	require.Equal(t, "a", rows[0].Executor)
	require.Empty(t, rows[0].Run)
}

func testDrain(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, err := s.DrainExecutor(ctx, "a", true, "")
	fixture.RequireCode(t, run.CodeNotFound, err)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	e, err := s.DrainExecutor(ctx, "a", true, "new kernel")
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorDraining, "new kernel", false}, []any{e.State, e.Reason, e.Drained})
	desired, err := s.RenewExecutor(ctx, run.Renewal{Executor: "a", JournalID: "j-a", Draining: true, Drained: true})
	require.NoError(t, err)
	require.True(t, desired.Drain)
	e, err = s.GetExecutor(ctx, "a")
	require.NoError(t, err)
	require.True(t, e.Drained)
	desired, err = s.RegisterExecutor(ctx, fixture.Executor("a"))
	require.NoError(t, err)
	require.True(t, desired.Drain, "a requested drain survives the process")

	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	_, err = s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "a", JournalID: "j-a"})
	fixture.RequireCode(t, run.CodeConflict, err)
	e, err = s.DrainExecutor(ctx, "a", false, "")
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorOnline, ""}, []any{e.State, e.Reason})
	_, err = s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "a", JournalID: "j-a"})
	require.NoError(t, err)
	_, err = s.DrainExecutor(ctx, "a", true, "")
	require.NoError(t, err)
	_, err = s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "a", JournalID: "j-a"})
	require.NoError(t, err, "a repeated claim")
	pool, err := s.GetPool(ctx, "linux")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 0}, []int{pool.Online, pool.Draining, pool.Slots})

	_, err = s.RemoveExecutor(ctx, "a", run.Removal{Force: true})
	require.NoError(t, err)
	_, err = s.DrainExecutor(ctx, "a", true, "")
	fixture.RequireCode(t, run.CodeGone, err)
}

func testHeld(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("b")))
	id := fixture.CreateHeld(t, s, "a", "b", "a", "")
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Reason: "executor a out of contact since 12:00:00Z", Executor: "a"},
	}})
	list, err := s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{list[0].Tasks, list[1].Tasks})
	require.Nil(t, list[0].Held)
	e, err := s.GetExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, 2, e.Tasks)
	require.Len(t, e.Held, 2)
	for i := range e.Held {
		require.False(t, e.Held[i].StartedAt.IsZero())
		e.Held[i].StartedAt = time.Time{}
	}
	require.ElementsMatch(t, []run.HeldTask{
		{Key: run.Key{Run: id, Task: 0, Attempt: 1, Dispatch: 1}, Name: "all[N=0]", Reason: "executor a out of contact since 12:00:00Z"},
		{Key: run.Key{Run: id, Task: 2, Attempt: 1, Dispatch: 1}, Name: "all[N=2]"},
	}, e.Held)
	_, err = s.GetExecutor(ctx, "c")
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testRemoval(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, err := s.RemoveExecutor(ctx, "a", run.Removal{})
	fixture.RequireCode(t, run.CodeNotFound, err)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("b")))
	first, second := fixture.CreateHeld(t, s, "a", "b", "a"), fixture.CreateHeld(t, s, "a")
	fixture.CreateHeld(t, s, "b")
	over := fixture.CreateHeld(t, s, "a")
	fixture.Apply(t, s, over, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	takeRemovals(t, s)
	d.Clock.Advance(run.ExecutorTimeout + time.Second)
	e, err := s.RemoveExecutor(ctx, "a", run.Removal{Reason: "it burnt"})
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorRemoved, "it burnt", 3}, []any{e.State, e.Reason, e.Tasks})
	require.Len(t, e.Held, 3)
	require.False(t, e.RemovedAt.IsZero())
	require.Equal(t, map[run.ID][]string{first: {"a: it burnt"}, second: {"a: it burnt"}}, takeRemovals(t, s))
	again, err := s.RemoveExecutor(ctx, "a", run.Removal{Reason: "again"})
	require.NoError(t, err)
	require.Equal(t, []any{"it burnt", e.RemovedAt}, []any{again.Reason, again.RemovedAt}, "the first removal counts")
	require.Empty(t, takeRemovals(t, s))

	fixture.RequireCode(t, run.CodeForbidden, fixture.Register(t, s, fixture.Executor("a")))
	fixture.RequireCode(t, run.CodeForbidden, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a"}))
	_, err = s.Claim(ctx, run.ClaimRequest{Key: run.Key{Run: first, Attempt: 1, Dispatch: 1}, Executor: "a", JournalID: "j-a"})
	fixture.RequireCode(t, run.CodeForbidden, err)
	list, err := s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	e, err = s.GetExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorRemoved, "it burnt"}, []any{e.State, e.Reason})
	lost, err := s.LostExecutors(ctx, []string{"a", "b", "c"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "it burnt"}, lost)
}

// testClockJumps sets the clock forwards and backwards. The state of an
// executor is wrong until its next contact, and none of its tasks is lost by
// that.
func testClockJumps(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	temporary := fixture.Executor("a")
	temporary.Temporary, temporary.RemoveAfter = true, 3*time.Hour
	for _, jump := range []time.Duration{time.Hour, -2 * time.Hour, 10 * time.Minute, -5 * time.Second} {
		require.NoError(t, fixture.Register(t, s, temporary))
		id := fixture.CreateHeld(t, s, "a")
		key := run.Key{Run: id, Attempt: 1, Dispatch: 1}
		takeRemovals(t, s)
		d.Clock.Advance(jump)
		e, again, err := s.ExpireExecutor(ctx, "a")
		require.NoError(t, err)
		state := run.ExecutorOffline
		if jump.Abs() < run.ExecutorTimeout {
			state = run.ExecutorOnline
		}
		require.Equal(t, state, e.State, "after %s", jump)
		require.Positive(t, again)
		require.LessOrEqual(t, again, temporary.RemoveAfter+run.ExecutorTimeout)
		require.Equal(t, 1, e.Tasks)
		states, err := s.ClaimStates(ctx, "a", []run.Key{key})
		require.NoError(t, err)
		require.Equal(t, run.ClaimOpen, states[key])
		_, err = s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "a", JournalID: "j-a"})
		require.NoError(t, err)

		require.NoError(t, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a", SlotsUsed: 1}))
		e, err = s.GetExecutor(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, run.ExecutorOnline, e.State, "a sign of life counts after %s", jump)
		require.Empty(t, takeRemovals(t, s))
		d.Clock.Advance(run.ExecutorTimeout + time.Second)
		e, err = s.GetExecutor(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, run.ExecutorOffline, e.State, "its silence counts after %s", jump)
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	}
}

func testRemovalForce(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("idle")))
	id := fixture.CreateHeld(t, s, "a")
	_, err := s.RemoveExecutor(ctx, "a", run.Removal{})
	fixture.RequireCode(t, run.CodeConflict, err)
	_, err = s.RemoveExecutor(ctx, "idle", run.Removal{})
	require.NoError(t, err)
	_, err = s.RemoveExecutor(ctx, "a", run.Removal{Force: true})
	require.NoError(t, err)
	require.Equal(t, map[run.ID][]string{id: {"a: "}}, takeRemovals(t, s))
}

// testRemovalRace removes executors while they claim: if the claim succeeds,
// its run is notified of the removal.
func testRemovalRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	const rounds = 10
	for range rounds {
		require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
		r := fixture.Create(t, s, fixture.OneTask("/a/b"))
		fixture.Begin(t, s, r.ID)
		fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
		e := fixture.Executor("x-" + string(r.ID))
		require.NoError(t, fixture.Register(t, s, e))
		takeRemovals(t, s)
		var both sync.WaitGroup
		var claimed, removed error
		both.Go(func() {
			_, claimed = s.Claim(ctx, run.ClaimRequest{Key: run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}, Executor: e.ID, JournalID: e.JournalID})
		})
		both.Go(func() { _, removed = s.RemoveExecutor(ctx, e.ID, run.Removal{Force: true}) })
		both.Wait()
		require.NoError(t, removed)
		reported := takeRemovals(t, s)
		if claimed == nil {
			require.Contains(t, reported, r.ID)
		} else {
			fixture.RequireCode(t, run.CodeForbidden, claimed)
			require.NotContains(t, reported, r.ID)
		}
	}
}

func testRemovalSet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	for _, e := range []run.Executor{fixture.Member("a", "s"), fixture.Member("b", "s"), fixture.Member("other", "t"), fixture.Executor("alone")} {
		require.NoError(t, fixture.Register(t, s, e))
	}
	e, err := s.GetExecutor(ctx, "a")
	require.NoError(t, err)
	require.True(t, e.Temporary, "members of a set are temporary")
	id := fixture.CreateHeld(t, s, "a", "b", "other", "alone")
	d.Clock.Advance(run.ExecutorTimeout + time.Second)
	_, err = s.RemoveExecutor(ctx, "a", run.Removal{Reason: "one"})
	require.NoError(t, err)
	require.Empty(t, takeRemovals(t, s), "its set has another member")
	lost, err := s.LostExecutors(ctx, []string{"a"})
	require.NoError(t, err)
	require.Empty(t, lost)
	_, err = s.RemoveExecutor(ctx, "b", run.Removal{Reason: "two"})
	require.NoError(t, err)
	require.Equal(t, map[run.ID][]string{id: {"a: two", "b: two"}}, takeRemovals(t, s), "the set has no member left")
	lost, err = s.LostExecutors(ctx, []string{"a", "b", "other"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "one", "b": "two"}, lost)
}

func testExpire(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, _, err := s.ExpireExecutor(ctx, "a")
	fixture.RequireCode(t, run.CodeNotFound, err)
	e := fixture.Executor("a")
	e.Temporary, e.RemoveAfter = true, time.Minute
	require.NoError(t, fixture.Register(t, s, e))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("durable")))
	id := fixture.CreateHeld(t, s, "a", "durable")
	takeRemovals(t, s)
	got, again, err := s.ExpireExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorOnline, 1, true}, []any{got.State, got.Tasks, got.Temporary})
	require.InDelta(t, float64(run.ExecutorTimeout+time.Minute), float64(again), float64(10*time.Second))
	d.Clock.Advance(again - 15*time.Second)
	got, again, err = s.ExpireExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, run.ExecutorOffline, got.State)
	require.Positive(t, again)
	d.Clock.Advance(time.Hour)
	got, again, err = s.ExpireExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorOffline, run.ExecutorTimeout}, []any{got.State, again}, "the clock may have jumped")
	d.Clock.Advance(again - time.Second)
	got, again, err = s.ExpireExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []any{run.ExecutorOffline, time.Second}, []any{got.State, again.Round(time.Second)})
	d.Clock.Advance(again)
	got, again, err = s.ExpireExecutor(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, run.ExecutorRemoved, got.State)
	require.Contains(t, got.Reason, "it was temporary, and offline since")
	require.Zero(t, again)
	require.Equal(t, map[run.ID][]string{id: {"a: " + got.Reason}}, takeRemovals(t, s))
	got, again, err = s.ExpireExecutor(ctx, "durable")
	require.NoError(t, err)
	require.Equal(t, run.ExecutorOffline, got.State, "only an operator removes it")
	require.Zero(t, again)
}

func testExpireLast(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	require.NoError(t, fixture.Register(t, s, fixture.Member("a", "s")))
	require.NoError(t, fixture.Register(t, s, fixture.Member("b", "s")))
	id := fixture.CreateHeld(t, s, "a")
	d.Clock.Advance(run.ExecutorTimeout + run.TemporaryOffline + time.Second)
	removed := func(id string) {
		t.Helper()
		_, again, err := s.ExpireExecutor(ctx, id)
		require.NoError(t, err)
		require.Equal(t, run.ExecutorTimeout, again)
		d.Clock.Advance(again)
		got, _, err := s.ExpireExecutor(ctx, id)
		require.NoError(t, err)
		require.Equal(t, run.ExecutorRemoved, got.State)
	}
	removed("a")
	got, again, err := s.ExpireExecutor(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, run.ExecutorOffline, got.State, "the set holds the task")
	require.Equal(t, run.TemporaryOffline, again)
	require.Empty(t, takeRemovals(t, s))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	removed("b")
}

// testUnclaimedExecutorRemoved records which executor a workflow waits for, though that
// executor has claimed nothing.
func testUnclaimedExecutorRemoved(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("b")))
	id := fixture.CreateHeld(t, s, "", "b")
	note := func(task int, executor, reason string) {
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
			{Task: task, Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Executor: executor, Reason: reason},
		}})
	}
	note(0, "a", "")
	note(1, "a", "executor b out of contact since 12:00:00Z")
	note(1, "a", "")
	r, err := s.GetRun(ctx, id)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{r.Tasks[0].Executor, r.Tasks[1].Executor}, "the executor that claimed it is not replaced")
	require.Equal(t, "executor b out of contact since 12:00:00Z", r.Tasks[1].Reason, "recording an executor is no contact")
	takeRemovals(t, s)
	_, err = s.RemoveExecutor(ctx, "a", run.Removal{Force: true})
	require.NoError(t, err)
	require.Equal(t, map[run.ID][]string{id: {"a: "}}, takeRemovals(t, s))
}

func fullPool(name string) run.Pool {
	seconds := int64(30)
	return run.Pool{
		Name: name, Driver: "kubernetes", OS: "linux", Arch: "arm64", Labels: map[string]string{"gpu": "a100"}, Privileged: true, Shared: true, Default: true,
		Flavor: run.Flavor{Name: "large", Memory: "8Gi"},
		Kubernetes: &run.KubernetesPool{
			NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations:  []run.Toleration{{Key: "gpu", Operator: "Exists", Effect: "NoExecute", Seconds: &seconds}},
			Affinity:     json.RawMessage(`{"nodeAffinity":{}}`), ServiceAccount: "tasks", RuntimeClass: "gvisor",
			ImagePullSecrets: []string{"registry"}, PodTemplate: json.RawMessage(`{"spec":{"hostNetwork":true}}`),
		},
	}
}

func testPutPool(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	want := fullPool("p")
	got, created, err := s.PutPool(ctx, want)
	require.NoError(t, err)
	require.True(t, created)
	require.Empty(t, cmp.Diff(want, got))
	got, err = s.GetPool(ctx, "p")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got))
	list, err := s.ListPools(ctx)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]run.Pool{want}, list))
	want = run.Pool{Name: "p", Driver: "docker"}
	got, created, err = s.PutPool(ctx, want)
	require.NoError(t, err)
	require.False(t, created)
	require.Empty(t, cmp.Diff(want, got), "omitted fields are cleared")
	_, err = s.GetPool(ctx, "q")
	fixture.RequireCode(t, run.CodeNotFound, err)

	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	e := fixture.Executor("b")
	e.Pool, e.OS = "p", "windows"
	require.NoError(t, fixture.Register(t, s, e), "the pool has no os")
	for _, p := range []run.Pool{{Name: "linux", Driver: "shell"}, {Name: "linux", Driver: "docker", OS: "plan9"}, {Name: "p", Driver: "docker", OS: "linux"}} {
		_, _, err = s.PutPool(ctx, p)
		fixture.RequireCode(t, run.CodeConflict, err)
	}
	id := fixture.CreateHeld(t, s, "")
	_, err = s.RemoveExecutor(ctx, "a", run.Removal{})
	require.NoError(t, err)
	_, _, err = s.PutPool(ctx, run.Pool{Name: "linux", Driver: "shell"})
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, string(id), "a task of it has an image")
}

func testDeletePool(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	fixture.RequireCode(t, run.CodeNotFound, s.DeletePool(ctx, "linux"))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	fixture.RequireCode(t, run.CodeConflict, s.DeletePool(ctx, "linux"))
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	_, err := s.RemoveExecutor(ctx, "a", run.Removal{})
	require.NoError(t, err)
	fixture.RequireCode(t, run.CodeConflict, s.DeletePool(ctx, "linux"))
	require.NoError(t, s.CancelRun(ctx, r.ID, nil))
	_, _, err = s.PutFleet(ctx, "vms", run.FleetSpec{Pool: "linux", Plugin: "docker"}, "me")
	require.NoError(t, err)
	err = s.DeletePool(ctx, "linux")
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, "fleet vms")
	_, err = s.DeleteFleet(ctx, "vms", "me")
	require.NoError(t, err)
	fixture.RequireCode(t, run.CodeConflict, s.DeletePool(ctx, "linux"))
	_, err = s.ChangeFleet(ctx, "vms", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	require.NoError(t, s.DeletePool(ctx, "linux"))
	fixture.RequireCode(t, run.CodeNotFound, s.DeletePool(ctx, "linux"))
	require.NoError(t, fixture.Register(t, s, fixture.Executor("b")), "the pool is created again")
}

func testDefaultPool(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	var both sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		both.Go(func() {
			driver := map[string]string{"a": "docker", "b": "kubernetes", "c": "shell", "d": "shell"}[name]
			if _, _, err := s.PutPool(ctx, run.Pool{Name: name, Driver: driver, Default: true}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	list, err := s.ListPools(ctx)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.NotEqual(t, list[0].Default, list[1].Default)
	require.NotEqual(t, list[2].Default, list[3].Default)
}

func testPoolDefinition(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	p := fullPool("linux")
	for _, shared := range []bool{true, false} {
		p.Shared = shared
		_, _, err := s.PutPool(t.Context(), p)
		require.NoError(t, err)
		for _, policy := range []run.PullPolicy{"", run.PullIfNotPresent, run.PullNever, run.PullAlways} {
			spec := fixture.OneTask("/a/b")
			for _, task := range spec.Tasks {
				task.PullPolicy = policy
			}
			r := fixture.Create(t, s, spec)
			fixture.Begin(t, s, r.ID)
			fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
			definition := fixture.Claim(t, s, run.Key{Run: r.ID, Attempt: 1, Dispatch: 1})
			require.Empty(t, cmp.Diff(p.Kubernetes, definition.Kubernetes))
			switch {
			case shared:
				policy = run.PullAlways
			case policy == "":
				policy = run.PullIfNotPresent
			}
			require.Equal(t, policy, definition.PullPolicy)
		}
	}
}

// testPoolImages: a pool keeps the restrictions of images that a client leaves out, and
// tasks get the full names of their images and a pull policy of the pool.
func testPoolImages(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	put := func(p run.Pool) run.PoolImages {
		t.Helper()
		p.Name = "linux"
		_, _, err := s.PutPool(t.Context(), p)
		require.NoError(t, err)
		got, err := s.GetPool(t.Context(), "linux")
		require.NoError(t, err)
		return got.Images
	}
	define := func(change func(*run.TaskSpec)) run.Definition {
		t.Helper()
		spec := fixture.OneTask("/a/b")
		for _, task := range spec.Tasks {
			task.Image, task.Services = "alpine", []run.ServiceSpec{{Image: "postgres:16"}}
			task.Steps = []run.Step{{Run: "x", Image: "team/app:1@sha256:0"}, {Run: "x"}}
			change(task)
		}
		r := fixture.Create(t, s, spec)
		fixture.Begin(t, s, r.ID)
		fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
		return fixture.Claim(t, s, run.Key{Run: r.ID, Attempt: 1, Dispatch: 1})
	}
	images := func(d run.Definition) []string {
		return []string{d.Image, d.Steps[0].Image, d.Steps[1].Image, d.Services[0].Image}
	}
	as := func(policy run.PullPolicy) func(*run.TaskSpec) {
		return func(t *run.TaskSpec) { t.PullPolicy = policy }
	}
	none := func(*run.TaskSpec) {}

	require.Zero(t, put(run.Pool{Driver: "docker"}))
	d1 := define(none)
	require.Equal(t, []string{"alpine", "team/app:1@sha256:0", "", "postgres:16"}, images(d1))
	require.Equal(t, run.PullIfNotPresent, d1.PullPolicy)

	want := run.PoolImages{AllowedServices: []string{"postgres"}, PullPolicies: []run.PullPolicy{run.PullAlways, run.PullNever}}
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: want}))
	d1 = define(none)
	require.Equal(t, []string{"alpine", "team/app:1@sha256:0", "", "docker.io/library/postgres:16"}, images(d1))
	require.Equal(t, "postgres", d1.Services[0].Name)
	require.Equal(t, run.PullAlways, d1.PullPolicy)
	require.Equal(t, run.PullNever, define(as(run.PullNever)).PullPolicy)
	require.Equal(t, run.PullAlways, define(as(run.PullIfNotPresent)).PullPolicy, "it was submitted before")

	want.Allowed = []string{"alpine", "team/*"}
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{Allowed: want.Allowed}}))
	require.Equal(t, want, put(run.Pool{Driver: "kubernetes"}))
	require.Equal(t, []string{"docker.io/library/alpine:latest", "docker.io/team/app@sha256:0", "", "docker.io/library/postgres:16"}, images(define(none)))
	want.PullPolicies = []run.PullPolicy{run.PullNever, run.PullIfNotPresent}
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{PullPolicies: want.PullPolicies}}))
	require.Equal(t, run.PullIfNotPresent, define(none).PullPolicy)
	_, _, err := s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: "docker", Shared: true})
	fixture.RequireCode(t, run.CodeInvalid, err) // its list stays
	want.PullPolicies = []run.PullPolicy{run.PullNever, run.PullAlways}
	require.Equal(t, want, put(run.Pool{Driver: "docker", Shared: true, Images: run.PoolImages{PullPolicies: want.PullPolicies}}))
	require.Equal(t, run.PullAlways, define(none).PullPolicy)

	want.Rewrites = map[string]string{"docker.io": "mirror.example.com/hub"}
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{Rewrites: want.Rewrites}}))
	require.Equal(t, []string{
		"mirror.example.com/hub/library/alpine:latest", "mirror.example.com/hub/team/app@sha256:0", "", "mirror.example.com/hub/library/postgres:16",
	}, images(define(none)))
	require.Equal(t, "postgres", define(none).Services[0].Name)
	require.Equal(t, want, put(run.Pool{Driver: "docker"}), "an earlier client does not know them")
	want.Rewrites = nil
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{Rewrites: map[string]string{}}}))
	want.Registries = map[string]run.PoolRegistry{"docker.io": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n", Key: "k"}}}
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{Registries: want.Registries}}))
	require.Equal(t, want.Registries, define(none).PoolRegistries)
	require.Equal(t, want, put(run.Pool{Driver: "docker"}), "an earlier client does not know them")
	want.Registries = nil
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{Registries: map[string]run.PoolRegistry{}}}))

	want.Default = "alpine"
	require.Equal(t, want, put(run.Pool{Driver: "docker", Images: run.PoolImages{Default: "alpine"}}))
	want.Default = ""
	require.Equal(t, want, put(run.Pool{Driver: "docker"}), "it restricts nothing, and is replaced like other settings")

	volumes, _, err := s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: "docker", AllowedVolumes: []string{"cache", "build-*"}, AllowedHostPaths: []string{"/srv/*"}, AllowedDevices: []string{"/dev/kvm"}})
	require.NoError(t, err)
	require.Equal(t, []string{"cache", "build-*"}, volumes.AllowedVolumes)
	require.Equal(t, []string{"/srv/*"}, volumes.AllowedHostPaths)
	require.Equal(t, []string{"/dev/kvm"}, volumes.AllowedDevices)
	allowed := func(p run.Pool) []string {
		require.Equal(t, want, put(p))
		got, err := s.GetPool(t.Context(), "linux")
		require.NoError(t, err)
		return slices.Concat(got.AllowedVolumes, got.AllowedHostPaths, got.AllowedDevices)
	}
	require.Equal(t, []string{"cache", "build-*", "/srv/*", "/dev/kvm"}, allowed(run.Pool{Driver: "docker"}), "an earlier client does not know them")
	require.Equal(t, []string{"/srv/*", "/dev/kvm"}, allowed(run.Pool{Driver: "docker", AllowedVolumes: []string{}}), "each is kept on its own")
	require.Equal(t, []string{"/dev/kvm"}, allowed(run.Pool{Driver: "docker", AllowedHostPaths: []string{}}))
	require.Empty(t, allowed(run.Pool{Driver: "docker", AllowedDevices: []string{}}))
	require.Empty(t, allowed(run.Pool{Driver: "docker"}), "they were removed")
	require.Len(t, allowed(run.Pool{Driver: "docker", AllowedVolumes: []string{"cache"}, AllowedHostPaths: []string{"/srv/a"}, AllowedDevices: []string{"/dev/kvm"}}), 3)
	require.Empty(t, allowed(run.Pool{Driver: "kubernetes"}), "only pools on docker have them")
	require.Empty(t, allowed(run.Pool{Driver: "docker"}))

	_, _, err = s.PutPool(t.Context(), run.Pool{Name: "idle", Driver: "docker", Images: want})
	require.NoError(t, err)
	got, _, err := s.PutPool(t.Context(), run.Pool{Name: "idle", Driver: run.DriverShell})
	require.NoError(t, err)
	require.Zero(t, got.Images, "its tasks have no images")
}

// testExpireClockJumps repeatedly sets the clock forwards by more than a
// temporary executor may be offline, while it is in contact: it is not removed.
// Once it is silent it is removed, also if the clock is set back meanwhile.
func testExpireClockJumps(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	e := fixture.Executor("a")
	e.Temporary, e.RemoveAfter = true, time.Minute
	require.NoError(t, fixture.Register(t, s, e))
	id := fixture.CreateHeld(t, s, "a")
	takeRemovals(t, s)
	look := func() (run.ExecutorState, time.Duration) {
		t.Helper()
		got, again, err := s.ExpireExecutor(ctx, "a")
		require.NoError(t, err)
		return got.State, again
	}
	for range 3 {
		d.Clock.Advance(time.Hour)
		state, again := look()
		require.Equal(t, []any{run.ExecutorOffline, run.ExecutorTimeout}, []any{state, again})
		d.Clock.Advance(run.ExecutorRenew)
		require.NoError(t, fixture.Renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a", SlotsUsed: 1}))
		d.Clock.Advance(again - run.ExecutorRenew)
		state, again = look()
		require.Equal(t, run.ExecutorOnline, state)
		require.Greater(t, again, run.ExecutorTimeout)
	}
	require.Empty(t, takeRemovals(t, s))

	d.Clock.Advance(time.Hour)
	look()
	d.Clock.Advance(-30 * time.Minute)
	_, again := look()
	require.Equal(t, run.ExecutorTimeout, again, "the time of the first check is in the future now")
	d.Clock.Advance(again)
	state, _ := look()
	require.Equal(t, run.ExecutorRemoved, state)
	require.Len(t, takeRemovals(t, s)[id], 1)
}
