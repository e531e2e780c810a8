package recordstest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func eventTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"describe_every_change":      testEvents,
		"of_a_cancelled_run":         testEventsCancel,
		"can_be_selected":            testEventFilters,
		"of_others_are_passed":       testEventsOfOthers,
		"are_dense_and_in_order":     testEventOrder,
		"none_of_a_failed_change":    testEventsAtomic,
		"readers_see_each_once":      testEventReaders,
		"watch_signals_each_change":  testWatch,
		"watch_any_run":              testWatchAny,
		"watch_ends":                 testWatchEnds,
		"last_number_is_0_at_first":  testNoEvents,
		"signals_come_after_commits": testWatchSeesState,
	}
}

func testEvents(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := fixture.Wide("/a/b/c", 2)
	id, key := fixture.Running(t, s, spec)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart)))
	fixture.Apply(t, s, id, records.Changes{
		Tasks:  []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed), {Task: 1, Status: run.StatusSkipped, Reason: "skipped"}},
		Result: run.ResultFailed, Reason: "all failed", Finish: true,
	})
	fixture.AwaitEvent(t, s, 8)
	code := 1
	base := run.Event{Run: id, Group: "/a/b/c", Result: run.ResultUnknown, Phase: run.PhaseRunning}
	event := func(number int64, kind run.EventType, change func(e *run.Event)) run.Event {
		e := base
		e.Number, e.Type = number, kind
		change(&e)
		return e
	}
	want := []run.Event{
		event(1, run.EventRun, func(e *run.Event) { e.Phase, e.Action = run.PhaseQueued, run.ActionCreate }),
		event(2, run.EventRun, func(*run.Event) {}),
		event(3, run.EventTask, func(e *run.Event) { e.Task, e.Status, e.Attempt = "all[N=0]", run.StatusQueued, 1 }),
		event(4, run.EventTask, func(e *run.Event) {
			e.Task, e.Status, e.Attempt, e.Executor, e.Stage = "all[N=0]", run.StatusRunning, 1, "x", run.StagePrepare
		}),
		event(5, run.EventStage, func(e *run.Event) {
			e.Task, e.Status, e.Attempt, e.Executor, e.Stage = "all[N=0]", run.StatusRunning, 1, "x", run.StageStep
		}),
		event(6, run.EventTask, func(e *run.Event) {
			e.Task, e.Status, e.Attempt, e.Executor, e.ExitCode, e.Result = "all[N=0]", run.StatusFailed, 1, "x", &code, run.ResultFailed
		}),
		event(7, run.EventTask, func(e *run.Event) {
			e.Task, e.Status, e.Reason, e.Result = "all[N=1]", run.StatusSkipped, "skipped", run.ResultFailed
		}),
		event(8, run.EventRun, func(e *run.Event) {
			e.Phase, e.Result, e.Reason, e.FailedTasks = run.PhaseFinished, run.ResultFailed, "all failed", &code
		}),
	}
	got := fixture.ReadAll(t, s, run.EventQuery{})
	require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(run.Event{}, "Time")))
	for i, e := range got {
		require.False(t, e.Time.IsZero())
		if i > 0 {
			require.False(t, e.Time.Before(got[i-1].Time))
		}
	}
}

func testEventsCancel(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 25))
	require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
	fixture.AwaitEvent(t, s, 1+25+1)
	all := fixture.ReadAll(t, s, run.EventQuery{After: 1})
	for i, e := range all[:25] {
		require.Equal(t, run.StatusCancelled, e.Status)
		require.Equal(t, fmt.Sprintf("all[N=%d]", i), e.Task)
	}
	require.Equal(t, run.PhaseCancelled, all[25].Phase)
}

func testEventFilters(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	created := make(map[string]run.ID)
	for _, group := range listGroups() {
		created[group] = fixture.Create(t, s, fixture.OneTask(group)).ID
	}
	fixture.AwaitEvent(t, s, int64(len(created)))
	numbers := func(q run.EventQuery) []int64 {
		var out []int64
		for _, e := range fixture.ReadAll(t, s, q) {
			out = append(out, e.Number)
		}
		return out
	}
	require.Equal(t, []int64{1, 2, 3}, numbers(run.EventQuery{Group: "/p/feature"}))
	require.Equal(t, []int64{3}, numbers(run.EventQuery{Group: "/p/feature", After: 2}))
	require.Equal(t, []int64{7}, numbers(run.EventQuery{Group: "/p/fea%re"}))
	require.Len(t, numbers(run.EventQuery{Group: "/"}), len(created))
	require.Equal(t, []int64{2}, numbers(run.EventQuery{Run: created["/p/feature/x"]}))
	require.Empty(t, numbers(run.EventQuery{Run: created["/p/feature/x"], Group: "/q"}))
	require.Equal(t, []int64{1, 2, 3, 7}, numbers(run.EventQuery{Within: []string{"/p/fea%re", "/p/feature", "/p/feature/x"}}))
	require.Equal(t, []int64{2, 3}, numbers(run.EventQuery{Group: "/p/feature/x", Within: []string{"/p/feature", "/q"}}))
	require.Empty(t, numbers(run.EventQuery{Group: "/q", Within: []string{"/p"}}))
	require.Empty(t, numbers(run.EventQuery{Run: created["/p/feature/x"], After: 2}))
}

// testEventOrder runs many writers concurrently, in two stores, and checks that
// the numbers are dense and in the order of each run's changes.
func testEventOrder(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	const writers, each = 12, 6
	var group errgroup.Group
	for i := range writers {
		group.Go(func() error {
			s := stores[i%2]
			for range each {
				r, err := s.CreateRun(t.Context(), fixture.NewRun(t, fixture.OneTask(fmt.Sprintf("/a/%d", i%3))))
				if err != nil {
					return err
				}
				// The other store continues, as other processes do.
				s = stores[(i+1)%2]
				if _, err := s.Begin(t.Context(), r.ID); err != nil {
					return err
				}
				if _, _, err := s.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}}); err != nil {
					return err
				}
				if _, _, err := s.Apply(t.Context(), r.ID, records.Changes{
					Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true,
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	const perRun = 5
	fixture.AwaitEvent(t, stores[0], writers*each*perRun)
	fixture.AwaitEvent(t, stores[1], writers*each*perRun)
	seen := make(map[run.ID][]string)
	for i, e := range fixture.ReadAll(t, stores[1], run.EventQuery{}) {
		require.Equal(t, int64(i+1), e.Number)
		seen[e.Run] = append(seen[e.Run], string(e.Phase)+"/"+string(e.Status))
	}
	require.Len(t, seen, writers*each)
	for _, states := range seen {
		require.Equal(t, []string{"queued/", "running/", "running/queued", "running/success", "finished/"}, states)
	}
}

func testEventsAtomic(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 2))
	fixture.Begin(t, s, r.ID)
	for range 5 {
		_, _, err := s.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}, Finish: true})
		fixture.RequireCode(t, run.CodeConflict, err)
	}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	fixture.AwaitEvent(t, s, 3)
	require.Len(t, fixture.ReadAll(t, s, run.EventQuery{}), 3)
}

// testEventReaders follows the events while they are written: a reader that
// continues from the last number that it saw misses none.
func testEventReaders(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	const writers, each = 6, 10
	var group errgroup.Group
	for i := range writers {
		group.Go(func() error {
			for range each {
				if _, err := stores[i%2].CreateRun(t.Context(), fixture.NewRun(t, fixture.OneTask(fmt.Sprintf("/a/%d", i)))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, s := range stores {
		group.Go(func() error {
			changed, stop := s.Watch("")
			defer stop()
			last := int64(0)
			for last < writers*each {
				page, err := s.ReadEvents(t.Context(), run.EventQuery{After: last}, 4)
				if err != nil {
					return err
				}
				for _, e := range page.Events {
					if last++; e.Number != last {
						return fmt.Errorf("got event %d, want %d", e.Number, last)
					}
				}
				if len(page.Events) == 0 {
					select {
					case <-changed:
					case <-t.Context().Done():
						return t.Context().Err()
					}
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

func testWatch(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitEvent(t, s, 1)
	signal, stop := s.Watch(r.ID)
	defer stop()
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	for name, change := range []func(){
		func() { fixture.Begin(t, s, r.ID) },
		func() { fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}}) },
		func() { fixture.Claim(t, s, key) },
		func() { require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameOutput))) },
		func() { require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 2, run.FrameStepStart))) },
		func() { require.NoError(t, s.Annotate(ctx, r.ID, "", map[string]string{"a": "b"}, nil)) },
		func() { require.NoError(t, s.StopRun(ctx, r.ID, nil)) },
		func() { require.NoError(t, s.CloseLost(ctx, r.ID, "gone")) },
	} {
		for tryReceive(signal) {
		}
		change()
		t.Log(name)
		fixture.AwaitSignal(t, signal)
	}
}

func testWatchAny(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	signal, stop := s.Watch("")
	defer stop()
	for range 3 {
		for tryReceive(signal) {
		}
		fixture.Create(t, s, fixture.OneTask("/a/b"))
		fixture.AwaitSignal(t, signal)
	}
}

func testWatchEnds(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitEvent(t, s, 1)
	signal, stop := s.Watch(r.ID)
	other, stopOther := s.Watch(r.ID)
	defer stopOther()
	stop()
	stop()
	for tryReceive(signal) {
	}
	fixture.Begin(t, s, r.ID)
	fixture.AwaitSignal(t, other)
	require.False(t, tryReceive(signal), "the watch was stopped")
}

func testNoEvents(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	n, err := s.LastEvent(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, fixture.ReadAll(t, s, run.EventQuery{}))
}

// testWatchSeesState waits as clients do: it reads, and waits for a signal if
// the state is not the expected one.
func testWatchSeesState(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 30 {
		r := fixture.Create(t, s, fixture.OneTask("/a/b"))
		var group errgroup.Group
		group.Go(func() error {
			signal, stop := s.Watch(r.ID)
			defer stop()
			for {
				now, err := s.GetSummary(t.Context(), r.ID)
				if err != nil || now.Phase == run.PhaseRunning {
					return err
				}
				select {
				case <-signal:
				case <-t.Context().Done():
					return t.Context().Err()
				}
			}
		})
		fixture.Begin(t, s, r.ID)
		require.NoError(t, group.Wait())
	}
}

// tryReceive receives a signal, and reports whether there was one.
func tryReceive(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}

// testEventsOfOthers reads the events of some groups, which stand between many events of
// others. No read looks at all of those, and none is missing in the end.
func testEventsOfOthers(t *testing.T, d *fixture.Database) {
	const many, perRun = 80, 5_002
	s := d.Store(t)
	var own []run.ID
	last := int64(0)
	create := func(group string) {
		own = append(own, fixture.Create(t, s, fixture.OneTask(group)).ID)
		last++
	}
	others := func() {
		r := fixture.Create(t, s, fixture.Wide("/other/x", perRun-2))
		require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
		last += perRun
		fixture.AwaitEvent(t, s, last)
	}
	for i := range many {
		create(fmt.Sprintf("/own/%d", i))
	}
	others()
	others()
	create("/own/0")
	others()
	create("/own/1/below")
	fixture.AwaitEvent(t, s, last)

	read := func(q run.EventQuery, n int) (ids []run.ID, reads int) {
		for {
			page, err := s.ReadEvents(t.Context(), q, n)
			require.NoError(t, err)
			reads++
			for _, e := range page.Events {
				ids = append(ids, e.Run)
			}
			if !page.More {
				require.Equal(t, last, page.Next)
				return ids, reads
			}
			require.Greater(t, page.Next, q.After)
			require.LessOrEqual(t, len(page.Events), n)
			q.After = page.Next
		}
	}
	for _, tt := range []struct {
		q     run.EventQuery
		n     int
		want  []run.ID
		reads int
	}{
		// The events of few groups are found without a look at others.
		{run.EventQuery{Group: "/own/0"}, 10, []run.ID{own[0], own[many]}, 1},
		{run.EventQuery{Within: []string{"/own/1", "/own/0", "/own/none"}}, 10, []run.ID{own[0], own[1], own[many], own[many+1]}, 1},
		{run.EventQuery{Within: []string{"/own/1", "/own/0"}}, 2, []run.ID{own[0], own[1], own[many], own[many+1]}, 2},
		{run.EventQuery{Within: []string{"/none"}}, 10, nil, 1},
		{run.EventQuery{Within: []string{"/own/1"}, Group: "/own/1/below"}, 10, own[many+1:], 1},
		{run.EventQuery{Within: []string{"/own/1/below", "/other"}, Group: "/own"}, 10, own[many+1:], 1},
		{run.EventQuery{Within: []string{"/own/1"}, Group: "/own/2"}, 10, nil, 1},
		{run.EventQuery{Within: []string{"/own"}, Run: own[many]}, 10, own[many : many+1], 1},
		// There are many groups: a read passes 10,000 events.
		{run.EventQuery{Group: "/own"}, 500, own, 2},
		{run.EventQuery{Group: "/own", After: last - perRun - 2}, 500, own[many:], 1},
	} {
		ids, reads := read(tt.q, tt.n)
		require.Equal(t, tt.want, ids, "%+v", tt.q)
		require.Equal(t, tt.reads, reads, "%+v", tt.q)
	}
}
