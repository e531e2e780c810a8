package recordstest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func restartTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"source":           testRestartSource,
		"source/inputs":    testRestartSourceInputs,
		"keeps_and_links":  testRestartKeeps,
		"keeps_shifted":    testRestartShifted,
		"refused":          testRestartRefused,
		"delete":           testDelete,
		"delete/kept_logs": testDeleteKeptLogs,
		"delete/at_once":   testDeleteAtOnce,
		"delete/many":      testDeleteMany,
		"groups":           testGroups,
		"groups/below":     testGroupsBelow,
	}
}

func testRestartSource(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := rich()
	r := fixture.Create(t, s, spec)
	got, err := s.RestartSource(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, r.ID, got.Run.ID)
	require.Equal(t, spec, got.Spec, "with matrices, secrets and annotations")
	_, err = s.RestartSource(t.Context(), "01jd0000000000000000000000")
	fixture.RequireCode(t, run.CodeNotFound, err)
}

// testRestartSourceInputs checks that a run has the values of inputs, and that a
// restart gets the references to them.
func testRestartSourceInputs(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	of := func(value string) *run.Spec {
		spec := fixture.OneTask("/a/b")
		spec.Name, spec.Annotations = "to "+value, map[string]string{"k": "v"}
		spec.Secrets = map[string]run.Secret{"S": "hunter2"}
		spec.Inputs = map[string]run.Input{"x": {Default: new("a")}, "n": {Type: run.InputNumber, Required: true}}
		spec.InputValues = map[string]string{"x": "b", "n": "1.50"}
		spec.Tasks["build"].Environment = map[string]string{"X": value}
		spec.Tasks["build"].Matrix = run.Matrix{
			Axes:    map[string][]string{"A": {"1", "2"}},
			Exclude: []map[string]string{{"A": "1"}}, Include: []map[string]string{{"A": "3", "B": "4"}},
		}
		return spec
	}
	n := fixture.NewRun(t, of("b"))
	n.Source = of(`{{ input "x" }}`)
	created, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	for _, r := range []run.Run{created, fixture.Get(t, s, created.ID)} {
		require.Equal(t, "to b", r.Name)
		require.Equal(t, map[string]any{"x": "b", "n": 1.5}, r.InputValues)
		require.Equal(t, []string{"build[A=2]", "build[A=3,B=4]"}, []string{r.Tasks[0].Name, r.Tasks[1].Name})
	}
	require.NoError(t, s.Annotate(t.Context(), created.ID, "", map[string]string{"k": "new"}, nil))
	want := of(`{{ input "x" }}`)
	want.Annotations["k"] = "new"
	got, err := s.RestartSource(t.Context(), created.ID)
	require.NoError(t, err)
	require.Equal(t, want, got.Spec)

	fixture.Begin(t, s, created.ID)
	fixture.Apply(t, s, created.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	claimed := fixture.Claim(t, s, run.Key{Run: created.ID, Task: 1, Attempt: 1, Dispatch: 1})
	require.Equal(t, "b", claimed.Environment["X"])
	require.Equal(t, "4", claimed.Environment["B"])
}

// halfFailed creates a run of the tasks "build" and "later", of which build has
// a log and an output and succeeded, and later failed. while is called while build runs.
func halfFailed(t *testing.T, s records.Store, while ...func(key run.Key)) (run.Run, run.Key) {
	t.Helper()
	spec := fixture.OneTask("/a/b")
	spec.Tasks["later"] = &run.TaskSpec{Pool: "linux", Steps: []run.Step{{Run: "false"}}, Depends: []run.Depend{{Task: "build"}}}
	r := fixture.Create(t, s, spec)
	fixture.Begin(t, s, r.ID)
	key := run.Key{Run: r.ID, Task: 0, Attempt: 1, Dispatch: 1}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	fixture.Claim(t, s, key)
	for _, call := range while {
		call(key)
	}
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameOutputs)))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 4, run.FrameTaskEnd)))
	require.NoError(t, s.Annotate(t.Context(), r.ID, "build", map[string]string{"k": "v"}, nil))
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess), fixture.Queued(1, 1, 1)}})
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(1, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	return fixture.Get(t, s, r.ID), key
}

// restarted restarts a run and keeps its task 0.
func restarted(t *testing.T, s records.Store, of run.ID) run.Run {
	t.Helper()
	r, err := s.CreateRun(t.Context(), restartOf(t, s, of))
	require.NoError(t, err)
	return r
}

func restartOf(t *testing.T, s records.Store, of run.ID) records.NewRun {
	t.Helper()
	source, err := s.RestartSource(t.Context(), of)
	require.NoError(t, err)
	n := fixture.NewRun(t, source.Spec)
	n.Restart = &records.Restart{From: of, Kept: map[int]int{0: 0}}
	return n
}

func testRestartKeeps(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	old, key := halfFailed(t, s)
	first := restarted(t, s, old.ID)
	require.Equal(t, old.ID, first.RestartedFrom)
	require.Equal(t, map[run.Status]int{run.StatusSuccess: 1, run.StatusNotStarted: 1}, first.TaskCounts)
	kept, prev := first.Tasks[0], old.Tasks[0]
	require.Equal(t, prev, kept, "status, times, steps, outputs, annotations")
	require.Equal(t, run.StatusNotStarted, first.Tasks[1].Status)
	require.Zero(t, first.Tasks[1].Attempt)

	fixture.Begin(t, s, first.ID)
	fixture.Apply(t, s, first.ID, records.Changes{Tasks: []run.TaskChange{{Task: 1, Status: run.StatusSkipped}}, Result: run.ResultSuccess, Finish: true})
	second := restarted(t, s, first.ID)
	for _, id := range []run.ID{first.ID, second.ID} {
		list := fixture.Batches(t, s, id, 0, records.BatchRef{})
		own := run.Key{Run: id, Attempt: 1, Dispatch: 1}
		require.Equal(t, []records.Batch{{Key: own, Source: key, First: 1, Last: 3}, {Key: own, Source: key, First: 4, Last: 4, End: true}}, list,
			"the bytes stay in place over any number of restarts")
	}
	third := restarted(t, s, old.ID)
	require.Equal(t, []run.ID{first.ID, third.ID}, fixture.Get(t, s, old.ID).RestartedAs)
	require.Equal(t, []run.ID{second.ID}, fixture.Get(t, s, first.ID).RestartedAs)
	page, err := s.ListRuns(t.Context(), run.ListQuery{Ascending: true, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []run.ID{first.ID, third.ID}, page.Runs[0].RestartedAs, "in lists too")
}

// testRestartShifted restarts runs with specifications that have tasks more, and again less, so that
// kept tasks have other numbers.
func testRestartShifted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	old, key := halfFailed(t, s, func(key run.Key) {
		save(t, s, fixture.Step(key, 0), records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "o", Size: 7})
	})
	restart := func(of run.ID, kept map[int]int, names ...string) run.Run {
		source, err := s.RestartSource(t.Context(), of)
		require.NoError(t, err)
		for _, name := range names { // they have lower numbers than build
			source.Spec.Tasks[name] = &run.TaskSpec{Pool: "linux", Steps: []run.Step{{Run: "true"}}}
		}
		for name := range source.Spec.Tasks {
			if name != "build" && name != "later" && !slices.Contains(names, name) {
				delete(source.Spec.Tasks, name)
			}
		}
		n := fixture.NewRun(t, source.Spec)
		n.Restart = &records.Restart{From: of, Kept: kept}
		r, err := s.CreateRun(t.Context(), n)
		require.NoError(t, err)
		return r
	}
	end := func(r run.Run) {
		fixture.Begin(t, s, r.ID)
		var changes []run.TaskChange
		for _, x := range r.Tasks {
			if x.Status == run.StatusNotStarted {
				changes = append(changes, run.TaskChange{Task: x.Number, Status: run.StatusSkipped})
			}
		}
		fixture.Apply(t, s, r.ID, records.Changes{Tasks: changes, Result: run.ResultSuccess, Finish: true})
	}
	names := func(r run.Run) (names []string) {
		for _, x := range r.Tasks {
			names = append(names, x.Name)
		}
		return names
	}
	check := func(r run.Run, number int) {
		r = fixture.Get(t, s, r.ID)
		want := old.Tasks[0]
		want.Number = number
		require.Equal(t, want, r.Tasks[number], "status, times, steps, outputs, annotations")
		require.Equal(t, 1, r.TaskCounts[run.StatusSuccess])
		own := run.Key{Run: r.ID, Task: number, Attempt: 1, Dispatch: 1}
		batches, err := s.Batches(t.Context(), r.ID, number, 0, records.BatchRef{})
		require.NoError(t, err)
		require.Len(t, batches, 2)
		for i, first := range []int64{1, 4} {
			require.Equal(t, []any{own, key, first}, []any{batches[i].Key, batches[i].Source, batches[i].First})
		}
		artifacts, err := s.Artifacts(t.Context(), r.ID)
		require.NoError(t, err)
		require.Len(t, artifacts, 1)
		require.Equal(t, []string{"build", "o"}, []string{artifacts[0].Task, artifacts[0].Object})
	}
	first := restart(old.ID, map[int]int{2: 0}, "a1", "a2")
	require.Equal(t, []string{"a1", "a2", "build", "later"}, names(first))
	check(first, 2)
	end(first)
	second := restart(first.ID, map[int]int{1: 2, 0: 0}, "a1")
	require.Equal(t, []string{"a1", "build", "later"}, names(second))
	require.Equal(t, run.StatusSkipped, second.Tasks[0].Status, "task 0 stays 0, and task 2 becomes 1")
	check(second, 1)
	end(second)

	for _, r := range []run.Run{old, first} {
		require.NoError(t, s.DeleteRun(t.Context(), r.ID))
		require.Empty(t, garbage(t, s))
		require.Empty(t, collectObjects(t, s))
		check(second, 1)
	}
	require.Equal(t, 1, expireLogs(t, s, afterTest(), 10).Runs)
	require.True(t, expired(t, s, second.ID, "build"))
	require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 4}}, garbage(t, s))
	third := restart(second.ID, map[int]int{0: 1})
	require.Equal(t, []string{"build", "later"}, names(third))
	require.True(t, expired(t, s, third.ID, "build"))
	require.False(t, expired(t, s, third.ID, "later"))
	require.NoError(t, s.CancelRun(t.Context(), third.ID, nil))
	for _, r := range []run.Run{second, third} {
		require.Empty(t, collectObjects(t, s))
		require.NoError(t, s.DeleteRun(t.Context(), r.ID))
	}
	require.Equal(t, []string{"o"}, collectObjects(t, s))
}

func testRestartRefused(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	n := fixture.NewRun(t, fixture.OneTask("/a/b"))
	n.Restart = &records.Restart{From: r.ID}
	_, err := s.CreateRun(t.Context(), n)
	fixture.RequireCode(t, run.CodeWrongPhase, err)
	n.Restart.From = "01jd0000000000000000000000"
	_, err = s.CreateRun(t.Context(), n)
	fixture.RequireCode(t, run.CodeNotFound, err)
	require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
	n.Restart = &records.Restart{From: r.ID, Kept: map[int]int{0: 3}}
	_, err = s.CreateRun(t.Context(), n)
	fixture.RequireCode(t, run.CodeConflict, err)
	require.Empty(t, fixture.Get(t, s, r.ID).RestartedAs)
}

func testDelete(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	old, key := halfFailed(t, s)
	open := fixture.Create(t, s, rich())
	fixture.RequireCode(t, run.CodeWrongPhase, s.DeleteRun(ctx, open.ID))
	require.NoError(t, s.DeleteRun(ctx, old.ID))
	fixture.RequireCode(t, run.CodeNotFound, s.DeleteRun(ctx, old.ID))
	_, err := s.GetRun(ctx, old.ID)
	fixture.RequireCode(t, run.CodeNotFound, err)
	garbage, err := s.TakeGarbage(ctx, 10)
	require.NoError(t, err)
	want := []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 4}}
	require.Equal(t, want, garbage)
	require.NoError(t, s.CompleteGarbage(ctx, garbage[:1]))
	garbage, err = s.TakeGarbage(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, want[1:], garbage)
	for _, q := range []run.ListQuery{{}, {Groups: []string{"/a"}}, {Groups: []string{"/a"}, Results: []run.Result{run.ResultFailed}}} {
		page, err := s.ListRuns(ctx, q)
		require.NoError(t, err)
		for _, r := range page.Runs {
			require.NotEqual(t, old.ID, r.ID)
		}
	}
	require.NoError(t, s.CancelRun(ctx, open.ID, nil))
	require.NoError(t, s.DeleteRun(ctx, open.ID))
	next := fixture.Create(t, s, fixture.OneTask("/a/b"))
	require.EqualValues(t, 2, next.Counter, "counters continue")
}

func testDeleteKeptLogs(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	old, key := halfFailed(t, s)
	first, second := restarted(t, s, old.ID), restarted(t, s, old.ID)
	require.NoError(t, s.CancelRun(ctx, first.ID, nil))
	require.NoError(t, s.CancelRun(ctx, second.ID, nil))
	for i, id := range []run.ID{old.ID, second.ID, first.ID} {
		require.NoError(t, s.DeleteRun(ctx, id))
		garbage, err := s.TakeGarbage(ctx, 10)
		require.NoError(t, err)
		if i < 2 {
			require.Empty(t, garbage, "another run keeps the log")
			continue
		}
		require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 4}}, garbage)
	}
}

// testDeleteAtOnce concurrently deletes runs that share a log: its bytes become
// garbage exactly once.
func testDeleteAtOnce(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t), d.Store(t)}
	s := stores[0]
	for range 8 {
		old, key := halfFailed(t, s)
		first, second := restarted(t, s, old.ID), restarted(t, s, old.ID)
		for _, id := range []run.ID{first.ID, second.ID} {
			require.NoError(t, s.CancelRun(t.Context(), id, nil))
		}
		var group errgroup.Group
		for i, id := range []run.ID{old.ID, first.ID, second.ID} {
			group.Go(func() error { return stores[i].DeleteRun(t.Context(), id) })
		}
		require.NoError(t, group.Wait())
		garbage, err := s.TakeGarbage(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, []records.GarbageBatch{{Key: key, Frame: 1}, {Key: key, Frame: 4}}, garbage)
		require.NoError(t, s.CompleteGarbage(t.Context(), garbage))
	}
}

func testDeleteMany(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []run.ID
	for i := range 12 {
		n := fixture.NewRun(t, fixture.OneTask(fmt.Sprintf("/a/b%d", i%2)))
		n.Time = start.Add(time.Duration(i) * time.Hour)
		r, err := s.CreateRun(ctx, n)
		require.NoError(t, err)
		ids = append(ids, r.ID)
		if i != 3 {
			require.NoError(t, s.CancelRun(ctx, r.ID, nil))
		}
	}
	left := func() (out []run.ID) {
		page, err := s.ListRuns(ctx, run.ListQuery{Limit: 100, Ascending: true})
		require.NoError(t, err)
		for _, r := range page.Runs {
			out = append(out, r.ID)
		}
		return out
	}
	done, err := s.DeleteRuns(ctx, run.DeleteQuery{Before: start.Add(4 * time.Hour), DryRun: true})
	require.NoError(t, err)
	require.Equal(t, run.Deleted{Runs: 3}, done, "what is open stays")
	require.Len(t, left(), 12)
	done, err = s.DeleteRuns(ctx, run.DeleteQuery{Before: start.Add(4 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, run.Deleted{Runs: 3}, done)
	require.Equal(t, ids[3:], left())
	done, err = s.DeleteRuns(ctx, run.DeleteQuery{Group: "/a/b0", Keep: 2})
	require.NoError(t, err)
	require.Equal(t, run.Deleted{Runs: 2}, done)
	require.Equal(t, []run.ID{ids[3], ids[5], ids[7], ids[8], ids[9], ids[10], ids[11]}, left())
	done, err = s.DeleteRuns(ctx, run.DeleteQuery{Keep: 1, Before: start.Add(9 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, run.Deleted{Runs: 3}, done)
	require.Equal(t, []run.ID{ids[3], ids[9], ids[10], ids[11]}, left())
}

func testGroups(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	fixture.Create(t, s, fixture.OneTask("/p/feature02"))
	waiting := fixture.Create(t, s, fixture.OneTask("/p/feature/x"))
	busy := fixture.Create(t, s, fixture.OneTask("/p/feature"))
	fixture.Begin(t, s, busy.ID)
	done := fixture.Create(t, s, fixture.OneTask("/p/feature"))
	fixture.Finish(t, s, done.ID)
	page, err := s.Groups(ctx, run.GroupQuery{Paths: []string{"/p/feature", "/p/none", "/p/feature/"}})
	require.NoError(t, err)
	require.Empty(t, page.After)
	require.Len(t, page.Groups, 3)
	g := page.Groups[0]
	require.Equal(t, []any{"/p/feature", 1, 1, done.ID}, []any{g.Path, g.Queued, g.Running, g.Last.ID}, "with all below, without siblings of the same prefix")
	require.Equal(t, run.Group{Path: "/p/none"}, page.Groups[1])
	require.Equal(t, 1, page.Groups[2].Queued)
	require.NoError(t, s.CancelRun(ctx, waiting.ID, nil))
	page, err = s.Groups(ctx, run.GroupQuery{Paths: []string{"/p", "/"}})
	require.NoError(t, err)
	for _, g := range page.Groups {
		require.Equal(t, []any{1, 1, done.ID}, []any{g.Queued, g.Running, g.Last.ID}, g.Path)
	}
}

func testGroupsBelow(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, path := range []string{"/p/b", "/p/a", "/p/a/z", "/p/a0", "/q/a", "/p/b"} {
		fixture.Create(t, s, fixture.OneTask(path))
	}
	read := func(q run.GroupQuery) (paths []string, after string) {
		page, err := s.Groups(t.Context(), q)
		require.NoError(t, err)
		for _, g := range page.Groups {
			paths = append(paths, g.Path)
		}
		return paths, page.After
	}
	paths, after := read(run.GroupQuery{Limit: 2})
	require.Equal(t, []string{"/p/a", "/p/a/z"}, paths)
	paths, after = read(run.GroupQuery{Limit: 3, After: after})
	require.Equal(t, []string{"/p/a0", "/p/b", "/q/a"}, paths)
	require.Empty(t, after)
	paths, _ = read(run.GroupQuery{Under: "/p"})
	require.Equal(t, []string{"/p/a", "/p/a/z", "/p/a0", "/p/b"}, paths)
	within := []string{"/q", "/p/a", "/p/a/z"}
	paths, after = read(run.GroupQuery{Within: within, Limit: 2})
	require.Equal(t, []string{"/p/a", "/p/a/z"}, paths)
	paths, after = read(run.GroupQuery{Within: within, Limit: 2, After: after})
	require.Equal(t, []string{"/q/a"}, paths)
	require.Empty(t, after)
	paths, _ = read(run.GroupQuery{Under: "/p/b", Within: within})
	require.Empty(t, paths)
	page, err := s.Groups(t.Context(), run.GroupQuery{Paths: []string{"/", "/p", "/p/b", "/p/a/z"}, Within: within})
	require.NoError(t, err)
	var queued []int
	for _, g := range page.Groups {
		queued = append(queued, g.Queued)
		require.Equal(t, g.Queued == 0, g.Last == nil, g.Path)
	}
	require.Equal(t, []int{3, 2, 0, 1}, queued)
	paths, after = read(run.GroupQuery{Under: "/p/a", Limit: 1})
	require.Equal(t, []string{"/p/a"}, paths)
	paths, _ = read(run.GroupQuery{Under: "/p/a", Limit: 1, After: after})
	require.Equal(t, []string{"/p/a/z"}, paths)
}
