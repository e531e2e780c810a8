package recordstest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// dueTests compare what the Due methods list with what is then removed.
func dueTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
		"runs":       testDueRuns,
		"events":     testDueEvents,
		"logs":       testDueLogs,
		"workspaces": testDueWorkspaces,
		"artifacts":  testDueArtifacts,
		"caches":     testDueCaches,
	}
}

// due calls fn twice, since the call must change nothing.
func due(t *testing.T, ask func() (run.RetentionDue, error)) run.RetentionDue {
	t.Helper()
	told, err := ask()
	require.NoError(t, err)
	again, err := ask()
	require.NoError(t, err)
	require.Equal(t, told, again)
	if len(told.First) > 0 {
		require.Equal(t, told.Oldest, told.First[0].Since)
	}
	return told
}

func runsOf(d run.RetentionDue) (ids []run.ID) {
	for _, i := range d.First {
		ids = append(ids, i.Run)
	}
	return ids
}

// testDueRuns creates runs of two groups, of which some are open and some too
// new.
func testDueRuns(t *testing.T, d *database) {
	s := d.store(t)
	var all []run.ID
	end := func(group string) {
		r := create(t, s, oneTask(group))
		require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
		all = append(all, r.ID)
		d.clock.advance(time.Hour)
	}
	open := create(t, s, oneTask("/a/b"))
	for range 3 {
		end("/a/b")
		end("/a/c")
	}
	ask := func(q run.DeleteQuery, n int) run.RetentionDue {
		return due(t, func() (run.RetentionDue, error) { return s.DueRuns(t.Context(), q, n) })
	}
	middle := get(t, s, all[3]).CreatedAt
	for name, tt := range map[string]struct {
		q    run.DeleteQuery
		want []run.ID
	}{
		"old":          {run.DeleteQuery{Before: middle}, all[:3]},
		"many":         {run.DeleteQuery{Keep: 2}, all[:2]},
		"old_and_many": {run.DeleteQuery{Keep: 1, Before: middle}, all[:3]},
		"none":         {run.DeleteQuery{Keep: 5}, nil},
	} {
		told := ask(tt.q, 10)
		require.Equal(t, tt.want, runsOf(told), name)
		require.Equal(t, int64(len(tt.want)), told.Count, name)
	}
	everything := run.DeleteQuery{Before: d.clock.now()}
	told := ask(everything, 2)
	require.Equal(t, int64(6), told.Count)
	require.Equal(t, all[:2], runsOf(told), "the oldest of all groups")
	require.Equal(t, get(t, s, all[0]).CreatedAt, ask(everything, 0).Oldest)

	paced := 0
	everything.Pace = func(context.Context) error { paced++; return nil }
	out, err := s.DeleteRuns(t.Context(), everything)
	require.NoError(t, err)
	require.Equal(t, int(told.Count), out.Runs)
	require.Equal(t, out.Runs, paced, "each deletion is paced")
	require.Zero(t, ask(everything, 10).Count)
	get(t, s, open.ID)
}

func testDueEvents(t *testing.T, d *database) {
	s := d.store(t)
	for range 4 {
		create(t, s, oneTask("/a/b"))
	}
	lastEvent(t, s, 4)
	d.clock.advance(time.Hour)
	for range 4 {
		create(t, s, oneTask("/a/b"))
	}
	lastEvent(t, s, 8)
	remove(t, s, records.KeepEvents{Newest: 7}, 100)
	old := d.clock.now().Add(-time.Minute)
	for name, tt := range map[string]struct {
		keep records.KeepEvents
		want int64
	}{
		"all":    {records.KeepEvents{}, 0},
		"newest": {records.KeepEvents{Newest: 6}, 1},
		"young":  {records.KeepEvents{Since: old}, 3},
		"either": {records.KeepEvents{Since: old, Newest: 2}, 5},
		"none":   {records.KeepEvents{Since: d.clock.now().Add(time.Hour)}, 7},
		"newer":  {records.KeepEvents{Since: old, Newest: 100}, 3},
	} {
		require.Equal(t, tt.want, due(t, func() (run.RetentionDue, error) { return s.DueEvents(t.Context(), tt.keep, 3) }).Count, name)
	}
	keep := records.KeepEvents{Since: old, Newest: 2}
	told := due(t, func() (run.RetentionDue, error) { return s.DueEvents(t.Context(), keep, 2) })
	require.Len(t, told.First, 2)
	require.Equal(t, []int64{2, 3}, []int64{told.First[0].Event, told.First[1].Event})
	require.Equal(t, int(told.Count), remove(t, s, keep, 100))
	told = due(t, func() (run.RetentionDue, error) { return s.DueEvents(t.Context(), keep, 2) })
	require.Equal(t, run.RetentionDue{Kind: run.RetentionEvents}, told)
}

// testDueLogs creates runs with logs of their own, one open run, one whose logs
// others keep, and one that keeps the logs of a deleted run.
func testDueLogs(t *testing.T, d *database) {
	s := d.store(t)
	running(t, s, oneTask("/a/b"))
	var ids []run.ID
	for range 3 {
		id, _ := endedLog(t, s)
		ids = append(ids, id)
	}
	for _, log := range taken(t, s) {
		require.NoError(t, s.SwitchPacked(t.Context(), log, 100))
	}
	shared, _ := halfFailed(t, s)
	gone, _ := halfFailed(t, s)
	keeper := restarted(t, s, gone.ID)
	for _, id := range []run.ID{restarted(t, s, shared.ID).ID, keeper.ID} {
		require.NoError(t, s.CancelRun(t.Context(), id, nil))
	}
	require.NoError(t, s.DeleteRun(t.Context(), gone.ID))
	ask := func(before time.Time, n int) run.RetentionDue {
		return due(t, func() (run.RetentionDue, error) { return s.DueLogs(t.Context(), before, n) })
	}
	first := get(t, s, ids[1])
	require.Equal(t, run.RetentionDue{
		Kind: run.RetentionLogs, RetentionSum: run.RetentionSum{Count: 1, Bytes: 100}, Oldest: get(t, s, ids[0]).EndedAt,
		First: []run.RetentionItem{{Run: ids[0], Bytes: 100, Since: get(t, s, ids[0]).EndedAt}},
	}, ask(first.EndedAt, 10))
	told := ask(soon(), 10)
	require.Equal(t, append(ids, shared.ID, keeper.ID), runsOf(told), "each log once, and the log that a run keeps of a deleted one")
	require.Len(t, ask(soon(), 2).First, 2)
	var sum run.RetentionSum
	for {
		out := expireLogs(t, s, soon(), 2)
		sum.Count += int64(out.Runs)
		sum.Bytes += out.Bytes
		if out.Runs < 2 {
			break
		}
	}
	require.Equal(t, told.RetentionSum, sum)
	require.Equal(t, run.RetentionDue{Kind: run.RetentionLogs}, ask(soon(), 10))
}

// requireExpires compares the archives that are listed as due with those that
// are removed, a few at a time.
func requireExpires(t *testing.T, s records.Store, kind run.ArchiveKind, keep run.ArchiveRetention) run.RetentionDue {
	t.Helper()
	ask := func() (run.RetentionDue, error) { return s.DueArchives(t.Context(), kind, keep, 2) }
	told := due(t, ask)
	var sum run.RetentionSum
	for more := true; more; {
		out := expireArchives(t, s, kind, keep, 2)
		sum.Count += int64(out.Archives)
		sum.Bytes += out.Bytes
		more = out.More
	}
	require.Equal(t, told.RetentionSum, sum)
	require.Equal(t, run.RetentionDue{Kind: told.Kind}, due(t, ask))
	return told
}

func testDueWorkspaces(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, pipeline())
	begin(t, s, r.ID)
	for n, key := range at(t, s, r.ID, 0, 1, 2) {
		save(t, s, step(key, 0), workspace("o"+itoa(int64(n)), int64(10+n)))
	}
	_, key := running(t, s, pipeline())
	save(t, s, step(key, 0), workspace("open", 1))
	finishPipeline(t, s, r.ID)
	keep := run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}
	require.Zero(t, requireExpires(t, s, run.ArchiveWorkspace, keep).Count)
	d.clock.advance(2 * time.Hour)
	ended := get(t, s, r.ID).EndedAt
	require.Equal(t, run.RetentionDue{
		Kind: run.RetentionWorkspaces, RetentionSum: run.RetentionSum{Count: 3, Bytes: 33}, Oldest: ended,
		First: []run.RetentionItem{{Run: r.ID, Task: "a", Bytes: 10, Since: ended}, {Run: r.ID, Task: "b", Bytes: 11, Since: ended}},
	}, requireExpires(t, s, run.ArchiveWorkspace, keep))
	require.ElementsMatch(t, []string{"o0", "o1", "o2"}, leftObjects(t, s))
}

func testDueArtifacts(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, pipeline())
	begin(t, s, r.ID)
	expires := d.clock.now().Add(time.Hour).Round(0)
	for n, key := range at(t, s, r.ID, 0, 1, 2) {
		a := records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "o" + itoa(int64(n)), Size: 7}
		if n < 2 {
			a.Expires = expires.Add(-time.Duration(n) * time.Minute)
		}
		save(t, s, step(key, 2), a)
	}
	require.Zero(t, requireExpires(t, s, run.ArchiveArtifact, run.ArchiveRetention{}).Count)
	d.clock.advance(2 * time.Hour)
	told := requireExpires(t, s, run.ArchiveArtifact, run.ArchiveRetention{})
	require.Equal(t, run.RetentionSum{Count: 2, Bytes: 14}, told.RetentionSum)
	require.Equal(t, run.RetentionItem{Run: r.ID, Task: "b", Name: "report", Bytes: 7, Since: expires.Add(-time.Minute).UTC()}, told.First[0])
	require.ElementsMatch(t, []string{"o0", "o1"}, leftObjects(t, s))
}

func testDueCaches(t *testing.T, d *database) {
	s := d.store(t)
	_, key := running(t, s, pipeline())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		save(t, s, step(key, 1), cache("s", name, "o-"+name, 10))
		d.clock.advance(time.Hour)
	}
	require.Zero(t, requireExpires(t, s, run.ArchiveCache, run.ArchiveRetention{}).Count)
	told := requireExpires(t, s, run.ArchiveCache, run.ArchiveRetention{CacheBytes: 25})
	require.Equal(t, run.RetentionSum{Count: 3, Bytes: 30}, told.RetentionSum)
	require.Equal(t, []string{"s a", "s b"}, []string{told.First[0].Scope + " " + told.First[0].Name, told.First[1].Scope + " " + told.First[1].Name})
	told = requireExpires(t, s, run.ArchiveCache, run.ArchiveRetention{CacheBytes: 25, CacheUnused: run.Duration(90 * time.Minute)})
	require.Equal(t, run.RetentionSum{Count: 1, Bytes: 10}, told.RetentionSum)
}
