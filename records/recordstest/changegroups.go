package recordstest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func changeGroupTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
		"limit":                    testGroupLimit,
		"priority_then_first_come": testGroupOrder,
		"all_groups_or_none":       testGroupsTogether,
		"nobody_overtakes":         testGroupNoOvertaking,
		"no_limit":                 testGroupNoLimit,
		"manual":                   testGroupManual,
		"on_busy/reject":           testGroupReject,
		"on_busy/cancel_queued":    testGroupCancelQueued,
		"on_busy/stop_running":     testGroupStopRunning,
		"limit_raised":             testGroupRaised,
		"close_lost":               testGroupCloseLost,
		"list":                     testGroupList,
		"filter":                   testGroupFilter,
		"places":                   testPlaces,
		"many_waiting":             testGroupManyWaiting,
		"token":                    testToken,
		"token/kept_on_refusal":    testTokenRefused,
		"token/clients_race":       testTokenRace,
		"idempotency":              testIdempotency,
		"idempotency/race":         testIdempotencyRace,
		"model":                    testGroupModel,
	}
}

func grouped(priority int, groups ...string) *run.Spec {
	spec := oneTask("/a/b")
	spec.ChangeGroups, spec.Priority = groups, priority
	return spec
}

func limit(t testing.TB, s records.Store, name string, n int, policy run.OnBusy) {
	t.Helper()
	g, token, err := s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: name, MaxRunning: n, OnBusy: policy}, nil)
	require.NoError(t, err)
	require.Equal(t, run.Token{name: g.Version}, token)
}

// members returns the runs of a group: those that hold a slot, and those queued.
func members(t testing.TB, s records.Store, name string) (running, queued []run.ID) {
	t.Helper()
	groups, _, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{name}})
	require.NoError(t, err)
	require.Len(t, groups, 1)
	return groups[0].Running, groups[0].Queued
}

// finish ends a run of one task, which may not have begun.
func finish(t testing.TB, s records.Store, id run.ID) {
	t.Helper()
	begin(t, s, id)
	_, _, err := s.Apply(t.Context(), id, records.Changes{
		Tasks: []records.TaskChange{{Task: 0, Status: run.StatusSkipped}}, Result: run.ResultSuccess, Finish: true,
	})
	require.NoError(t, err)
}

// grantAll does what the workflows of groups do: it grants what the outbox
// says, until there is nothing more, and returns who was let in.
func grantAll(t testing.TB, s records.Store) []run.ID {
	t.Helper()
	var in []run.ID
	for {
		rows := takeAll(t, s)
		if len(rows) == 0 {
			return in
		}
		for _, row := range rows {
			if row.Kind == records.OutboxGrant {
				require.NotEmpty(t, row.ChangeGroup)
				require.Empty(t, row.Run)
				for more := true; more; {
					var granted []run.ID
					var err error
					granted, more, err = s.Grant(t.Context(), row.ChangeGroup)
					require.NoError(t, err)
					in = append(in, granted...)
				}
			}
			require.NoError(t, s.DoneOutbox(t.Context(), row.ID))
		}
	}
}

func testGroupLimit(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	a, b := create(t, s, grouped(3, "g")), create(t, s, grouped(3, "g"))
	running, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{a.ID}, running, "it holds its slot from the moment it was created")
	require.Equal(t, []run.ID{b.ID}, waiting)
	standing, err := s.Begin(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseQueued, standing.Phase)
	waits, err := s.Waits(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, []records.GroupWait{{Group: "g", MaxRunning: 1, Holding: 1, Holders: []run.ID{a.ID}, Place: 1}}, waits)
	require.Empty(t, grantAll(t, s))

	finish(t, s, a.ID)
	require.Equal(t, []run.ID{b.ID}, grantAll(t, s))
	got := get(t, s, b.ID)
	require.Equal(t, run.PhaseRunning, got.Phase, "in the transaction that let it in")
	require.False(t, got.StartedAt.IsZero())
	begin(t, s, b.ID)
	finish(t, s, b.ID)
	running, waiting = members(t, s, "g")
	require.Empty(t, running)
	require.Empty(t, waiting)
}

func testGroupOrder(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	holder := create(t, s, grouped(3, "g"))
	var ids []run.ID
	for _, priority := range []int{5, 3, 1, 3} {
		ids = append(ids, create(t, s, grouped(priority, "g")).ID)
	}
	want := []run.ID{ids[2], ids[1], ids[3], ids[0]}
	_, waiting := members(t, s, "g")
	require.Equal(t, want, waiting)
	for _, next := range want {
		finish(t, s, holder.ID)
		require.Equal(t, []run.ID{next}, grantAll(t, s))
		holder.ID = next
	}
}

func testGroupsTogether(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	limit(t, s, "h", 1, run.OnBusyQueue)
	inG, inH := create(t, s, grouped(3, "g")), create(t, s, grouped(3, "h"))
	both := create(t, s, grouped(3, "h", "g"))
	finish(t, s, inG.ID)
	require.Empty(t, grantAll(t, s))
	running, _ := members(t, s, "g")
	require.Empty(t, running, "it takes no slot before it gets all")
	waits, err := s.Waits(t.Context(), both.ID)
	require.NoError(t, err)
	require.Equal(t, []records.GroupWait{{Group: "g", MaxRunning: 1, Place: 1}, {Group: "h", MaxRunning: 1, Holding: 1, Holders: []run.ID{inH.ID}, Place: 1}}, waits)
	finish(t, s, inH.ID)
	require.Equal(t, []run.ID{both.ID}, grantAll(t, s))
}

func testGroupNoOvertaking(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	limit(t, s, "h", 1, run.OnBusyQueue)
	inH := create(t, s, grouped(3, "h"))
	both := create(t, s, grouped(3, "g", "h"))
	later := create(t, s, grouped(3, "g"))
	_, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{both.ID, later.ID}, waiting, "who waits for another group too keeps its place")
	require.NoError(t, s.CancelRun(t.Context(), both.ID, nil))
	require.Equal(t, []run.ID{later.ID}, grantAll(t, s), "until it is gone")
	finish(t, s, inH.ID)
	require.Empty(t, grantAll(t, s))
}

func testGroupNoLimit(t *testing.T, d *database) {
	s := d.store(t)
	var ids []run.ID
	for range 3 {
		ids = append(ids, create(t, s, grouped(3, "g")).ID)
	}
	running, waiting := members(t, s, "g")
	require.ElementsMatch(t, ids, running)
	require.Empty(t, waiting)
	limit(t, s, "g", 1, run.OnBusyQueue)
	late := create(t, s, grouped(3, "g"))
	for i, id := range ids {
		require.Empty(t, grantAll(t, s), "a lower limit stops nobody")
		finish(t, s, id)
		if i == len(ids)-1 {
			require.Equal(t, []run.ID{late.ID}, grantAll(t, s))
		}
	}
}

func testGroupManual(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	spec := grouped(3, "g")
	spec.Admission = run.AdmissionManual
	a, b := create(t, s, spec), create(t, s, spec)
	running, queued := members(t, s, "g")
	require.Empty(t, running)
	require.Equal(t, []run.ID{a.ID, b.ID}, queued)
	require.NoError(t, s.StartRun(t.Context(), b.ID, nil))
	require.Equal(t, run.PhaseRunning, get(t, s, b.ID).Phase, "whoever reads next sees it running")
	require.NoError(t, s.StartRun(t.Context(), a.ID, nil))
	require.Equal(t, run.PhaseQueued, get(t, s, a.ID).Phase)
	require.NoError(t, s.StartRun(t.Context(), a.ID, nil), "it waits already")
	finish(t, s, b.ID)
	require.Equal(t, []run.ID{a.ID}, grantAll(t, s))
	requireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), a.ID, nil))
}

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
	require.Equal(t, []run.ID{c.ID}, waiting, "the newest only")
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
	standing, err := s.Begin(t.Context(), a.ID)
	require.NoError(t, err)
	require.True(t, standing.StopWanted, "the one that holds longest")
	require.Contains(t, get(t, s, a.ID).Reason, string(c.ID))
	standing, err = s.Begin(t.Context(), b.ID)
	require.NoError(t, err)
	require.False(t, standing.StopWanted)
	_, waiting := members(t, s, "g")
	require.Equal(t, []run.ID{c.ID}, waiting, "until the other has ended")
	finish(t, s, a.ID)
	require.Equal(t, []run.ID{c.ID}, grantAll(t, s))

	// One that has a slot and has not begun is cancelled.
	e := create(t, s, grouped(3, "g"))
	require.Equal(t, run.PhaseRunning, get(t, s, c.ID).Phase)
	standing, err = s.Begin(t.Context(), b.ID)
	require.NoError(t, err)
	require.True(t, standing.StopWanted)
	finish(t, s, b.ID)
	require.Equal(t, []run.ID{e.ID}, grantAll(t, s))
}

func testGroupRaised(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	create(t, s, grouped(3, "g"))
	var ids []run.ID
	for range 4 {
		ids = append(ids, create(t, s, grouped(3, "g")).ID)
	}
	limit(t, s, "g", 3, run.OnBusyQueue)
	require.Equal(t, ids[:2], grantAll(t, s))
	limit(t, s, "g", 0, run.OnBusyQueue)
	require.Equal(t, ids[2:], grantAll(t, s))
}

func testGroupCloseLost(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 1, run.OnBusyQueue)
	a, b := create(t, s, grouped(3, "g")), create(t, s, grouped(3, "g"))
	require.NoError(t, s.CloseLost(t.Context(), a.ID, "terminated"))
	require.Equal(t, []run.ID{b.ID}, grantAll(t, s))
	require.NoError(t, s.CloseLost(t.Context(), b.ID, "terminated"))
	running, waiting := members(t, s, "g")
	require.Empty(t, running)
	require.Empty(t, waiting)
}

func testGroupList(t *testing.T, d *database) {
	s := d.store(t)
	for _, name := range []string{"b", "a", "c/d", "%"} {
		create(t, s, grouped(3, name))
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

func testGroupFilter(t *testing.T, d *database) {
	s := d.store(t)
	a := create(t, s, grouped(3, "g", "h"))
	b := create(t, s, grouped(3, "h"))
	create(t, s, grouped(3, "i"))
	page, err := s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g", "h"}, TokenFor: []string{"g", "none"}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, b.ID, page.Runs[0].ID)
	require.Equal(t, []string{"g", "none"}, page.Token.Groups())
	page, err = s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g", "h"}, Limit: 1, Cursor: page.Next})
	require.NoError(t, err)
	require.Equal(t, a.ID, page.Runs[0].ID)
	require.Nil(t, page.Token)
	require.Empty(t, page.Next)
	finish(t, s, a.ID)
	page, err = s.ListRuns(t.Context(), run.ListQuery{ChangeGroups: []string{"g"}, Phases: []run.Phase{run.PhaseFinished}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1, "it is of the group also when it holds no slot any more")
}

func testPlaces(t *testing.T, d *database) {
	s := d.store(t)
	first, second := create(t, s, wide("/a/b", 2)), oneTask("/a/b")
	second.Priority = 1
	urgent := create(t, s, second)
	begin(t, s, first.ID)
	begin(t, s, urgent.ID)
	apply(t, s, first.ID, records.Changes{Tasks: []records.TaskChange{queued(0, 1, 1), queued(1, 1, 1)}})
	apply(t, s, urgent.ID, records.Changes{Tasks: []records.TaskChange{queued(0, 1, 1)}})
	places, err := s.Places(t.Context(), first.ID)
	require.NoError(t, err)
	require.Equal(t, map[int]int{0: 2, 1: 3}, places)
	places, err = s.Places(t.Context(), urgent.ID)
	require.NoError(t, err)
	require.Equal(t, map[int]int{0: 1}, places)
}

func testGroupManyWaiting(t *testing.T, d *database) {
	s := d.store(t)
	limit(t, s, "g", 60, run.OnBusyQueue)
	for range 130 {
		create(t, s, grouped(3, "g"))
	}
	limit(t, s, "g", 0, run.OnBusyQueue)
	require.Len(t, grantAll(t, s), 70, "in several transactions")
}

func testToken(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	limit(t, s, "g", 1, run.OnBusyQueue)
	read := func(groups ...string) run.Token {
		page, err := s.ListRuns(ctx, run.ListQuery{TokenFor: groups})
		require.NoError(t, err)
		return page.Token
	}
	withToken := func(spec *run.Spec, token run.Token) (run.Run, error) {
		n := newRun(t, spec)
		n.Token = token
		return s.CreateRun(ctx, n)
	}
	token := read("g", "never-named")
	r, err := withToken(grouped(3, "other"), token)
	require.NoError(t, err, "its groups need not be those of the run")
	_, err = withToken(grouped(3, "g"), token)
	requireCode(t, run.CodeChangeGroupConflict, err)
	require.ErrorContains(t, err, "g, never-named")
	token = read("g")
	require.Equal(t, token, read("g"), "reading changes nothing")
	require.NoError(t, s.CancelRun(ctx, r.ID, read("other")))
	require.Equal(t, token, read("g"))

	a, err := withToken(grouped(3, "g"), token)
	require.NoError(t, err)
	steps := map[string]func(token run.Token) error{
		"annotate": func(token run.Token) error { return s.Annotate(ctx, a.ID, "", map[string]string{"k": "v"}, token) },
		"begin":    func(run.Token) error { _, err := s.Begin(ctx, a.ID); return err },
		"stop":     func(token run.Token) error { return s.StopRun(ctx, a.ID, token) },
		"put": func(token run.Token) error {
			_, _, err := s.PutChangeGroup(ctx, run.ChangeGroup{Name: "g", MaxRunning: 2, OnBusy: run.OnBusyQueue}, token)
			return err
		},
		"finish": func(run.Token) error { finish(t, s, a.ID); return nil },
	}
	for _, name := range []string{"annotate", "begin", "stop", "put", "finish"} {
		before := read("g")
		require.NoError(t, steps[name](before), name)
		require.Greater(t, read("g")["g"], before["g"], "%s changes the group", name)
		if name != "begin" && name != "finish" {
			requireCode(t, run.CodeChangeGroupConflict, steps[name](before))
		}
	}
}

func testTokenRefused(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	a := create(t, s, grouped(3, "g"))
	got, err := s.GetRun(ctx, a.ID, "g")
	require.NoError(t, err)
	requireCode(t, run.CodeWrongPhase, s.StopRun(ctx, a.ID, got.Token))
	requireCode(t, run.CodeNotFound, s.ApproveTask(ctx, a.ID, "none", "me", got.Token))
	require.NoError(t, s.CancelRun(ctx, a.ID, got.Token), "what was refused did not use it up")
}

// testTokenRace has many clients that limit a group themselves: each starts a
// run of its own once it has read that less than two are running.
func testTokenRace(t *testing.T, d *database) {
	s := d.store(t)
	const clients, most = 50, 2
	var conflicts atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for range clients {
		spec := grouped(3, "g")
		spec.Admission = run.AdmissionManual
		id := create(t, s, spec).ID
		group.Go(func() error {
			for {
				page, err := s.ListRuns(ctx, run.ListQuery{ChangeGroups: []string{"g"}, Phases: []run.Phase{run.PhaseRunning}, TokenFor: []string{"g"}})
				if err != nil {
					return err
				}
				if len(page.Runs) >= most {
					continue
				}
				err = s.StartRun(ctx, id, page.Token)
				if run.CodeOf(err) == run.CodeChangeGroupConflict {
					conflicts.Add(1)
					continue
				}
				if err != nil {
					return err
				}
				return endOf(ctx, s, id)
			}
		})
	}
	require.NoError(t, group.Wait())
	t.Logf("%d conflicts", conflicts.Load())
	lastEvent(t, s, clients*4)
	atOnce(t, s, most)
}

// endOf ends a running run of one task.
func endOf(ctx context.Context, s records.Store, id run.ID) error {
	_, _, err := s.Apply(ctx, id, records.Changes{
		Tasks: []records.TaskChange{{Task: 0, Status: run.StatusSkipped}}, Result: run.ResultSuccess, Finish: true,
	})
	return err
}

// atOnce checks by the events that no more runs than most ran at a time.
func atOnce(t *testing.T, s records.Store, most int) {
	t.Helper()
	events, err := s.ReadEvents(t.Context(), run.EventQuery{}, 10000)
	require.NoError(t, err)
	running := map[run.ID]bool{}
	for i, e := range events {
		require.EqualValues(t, i+1, e.Number)
		switch {
		case e.Phase == run.PhaseRunning:
			running[e.Run] = true
		case e.Phase.Final():
			delete(running, e.Run)
		}
		require.LessOrEqual(t, len(running), most, "at event %d", e.Number)
	}
	require.Empty(t, running)
}

func keyed(t testing.TB, key, digest string) records.NewRun {
	n := newRun(t, oneTask("/a/b"))
	n.IdempotencyKey = records.IdempotencyKey{Subject: "me", Key: key, Digest: digest}
	return n
}

func testIdempotency(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	first, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	require.False(t, first.Replayed)
	again, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	require.True(t, again.Replayed)
	_, err = s.CreateRun(ctx, keyed(t, "k", "other"))
	requireCode(t, run.CodeIdempotencyMismatch, err)
	other := keyed(t, "k", "other")
	other.IdempotencyKey.Subject = "you"
	_, err = s.CreateRun(ctx, other)
	require.NoError(t, err, "others have keys of their own")

	stale := keyed(t, "k2", "d")
	stale.Token = run.Token{"g": 7}
	_, err = s.CreateRun(ctx, stale)
	requireCode(t, run.CodeChangeGroupConflict, err)
	stale.Token = run.Token{"g": 0}
	made, err := s.CreateRun(ctx, stale)
	require.NoError(t, err, "what was refused did not use the key up")
	again, err = s.CreateRun(ctx, stale)
	require.NoError(t, err, "its token is used up, and the run is known")
	require.Equal(t, made.ID, again.ID)

	d.clock.advance(run.IdempotencyTime + time.Second)
	late, err := s.CreateRun(ctx, keyed(t, "k", "other"))
	require.NoError(t, err)
	require.NotEqual(t, first.ID, late.ID)
}

func testIdempotencyRace(t *testing.T, d *database) {
	a, b := d.store(t), d.store(t)
	ids := make([]run.ID, 20)
	race(t, len(ids), func(i int) error {
		r, err := []records.Store{a, b}[i%2].CreateRun(t.Context(), keyed(t, "k", "d"))
		ids[i] = r.ID
		return err
	}, "")
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), 1, "all made one run")
	page, err := a.ListRuns(t.Context(), run.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
}
