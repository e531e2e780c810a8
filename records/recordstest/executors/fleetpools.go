package executors

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func testPoolOfFleets(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "base", nil)
	spotFleet := putFleet(t, s, "spot", func(x *run.FleetSpec) {
		x.Priority, x.Quota = -1, &run.FleetQuota{Name: "q", Limit: 10}
	})
	putFleet(t, s, "elsewhere", func(x *run.FleetSpec) { x.Quota = spotFleet.Spec.Quota })
	_, _, err := s.PutPool(t.Context(), run.Pool{Name: "other", Driver: fixture.Executor("any").Driver})
	require.NoError(t, err)
	moved := spotFleet.Spec
	moved.Pool = "other"
	_, _, err = s.PutFleet(t.Context(), "elsewhere", moved, "me")
	require.NoError(t, err)
	putFleet(t, s, "late", nil)
	_, err = s.DeleteFleet(t.Context(), "late", "me")
	require.NoError(t, err)
	_, err = s.ChangeFleet(t.Context(), "late", records.FleetChanges{Deleted: true})
	require.NoError(t, err)

	policyState := "of spot"
	ready := ledgerRow(run.InstanceReady)
	ready.Instance = "vm-1"
	_, err = s.ChangeFleet(t.Context(), "spot", records.FleetChanges{
		Add: []records.LedgerChange{ledgerRow(run.InstanceRequested), ready, ledgerRow(run.InstanceGone)}, PolicyState: &policyState,
		Status: &run.FleetStatus{MaxSize: 9},
	})
	require.NoError(t, err)
	e := fixture.Executor("a")
	e.Fleet, e.Instance = "spot", "vm-1"
	require.NoError(t, fixture.Register(t, s, e))

	v, err := s.ViewFleet(t.Context(), "base")
	require.NoError(t, err)
	require.Len(t, v.Pool, 1, "the other fleets are of another pool, or deleted")
	o := v.Pool[0]
	require.Equal(t, "spot", o.Fleet.Name)
	require.Equal(t, -1, o.Fleet.Spec.Priority)
	require.EqualValues(t, 9, o.Fleet.Status.MaxSize)
	require.Equal(t, policyState, o.PolicyState)
	require.Len(t, o.Instances, 2)
	require.Len(t, o.Executors, 1)
	require.Len(t, o.QuotaShares, 1)
	require.Equal(t, "elsewhere", o.QuotaShares[0].Fleet)
	require.Empty(t, o.Pool)
	require.Empty(t, v.FreeSlots, "the executor is of a fleet")
	v, err = s.ViewFleet(t.Context(), "elsewhere")
	require.NoError(t, err)
	require.Empty(t, v.Pool)
}

// testFleetGroups: a pool has the groups of the fleets whose machines serve it, until these
// are removed. A client that does not know the groups keeps them.
func testFleetGroups(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	pool := fixture.Executor("any").Pool
	groups := func(name string) []run.FleetGroups {
		t.Helper()
		p, err := s.GetPool(ctx, name)
		require.NoError(t, err)
		all, err := s.ListPools(ctx)
		require.NoError(t, err)
		i := slices.IndexFunc(all, func(p run.Pool) bool { return p.Name == name })
		require.Empty(t, cmp.Diff(p, all[i]))
		return p.FleetGroups
	}
	open := putFleet(t, s, "open", nil)
	require.Empty(t, open.Spec.AllowedGroups)
	require.Empty(t, groups(pool))
	acme := []string{"/acme/**", "/shared/ci/**"}
	of := putFleet(t, s, "acme", func(x *run.FleetSpec) { x.AllowedGroups = acme })
	require.Equal(t, acme, of.Spec.AllowedGroups)
	putFleet(t, s, "web", func(x *run.FleetSpec) { x.AllowedGroups = []string{"/acme/web/**"} })
	require.Equal(t, []run.FleetGroups{{Fleet: "acme", AllowedGroups: acme}, {Fleet: "web", AllowedGroups: []string{"/acme/web/**"}}}, groups(pool))
	put, _, err := s.PutPool(ctx, run.Pool{Name: pool, Driver: fixture.Executor("any").Driver})
	require.NoError(t, err)
	require.Len(t, put.FleetGroups, 2)
	view, err := s.ViewFleet(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, acme, view.Fleet.Spec.AllowedGroups)

	kept, _, err := s.PutFleet(ctx, "acme", open.Spec, "me")
	require.NoError(t, err)
	require.Equal(t, acme, kept.Spec.AllowedGroups, "the client does not know the groups")
	changed := kept.Spec
	changed.PluginConfig = json.RawMessage(`{"image":"b"}`)
	_, _, err = s.PutFleet(ctx, "acme", changed, "me")
	require.NoError(t, err)
	undone, err := s.UndoFleet(ctx, "acme", run.FleetUndo{Revision: 1, By: "me"})
	require.NoError(t, err)
	require.Equal(t, acme, undone.Spec.AllowedGroups)
	paused, err := s.ControlFleet(ctx, "acme", run.FleetControl{Action: run.FleetActionPause, By: "me"})
	require.NoError(t, err)
	require.Equal(t, acme, paused.Spec.AllowedGroups)
	require.Len(t, groups(pool), 2, "a paused fleet has its machines")

	// The machines of a fleet that moves stay in its pool, until they are removed.
	_, err = s.ChangeFleet(ctx, "acme", records.FleetChanges{Add: []records.LedgerChange{readyRow("vm-1")}})
	require.NoError(t, err)
	e := fixture.Executor("a")
	e.Fleet, e.Instance = "acme", "vm-1"
	require.NoError(t, fixture.Register(t, s, e))
	_, _, err = s.PutPool(ctx, run.Pool{Name: "other", Driver: e.Driver})
	require.NoError(t, err)
	moved := undone.Spec
	moved.Pool, moved.AllowedGroups = "other", []string{"/third/**"}
	_, _, err = s.PutFleet(ctx, "acme", moved, "me")
	require.NoError(t, err)
	third := run.FleetGroups{Fleet: "acme", AllowedGroups: moved.AllowedGroups}
	require.Contains(t, groups(pool), third)
	require.Equal(t, []run.FleetGroups{third}, groups("other"))
	_, err = s.RemoveExecutor(ctx, "a", run.Removal{Force: true})
	require.NoError(t, err)
	require.NotContains(t, groups(pool), third)

	_, err = s.DeleteFleet(ctx, "acme", "me")
	require.NoError(t, err)
	require.Len(t, groups("other"), 1, "its machines are not gone yet")
	_, err = s.ChangeFleet(ctx, "acme", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	require.Empty(t, groups("other"))
	fresh, created, err := s.PutFleet(ctx, "acme", open.Spec, "me")
	require.NoError(t, err)
	require.True(t, created)
	require.Empty(t, fresh.Spec.AllowedGroups, "it is another fleet")
	all, _, err := s.PutFleet(ctx, "web", run.FleetSpec{Pool: pool, Plugin: "docker", AllowedGroups: []string{run.AllGroups}}, "me")
	require.NoError(t, err)
	require.Equal(t, []string{run.AllGroups}, all.Spec.AllowedGroups)
	require.Empty(t, groups(pool), "it allows all")
}

func readyRow(instance string) records.LedgerChange {
	row := ledgerRow(run.InstanceReady)
	row.Instance = instance
	return row
}

func testFreeSlots(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	putFleet(t, s, "linux", nil)
	free := func() int {
		t.Helper()
		v, err := s.ViewFleet(t.Context(), "linux")
		require.NoError(t, err)
		n := 0
		for _, free := range v.FreeSlots {
			n += free.Free
		}
		return n
	}
	require.Zero(t, free())
	a, b := fixture.Executor("a"), fixture.Executor("b")
	a.Slots, b.Slots = 3, 1
	require.NoError(t, fixture.Register(t, s, a))
	require.NoError(t, fixture.Register(t, s, b))
	require.Equal(t, 4, free())
	fixture.CreateHeld(t, s, "a", "a", "b", "") // tasks claimed by executors, and a queued one
	require.Equal(t, 1, free())
	v, err := s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Equal(t, []records.QueuedTasks{{Queued: 1}}, v.Tasks)
	_, err = s.DrainExecutor(t.Context(), "a", true, "new kernel")
	require.NoError(t, err)
	require.Zero(t, free())
	_, err = s.DrainExecutor(t.Context(), "a", false, "")
	require.NoError(t, err)
	require.Equal(t, 1, free())
	d.Clock.Advance(run.ExecutorTimeout + time.Second)
	require.Zero(t, free(), "the executors are offline")
	d.Clock.Advance(run.SlotTimeout)
	v, err = s.ViewFleet(t.Context(), "linux")
	require.NoError(t, err)
	require.Equal(t, []records.QueuedTasks{{Queued: 1, Overdue: 1}}, v.Tasks)
}

// testPoolRace runs workers of two fleets of one pool that concurrently request
// machines for the same tasks.
func testPoolRace(t *testing.T, d *fixture.Database) {
	const tasks = 7
	s := d.Store(t)
	putFleet(t, s, "a", nil)
	putFleet(t, s, "b", nil)
	capacity := func(v records.FleetView) int { return tasks - len(v.Instances) - len(v.Pool[0].Instances) }
	requestConcurrently(t, s, capacity)
	v, err := s.ViewFleet(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, tasks, len(v.Instances)+len(v.Pool[0].Instances))
}
