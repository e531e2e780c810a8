package executors

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// FleetTests returns the tests of fleets, by name.
func FleetTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"put_and_get":                       testPutFleet,
		"revisions":                         testRevisions,
		"allowed_groups":                    testFleetGroups,
		"steered":                           testSteerFleet,
		"ledger":                            testLedger,
		"requests_are_idempotent":           testLedgerRequest,
		"uses_are_counted":                  testUses,
		"deleted_and_created_again":         testDeleteFleet,
		"quotas":                            testFleetQuota,
		"quotas_under_races":                testFleetQuotaRace,
		"upcoming_tasks":                    testUpcoming,
		"fleets_of_one_pool":                testPoolOfFleets,
		"free_slots_of_a_pool":              testFreeSlots,
		"labels":                            testLabelledFleets,
		"resources":                         testResources,
		"pool_under_races":                  testPoolRace,
		"acquire_timeout":                   testAcquireTimeout,
		"acquire_timeout_of_labels":         testAcquireTimeoutOfLabels,
		"acquire_timeout_of_unknown_labels": testAcquireTimeoutOfUnknownLabels,
	}
}

// putFleet creates a fleet of the pool of executor.
func putFleet(t *testing.T, s records.Store, name string, change func(*run.FleetSpec)) run.Fleet {
	t.Helper()
	pool := fixture.Executor("any").Pool
	_, _, err := s.PutPool(t.Context(), run.Pool{Name: pool, Driver: fixture.Executor("any").Driver})
	require.NoError(t, err)
	spec := run.FleetSpec{Pool: pool, Plugin: "docker", PluginConfig: json.RawMessage(`{"image":"a"}`)}
	if change != nil {
		change(&spec)
	}
	f, _, err := s.PutFleet(t.Context(), name, spec, "me")
	require.NoError(t, err)
	return f
}

func testPutFleet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, _, err := s.PutFleet(t.Context(), "linux", run.FleetSpec{Pool: "nope", Plugin: "docker"}, "me")
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "there is no such pool")
	wake, stop := s.WatchFleets()
	defer stop()
	f := putFleet(t, s, "linux", func(x *run.FleetSpec) {
		x.ConnectorConfig.Password = "hidden"
		x.MaxUseCount = 3
		x.Policy = []run.ScalingPolicy{{IdleCount: 2}}
	})
	<-wake
	require.Equal(t, run.FleetActive, f.Mode)
	require.EqualValues(t, 1, f.Version)
	require.JSONEq(t, `{"image":"a"}`, string(f.Spec.PluginConfig))
	require.Equal(t, "hidden", f.Spec.ConnectorConfig.Password)
	require.Equal(t, 2, f.Spec.Policy[0].IdleCount)
	rows := fixture.TakeAll(t, s)
	require.Len(t, rows, 1)
	require.Equal(t, records.OutboxFleet, rows[0].Kind)
	require.Equal(t, "linux", rows[0].Fleet)
	require.Empty(t, rows[0].Run)

	got, err := s.GetFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(f, got))
	again, created, err := s.PutFleet(t.Context(), "linux", f.Spec, "you")
	require.NoError(t, err)
	require.False(t, created)
	require.EqualValues(t, 2, again.Version)
	all, err := s.ListFleets(t.Context())
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]run.Fleet{again}, all))
	_, err = s.GetFleet(t.Context(), "nope")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	events, err := s.FleetEvents(t.Context(), "linux", -1, 10)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, []string{"made", "changed"}, []string{events[0].Kind, events[1].Kind})
	require.Equal(t, "you", events[1].By)
	events, err = s.FleetEvents(t.Context(), "linux", 1, 10)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.EqualValues(t, 2, events[0].Number)
}

func testSteerFleet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	steer := func(action run.FleetAction, n int) run.Fleet {
		t.Helper()
		f, err := s.ControlFleet(t.Context(), "linux", run.FleetControl{Action: action, Instances: n, By: "me", Reason: "so"})
		require.NoError(t, err)
		return f
	}
	require.Equal(t, run.FleetPaused, steer(run.FleetActionPause, 0).Mode)
	require.Equal(t, 4, *steer(run.FleetActionScale, 4).Desired)
	f := steer(run.FleetActionDrain, 0)
	require.Equal(t, run.FleetDraining, f.Mode)
	require.Equal(t, "so", f.Reason)
	f = steer(run.FleetActionResume, 0)
	require.Equal(t, run.FleetActive, f.Mode)
	require.Nil(t, f.Desired)
	got, err := s.GetFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(f, got))
	_, err = s.ControlFleet(t.Context(), "nope", run.FleetControl{Action: run.FleetActionPause})
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}

func ledgerRow(state run.InstanceState) records.LedgerChange {
	return records.LedgerChange{
		LedgerRow: records.LedgerRow{FleetInstance: run.FleetInstance{State: state, Cause: run.CauseRequested, Message: "a task waits", Reason: "demand"}},
		Event:     &run.FleetEvent{Kind: "requested", By: "fleet", Text: "a task waits"},
	}
}

func testLedger(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	add := records.FleetChanges{Add: []records.LedgerChange{ledgerRow(run.InstanceRequested), ledgerRow(run.InstanceRequested)}}
	numbers, err := s.ChangeFleet(t.Context(), "linux", add)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, numbers)

	v, err := s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Len(t, v.Instances, 2)
	first := records.LedgerChange{LedgerRow: v.Instances[0], From: run.InstanceRequested}
	first.State, first.Instance, first.Failures, first.Misses, first.Acknowledged = run.InstanceCreating, "vm-1", 2, 3, true
	stale := records.LedgerChange{LedgerRow: v.Instances[1], From: run.InstanceReady, Event: &run.FleetEvent{Kind: "lie", By: "fleet"}}
	policyState := "remember"
	numbers, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{
		Set: []records.LedgerChange{first, stale}, PolicyState: &policyState, Status: &run.FleetStatus{Group: "g", Target: 4},
	})
	require.NoError(t, err)
	require.Equal(t, []int{1}, numbers, "the other row is in another state")
	v, err = s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(first.LedgerRow, v.Instances[0]))
	require.Equal(t, run.InstanceRequested, v.Instances[1].State)
	require.Equal(t, policyState, v.PolicyState)
	require.Equal(t, 4, v.Fleet.Status.Target)

	// An error leaves the rest of the status.
	wake, stop := s.WatchFleets()
	defer stop()
	at := time.Date(2026, 3, 17, 12, 0, 0, 0, time.UTC)
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Error: &records.FleetError{Text: "no servers left", At: at}})
	require.NoError(t, err)
	<-wake
	v, err = s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(run.FleetStatus{Group: "g", Target: 4, Error: "no servers left", ErrorAt: at}, v.Fleet.Status))

	// The ledger has one row per machine.
	twice := ledgerRow(run.InstanceCreating)
	twice.Instance = "vm-1"
	numbers, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{twice}})
	require.NoError(t, err)
	require.Empty(t, numbers)

	gone := first
	gone.From, gone.State = run.InstanceCreating, run.InstanceGone
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Set: []records.LedgerChange{gone}})
	require.NoError(t, err)
	for withGone, want := range map[bool]int{false: 1, true: 2} {
		all, err := s.FleetInstances(t.Context(), "linux", withGone)
		require.NoError(t, err)
		require.Len(t, all, want)
	}
	f, err := s.GetFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Equal(t, map[run.InstanceState]int{run.InstanceRequested: 1}, f.Counts)
	events, err := s.FleetEvents(t.Context(), "linux", -1, 10)
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, 2, events[2].Instance)
	_, err = s.ChangeFleet(t.Context(), "nope", add)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}

func testLedgerRequest(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	c := ledgerRow(run.InstanceRequested)
	c.Request = "one"
	for i := range 3 {
		numbers, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Request: "one", Add: []records.LedgerChange{c, c}})
		require.NoError(t, err)
		require.Len(t, numbers, map[bool]int{true: 2, false: 0}[i == 0])
	}
}

func testUses(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", func(x *run.FleetSpec) { x.MaxUseCount = 2 })
	e := instanceOf("a", "linux", "vm-1")
	require.NoError(t, fixture.Register(t, s, e))
	stranger := instanceOf("b", "nope", "vm-2")
	require.NoError(t, fixture.Register(t, s, stranger))
	id := fixture.CreateHeld(t, s, "a", "a", "b", "")
	got, err := s.GetExecutor(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, 2, got.Uses)
	require.Equal(t, "vm-1", got.Instance)
	require.Equal(t, run.ExecutorDraining, got.State, "the executor claimed its last task")
	key := run.Key{Run: id, Task: 3, Attempt: 1, Dispatch: 1}
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "a", JournalID: "j-a"})
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	// A repeated claim does not count as a use.
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: id, Task: 0, Attempt: 1, Dispatch: 1}, Executor: "a", JournalID: "j-a"})
	require.NoError(t, err)
	require.NoError(t, fixture.Register(t, s, e), "the count of uses is kept")
	v, err := s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Len(t, v.Executors, 1)
	require.Equal(t, 2, v.Executors[0].Uses)
	require.Equal(t, 2, v.Executors[0].Tasks)
	require.Equal(t, []records.QueuedTasks{{Queued: 1}}, v.Tasks)
	got, err = s.GetExecutor(t.Context(), "b")
	require.NoError(t, err)
	require.Zero(t, got.Uses)
	require.Empty(t, got.Fleet, "there is no such fleet")
}

func testDeleteFleet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := putFleet(t, s, "linux", nil).Spec
	numbers, err := s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{ledgerRow(run.InstanceGone)}})
	require.NoError(t, err)
	require.Equal(t, []int{1}, numbers)
	for range 2 {
		f, err := s.DeleteFleet(t.Context(), "linux", "me")
		require.NoError(t, err)
		require.Equal(t, run.FleetDeleting, f.Mode)
	}
	_, _, err = s.PutFleet(t.Context(), "linux", spec, "me")
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	_, err = s.ControlFleet(t.Context(), "linux", run.FleetControl{Action: run.FleetActionResume})
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	_, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	_, err = s.GetFleet(t.Context(), "linux")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	_, err = s.ViewFleet(t.Context(), "linux")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	all, err := s.FleetInstances(t.Context(), "linux", true)
	require.NoError(t, err)
	require.Len(t, all, 1, "the ledger stays")
	f, created, err := s.PutFleet(t.Context(), "linux", spec, "me")
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, run.FleetActive, f.Mode)
	numbers, err = s.ChangeFleet(t.Context(), "linux", records.FleetChanges{Add: []records.LedgerChange{ledgerRow(run.InstanceRequested)}})
	require.NoError(t, err)
	require.Equal(t, []int{2}, numbers, "numbers continue")
}

func testFleetQuota(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	shared := func(x *run.FleetSpec) { x.Quota = &run.FleetQuota{Name: "q", Limit: 10} }
	putFleet(t, s, "a", shared)
	putFleet(t, s, "b", shared)
	putFleet(t, s, "c", nil)
	_, err := s.ChangeFleet(t.Context(), "b", records.FleetChanges{
		Add: []records.LedgerChange{ledgerRow(run.InstanceRequested)}, Status: &run.FleetStatus{Target: 7},
	})
	require.NoError(t, err)
	v, err := s.ViewFleet(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, v.QuotaShares, 1)
	require.Equal(t, "b", v.QuotaShares[0].Fleet)
	require.Equal(t, 1, v.QuotaShares[0].Instances)
	require.Equal(t, 7, v.QuotaShares[0].Target)
}

// testFleetQuotaRace runs workers of two fleets that concurrently request the
// rest of the quota that they share.
func testFleetQuotaRace(t *testing.T, d *fixture.Database) {
	const limit = 7
	s := d.Store(t)
	shared := func(x *run.FleetSpec) { x.Quota = &run.FleetQuota{Name: "q", Limit: limit} }
	putFleet(t, s, "a", shared)
	putFleet(t, s, "b", shared)
	capacity := func(v records.FleetView) int {
		instances := len(v.Instances)
		for _, other := range v.QuotaShares {
			instances += other.Instances
		}
		return limit - instances
	}
	requestConcurrently(t, s, capacity)
	total := 0
	for _, name := range []string{"a", "b"} {
		instances, err := s.FleetInstances(t.Context(), name, false)
		require.NoError(t, err)
		total += len(instances)
	}
	require.Equal(t, limit, total)
}

// requestConcurrently runs workers of the fleets a and b, each of which requests
// two machines at a time, five times, as far as there is capacity.
func requestConcurrently(t *testing.T, s records.Store, capacity func(records.FleetView) int) {
	t.Helper()
	var workers sync.WaitGroup
	for _, fleet := range []string{"a", "b", "a", "b"} {
		workers.Go(func() {
			for range 5 {
				if _, err := s.ChangeFleet(t.Context(), fleet, records.FleetChanges{
					Capacity: capacity, Add: []records.LedgerChange{ledgerRow(run.InstanceRequested), ledgerRow(run.InstanceRequested)},
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

func testUpcoming(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	require.NoError(t, fixture.Register(t, s, fixture.Executor("a")))
	pool := fixture.Executor("a").Pool
	step := []run.Step{{Run: "true"}}
	r := fixture.Create(t, s, &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"a-build": {Pool: pool, Steps: step},
		"b-test":  {Pool: pool, Steps: step, Depends: []run.Depend{{Task: "a-build"}}},
		"c-late":  {Pool: pool, Steps: step, Depends: []run.Depend{{Task: "b-test"}}},
	}})
	fixture.Begin(t, s, r.ID)
	count := func() int {
		t.Helper()
		n, err := s.UpcomingTasks(t.Context(), pool, 10)
		require.NoError(t, err)
		return n
	}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.Zero(t, count())
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: r.ID, Task: 0, Attempt: 1, Dispatch: 1}, Executor: "a", JournalID: "j-a"})
	require.NoError(t, err)
	require.Equal(t, 1, count())
	n, err := s.UpcomingTasks(t.Context(), "elsewhere", 10)
	require.NoError(t, err)
	require.Zero(t, n)
}
