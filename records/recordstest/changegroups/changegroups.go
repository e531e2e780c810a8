// Package changegroups tests the change groups of a records.Store, its update
// tokens and its idempotency keys.
package changegroups

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// Tests returns the tests of change groups, tokens and idempotency keys, by name.
func Tests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"limit":                       testGroupLimit,
		"priority_then_first_come":    testGroupOrder,
		"all_groups_or_none":          testGroupsTogether,
		"no_overtaking":               testGroupNoOvertaking,
		"no_limit":                    testGroupNoLimit,
		"manual":                      testGroupManual,
		"path":                        testGroupPath,
		"setup_error":                 testGroupSetupError,
		"on_busy/reject":              testGroupReject,
		"on_busy/reject_first":        testGroupRejectFirst,
		"on_busy/cancel_queued":       testGroupCancelQueued,
		"on_busy/stop_running":        testGroupStopRunning,
		"on_busy/stop_running/begun":  testGroupStopNotBegun,
		"on_busy/stop_running/second": testGroupStopSecondGroup,
		"on_busy/many":                testGroupPreemptMany,
		"on_busy/large":               testGroupPreemptLarge,
		"limit_raised":                testGroupRaised,
		"limit_raised/past_others":    testGroupRaisedBehindOthers,
		"close_lost":                  testGroupCloseLost,
		"deleted":                     testGroupDeleted,
		"list":                        testGroupList,
		"filter":                      testGroupFilter,
		"waits":                       testGroupWaits,
		"queue_positions":             testQueuePositions,
		"many_waiting":                testGroupManyWaiting,
		"waits/many":                  testGroupWaitsMany,
		"race/create":                 testGroupRaceCreate,
		"race/all":                    testGroupRaceAll,
		"token":                       testToken,
		"token/calls":                 testTokenCalls,
		"token/kept_on_refusal":       testTokenRefused,
		"token/of_unnamed_groups":     testTokenUnnamed,
		"token/clients_race":          testTokenRace,
		"idempotency":                 testIdempotency,
		"idempotency/expires":         testIdempotencyExpires,
		"idempotency/deleted":         testIdempotencyDeleted,
		"idempotency/race":            testIdempotencyRace,
		"model":                       testGroupModel,
		"tasks":                       testTaskSlots,
		"tasks/units":                 testTaskSlotsUnits,
		"tasks/all_or_none":           testTaskSlotsTogether,
		"tasks/before_runs":           testTaskSlotsBeforeRuns,
		"tasks/circle":                testTaskSlotsCircle,
		"tasks/circle/manual":         testTaskSlotsCircleManual,
		"tasks/claim":                 testTaskSlotsClaim,
		"tasks/queued":                testTaskSlotsQueued,
		"tasks/at_once":               testTaskSlotsAtOnce,
		"tasks/with_conditions":       testTaskSlotsWithConditions,
		"tasks/positions":             testTaskSlotsPositions,
		"tasks/policies":              testTaskSlotsPolicies,
		"tasks/preempted_token":       testTaskSlotsPreemptedToken,
		"tasks/foreach":               testTaskSlotsForeach,
		"tasks/restart":               testTaskSlotsRestart,
		"tasks/closed":                testTaskSlotsClosed,
		"tasks/attempts":              testTaskSlotsAttempts,
		"tasks/token":                 testTaskSlotsToken,
		"tasks/many":                  testTaskSlotsMany,
		"tasks/race":                  testTaskSlotsRace,
		"tasks/model":                 testTaskSlotsModel,
	}
}

// members returns the runs of a group: those that hold a slot, and those queued.
func members(t testing.TB, s records.Store, name string) (running, queued []run.ID) {
	t.Helper()
	groups, _, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{name}})
	require.NoError(t, err)
	require.Len(t, groups, 1)
	return groups[0].Running, groups[0].Queued
}

// grantAll does the work of the change-group workflows: it grants slots for the
// outbox rows until there are none left, and returns the admitted runs.
func grantAll(t testing.TB, s records.Store) []run.ID {
	t.Helper()
	var admitted []run.ID
	for _, g := range grantEach(t, s) {
		require.Equal(t, -1, g.Task)
		admitted = append(admitted, g.Run)
	}
	return admitted
}

// grantEach grants slots for the outbox rows until there are none left.
func grantEach(t testing.TB, s records.Store) []records.Grant {
	t.Helper()
	var admitted []records.Grant
	for {
		rows := fixture.TakeAll(t, s)
		if len(rows) == 0 {
			return admitted
		}
		for _, row := range rows {
			if row.Kind == records.OutboxGrant {
				require.NotEmpty(t, row.ChangeGroup)
				require.Empty(t, row.Run)
				for more := true; more; {
					var granted []records.Grant
					var err error
					granted, more, err = s.Grant(t.Context(), row.ChangeGroup)
					require.NoError(t, err)
					admitted = append(admitted, granted...)
				}
			}
			require.NoError(t, s.CompleteOutbox(t.Context(), row.ID))
		}
	}
}

func testGroupLimit(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, b := fixture.Create(t, s, fixture.Grouped(3, "g")), fixture.Create(t, s, fixture.Grouped(3, "g"))
	running, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{a.ID}, running, "it holds its slot from the moment it was created")
	require.Equal(t, []run.ID{b.ID}, waiting)
	status, err := s.Begin(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseQueued, status.Phase)
	waits, err := s.GroupWaits(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, []records.GroupWait{{Group: "g", MaxRunning: 1, Holding: 1, Holders: []run.ID{a.ID}, Position: 1}}, waits)
	require.Empty(t, grantAll(t, s))

	fixture.Finish(t, s, a.ID)
	require.Equal(t, []run.ID{b.ID}, grantAll(t, s))
	got := fixture.Get(t, s, b.ID)
	require.Equal(t, run.PhaseRunning, got.Phase, "the transaction that admits it starts it")
	require.False(t, got.StartedAt.IsZero())
	fixture.Begin(t, s, b.ID)
	fixture.Finish(t, s, b.ID)
	running, waiting = members(t, s, "g")
	require.Empty(t, running)
	require.Empty(t, waiting)
}

func testGroupOrder(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	holder := fixture.Create(t, s, fixture.Grouped(3, "g"))
	var ids []run.ID
	for _, priority := range []int{5, 3, 1, 3} {
		ids = append(ids, fixture.Create(t, s, fixture.Grouped(priority, "g")).ID)
	}
	want := []run.ID{ids[2], ids[1], ids[3], ids[0]}
	_, waiting := members(t, s, "g")
	require.Equal(t, want, waiting)
	for _, next := range want {
		fixture.Finish(t, s, holder.ID)
		require.Equal(t, []run.ID{next}, grantAll(t, s))
		holder.ID = next
	}
}

func testGroupsTogether(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	fixture.Limit(t, s, "h", 1, run.OnBusyQueue)
	inG, inH := fixture.Create(t, s, fixture.Grouped(3, "g")), fixture.Create(t, s, fixture.Grouped(3, "h"))
	both := fixture.Create(t, s, fixture.Grouped(3, "h", "g"))
	fixture.Finish(t, s, inG.ID)
	require.Empty(t, grantAll(t, s))
	running, _ := members(t, s, "g")
	require.Empty(t, running, "a run takes all slots or none")
	waits, err := s.GroupWaits(t.Context(), both.ID)
	require.NoError(t, err)
	require.Equal(t, []records.GroupWait{{Group: "g", MaxRunning: 1, Position: 1}, {Group: "h", MaxRunning: 1, Holding: 1, Holders: []run.ID{inH.ID}, Position: 1}}, waits)
	fixture.Finish(t, s, inH.ID)
	require.Equal(t, []run.ID{both.ID}, grantAll(t, s))
}

func testGroupNoOvertaking(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	fixture.Limit(t, s, "h", 1, run.OnBusyQueue)
	inH := fixture.Create(t, s, fixture.Grouped(3, "h"))
	both := fixture.Create(t, s, fixture.Grouped(3, "g", "h"))
	later := fixture.Create(t, s, fixture.Grouped(3, "g"))
	_, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{both.ID, later.ID}, waiting, "a run that waits for another group too keeps its position")
	require.NoError(t, s.CancelRun(t.Context(), both.ID, nil))
	require.Equal(t, []run.ID{later.ID}, grantAll(t, s), "the next run is admitted once the first is cancelled")
	fixture.Finish(t, s, inH.ID)
	require.Empty(t, grantAll(t, s))
}

func testGroupNoLimit(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	var ids []run.ID
	for range 3 {
		ids = append(ids, fixture.Create(t, s, fixture.Grouped(3, "g")).ID)
	}
	running, waiting := members(t, s, "g")
	require.ElementsMatch(t, ids, running)
	require.Empty(t, waiting)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	late := fixture.Create(t, s, fixture.Grouped(3, "g"))
	for i, id := range ids {
		require.Empty(t, grantAll(t, s), "a lower limit stops no run")
		fixture.Finish(t, s, id)
		if i == len(ids)-1 {
			require.Equal(t, []run.ID{late.ID}, grantAll(t, s))
		}
	}
}

func testGroupManual(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	spec := fixture.Grouped(3, "g")
	spec.Admission = run.AdmissionManual
	a, b := fixture.Create(t, s, spec), fixture.Create(t, s, spec)
	running, queued := members(t, s, "g")
	require.Empty(t, running)
	require.Equal(t, []run.ID{a.ID, b.ID}, queued)
	require.NoError(t, s.StartRun(t.Context(), b.ID, nil))
	require.Equal(t, run.PhaseRunning, fixture.Get(t, s, b.ID).Phase, "the next read returns it as running")
	require.NoError(t, s.StartRun(t.Context(), a.ID, nil))
	require.Equal(t, run.PhaseQueued, fixture.Get(t, s, a.ID).Phase)
	require.NoError(t, s.StartRun(t.Context(), a.ID, nil), "the run waits already")
	fixture.Finish(t, s, b.ID)
	require.Equal(t, []run.ID{a.ID}, grantAll(t, s))
	fixture.RequireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), a.ID, nil))
}

func testGroupRaised(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	first := fixture.Create(t, s, fixture.Grouped(3, "g")).ID
	var ids []run.ID
	for _, priority := range []int{3, 3, 4, 2} {
		ids = append(ids, fixture.Create(t, s, fixture.Grouped(priority, "g")).ID)
	}
	fixture.Limit(t, s, "g", 1, run.OnBusyReject)
	require.Empty(t, grantAll(t, s))
	fixture.Limit(t, s, "g", 3, run.OnBusyQueue)
	require.Equal(t, []run.ID{ids[3], ids[0]}, grantAll(t, s))
	fixture.Limit(t, s, "g", 0, run.OnBusyQueue)
	require.Equal(t, []run.ID{ids[1], ids[2]}, grantAll(t, s))
	running, _ := members(t, s, "g")
	require.Equal(t, []run.ID{first, ids[3], ids[0], ids[1], ids[2]}, running, "in the order of admission")
}

// testGroupRaisedBehindOthers queues more runs than one transaction admits, the
// first of them also for another group.
func testGroupRaisedBehindOthers(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	fixture.Limit(t, s, "h", 1, run.OnBusyQueue)
	fixture.Create(t, s, fixture.Grouped(3, "g"))
	fixture.Create(t, s, fixture.Grouped(3, "h"))
	for range 60 {
		fixture.Create(t, s, fixture.Grouped(3, "g", "h"))
	}
	last := fixture.Create(t, s, fixture.Grouped(3, "g"))
	grantAll(t, s)
	fixture.Limit(t, s, "g", 0, run.OnBusyQueue)
	require.Equal(t, []run.ID{last.ID}, grantAll(t, s))
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	last = fixture.Create(t, s, fixture.Grouped(3, "g"))
	fixture.Limit(t, s, "g", 70, run.OnBusyQueue)
	require.Equal(t, []run.ID{last.ID}, grantAll(t, s))
}

func testGroupSetupError(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyReject)
	spec := &run.Spec{Name: "bad", Group: "/a/b", ChangeGroups: []string{"g"}, SetupErrors: []string{"no such file"}}
	r := fixture.Create(t, s, spec)
	require.Equal(t, run.PhaseSetupError, r.Phase)
	running, queued := members(t, s, "g")
	require.Empty(t, running)
	require.Empty(t, queued)
	fixture.Create(t, s, fixture.Grouped(3, "g"))
	fixture.Create(t, s, spec) // it needs no slot
	page, err := s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g"}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 3)
}

func testGroupDeleted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	a := fixture.Create(t, s, fixture.Grouped(3, "g"))
	fixture.Finish(t, s, a.ID)
	_, before, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
	require.NoError(t, err)
	require.NoError(t, s.DeleteRun(t.Context(), a.ID))
	groups, after, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{})
	require.NoError(t, err)
	require.Len(t, groups, 1, "the group stays")
	require.Greater(t, after["g"], before["g"])
	page, err := s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g"}})
	require.NoError(t, err)
	require.Empty(t, page.Runs)
}

func testGroupWaits(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	fixture.Limit(t, s, "g", 4, run.OnBusyQueue)
	var ids []run.ID
	for range 4 {
		ids = append(ids, fixture.Create(t, s, fixture.Grouped(3, "g")).ID)
	}
	free := fixture.Create(t, s, fixture.OneTask("/a/b"))
	first, second := fixture.Create(t, s, fixture.Grouped(3, "g", "unlimited")), fixture.Create(t, s, fixture.Grouped(3, "g"))
	urgent := fixture.Create(t, s, fixture.Grouped(1, "g"))
	for id, place := range map[run.ID]int{urgent.ID: 1, first.ID: 2, second.ID: 3} {
		waits, err := s.GroupWaits(ctx, id)
		require.NoError(t, err)
		require.Equal(t, []records.GroupWait{{Group: "g", MaxRunning: 4, Holding: 4, Holders: ids[:3], Position: place, Ahead: place - 1}}, waits)
	}
	for _, id := range []run.ID{free.ID, ids[0]} {
		waits, err := s.GroupWaits(ctx, id)
		require.NoError(t, err)
		require.Empty(t, waits)
	}
	_, err := s.GroupWaits(ctx, "01j00000000000000000000000")
	fixture.RequireCode(t, run.CodeNotFound, err)
}

// testGroupWaitsMany reads the position of a run behind more than are counted. In a group
// with more slots than that, the position still tells whether a slot is free.
func testGroupWaitsMany(t *testing.T, d *fixture.Database) {
	const most = 2_000
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	createMany(t, s, most, "g")
	exact, later := fixture.Create(t, s, fixture.Grouped(3, "g")), fixture.Create(t, s, fixture.Grouped(3, "g"))
	wait := func(id run.ID) records.GroupWait {
		t.Helper()
		waits, err := s.GroupWaits(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, waits, 1)
		waits[0].Holders = nil
		return waits[0]
	}
	require.Equal(t, records.GroupWait{Group: "g", MaxRunning: 1, Holding: 1, Position: most, Ahead: most - 1}, wait(exact.ID))
	require.Equal(t, records.GroupWait{Group: "g", MaxRunning: 1, Holding: 1, Position: most + 1, Ahead: most, Later: true}, wait(later.ID))
	fixture.Limit(t, s, "g", most+10, run.OnBusyQueue)
	require.Equal(t, records.GroupWait{Group: "g", MaxRunning: most + 10, Holding: 1, Position: most + 1, Ahead: most}, wait(later.ID))
}

func testGroupCloseLost(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, b := fixture.Create(t, s, fixture.Grouped(3, "g")), fixture.Create(t, s, fixture.Grouped(3, "g"))
	require.NoError(t, s.CloseLost(t.Context(), a.ID, "terminated"))
	require.Equal(t, []run.ID{b.ID}, grantAll(t, s))
	require.NoError(t, s.CloseLost(t.Context(), b.ID, "terminated"))
	running, waiting := members(t, s, "g")
	require.Empty(t, running)
	require.Empty(t, waiting)
}

func testGroupList(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, name := range []string{"b", "a", "c/d", "%"} {
		fixture.Create(t, s, fixture.Grouped(3, name))
	}
	all, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Limit: 3})
	require.NoError(t, err)
	names := func(groups []run.ChangeGroup) (out []string) {
		for _, g := range groups {
			out = append(out, g.Name)
		}
		return out
	}
	require.Equal(t, []string{"%", "a", "b"}, names(all))
	require.Equal(t, []string{"%", "a", "b"}, token.Groups())
	all, _, err = s.ChangeGroups(t.Context(), run.ChangeGroupQuery{After: "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"c/d"}, names(all))
	all, token, err = s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"zz", "a", "zz"}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "zz"}, names(all))
	require.Equal(t, run.ChangeGroup{Name: "zz", OnBusy: run.OnBusyQueue, Running: []run.ID{}, Queued: []run.ID{}}, all[1])
	require.Zero(t, token["zz"])
	require.Positive(t, token["a"])
}

func testGroupFilter(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	a := fixture.Create(t, s, fixture.Grouped(3, "g", "h"))
	b := fixture.Create(t, s, fixture.Grouped(3, "h"))
	fixture.Create(t, s, fixture.Grouped(3, "i"))
	page, err := s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g", "h"}, TokenFor: []string{"g", "none"}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, b.ID, page.Runs[0].ID)
	require.Equal(t, []string{"g", "none"}, page.Token.Groups())
	page, err = s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g", "h"}, Limit: 1, Cursor: page.Next})
	require.NoError(t, err)
	require.Equal(t, a.ID, page.Runs[0].ID)
	require.Nil(t, page.Token)
	require.Empty(t, page.Next)
	fixture.Finish(t, s, a.ID)
	page, err = s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g"}, Phases: []run.Phase{run.PhaseFinished}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1, "a finished run is still of the group")
}

func testQueuePositions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	first, second := fixture.Create(t, s, fixture.Wide("/a/b", 2)), fixture.OneTask("/a/b")
	second.Priority = 1
	urgent := fixture.Create(t, s, second)
	fixture.Begin(t, s, first.ID)
	fixture.Begin(t, s, urgent.ID)
	fixture.Apply(t, s, first.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1), fixture.Queued(1, 1, 1)}})
	fixture.Apply(t, s, urgent.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	places, err := s.QueuePositions(t.Context(), first.ID)
	require.NoError(t, err)
	require.Equal(t, map[int]int{0: 2, 1: 3}, places)
	places, err = s.QueuePositions(t.Context(), urgent.ID)
	require.NoError(t, err)
	require.Equal(t, map[int]int{0: 1}, places)
}

func testGroupManyWaiting(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Limit(t, s, "g", 60, run.OnBusyQueue)
	for range 130 {
		fixture.Create(t, s, fixture.Grouped(3, "g"))
	}
	fixture.Limit(t, s, "g", 0, run.OnBusyQueue)
	require.Len(t, grantAll(t, s), 70, "in several transactions")
}
