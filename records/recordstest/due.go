package recordstest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// dueTests compare what the Due methods list with what is then removed.
func dueTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"runs":       testDueRuns,
		"events":     testDueEvents,
		"logs":       testDueLogs,
		"workspaces": testDueWorkspaces,
		"artifacts":  testDueArtifacts,
		"caches":     testDueCaches,
	}
}

// due calls fn twice, since the call must change nothing.
func due(t *testing.T, request func() (run.RetentionDue, error)) run.RetentionDue {
	t.Helper()
	reported, err := request()
	require.NoError(t, err)
	again, err := request()
	require.NoError(t, err)
	require.Equal(t, reported, again)
	if len(reported.First) > 0 {
		require.Equal(t, reported.Oldest, reported.First[0].Since)
	}
	return reported
}

func runsOf(d run.RetentionDue) (ids []run.ID) {
	for _, i := range d.First {
		ids = append(ids, i.Run)
	}
	return ids
}

// testDueRuns creates runs of two groups, of which some are open and some too
// new.
func testDueRuns(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	var all []run.ID
	end := func(group string) {
		r := fixture.Create(t, s, fixture.OneTask(group))
		require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
		all = append(all, r.ID)
		d.Clock.Advance(time.Hour)
	}
	open := fixture.Create(t, s, fixture.OneTask("/a/b"))
	for range 3 {
		end("/a/b")
		end("/a/c")
	}
	request := func(q run.DeleteQuery, n int) run.RetentionDue {
		return due(t, func() (run.RetentionDue, error) { return s.DueRuns(t.Context(), q, n) })
	}
	middle := fixture.Get(t, s, all[3]).CreatedAt
	for name, tt := range map[string]struct {
		q    run.DeleteQuery
		want []run.ID
	}{
		"old":          {run.DeleteQuery{Before: middle}, all[:3]},
		"many":         {run.DeleteQuery{Keep: 2}, all[:2]},
		"old_and_many": {run.DeleteQuery{Keep: 1, Before: middle}, all[:3]},
		"none":         {run.DeleteQuery{Keep: 5}, nil},
	} {
		reported := request(tt.q, 10)
		require.Equal(t, tt.want, runsOf(reported), name)
		require.Equal(t, int64(len(tt.want)), reported.Count, name)
	}
	everything := run.DeleteQuery{Before: d.Clock.Now()}
	reported := request(everything, 2)
	require.Equal(t, int64(6), reported.Count)
	require.Equal(t, all[:2], runsOf(reported), "the oldest of all groups")
	require.Equal(t, fixture.Get(t, s, all[0]).CreatedAt, request(everything, 0).Oldest)

	paced := 0
	everything.Throttle = func(context.Context) error { paced++; return nil }
	out, err := s.DeleteRuns(t.Context(), everything)
	require.NoError(t, err)
	require.Equal(t, int(reported.Count), out.Runs)
	require.Equal(t, out.Runs, paced, "each deletion is paced")
	require.Zero(t, request(everything, 10).Count)
	fixture.Get(t, s, open.ID)
}

func testDueEvents(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 4 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 4)
	d.Clock.Advance(time.Hour)
	for range 4 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 8)
	remove(t, s, records.KeepEvents{Newest: 7}, 100)
	old := d.Clock.Now().Add(-time.Minute)
	for name, tt := range map[string]struct {
		keep records.KeepEvents
		want int64
	}{
		"all":    {records.KeepEvents{}, 0},
		"newest": {records.KeepEvents{Newest: 6}, 1},
		"young":  {records.KeepEvents{Since: old}, 3},
		"either": {records.KeepEvents{Since: old, Newest: 2}, 5},
		"none":   {records.KeepEvents{Since: d.Clock.Now().Add(time.Hour)}, 7},
		"newer":  {records.KeepEvents{Since: old, Newest: 100}, 3},
	} {
		require.Equal(t, tt.want, due(t, func() (run.RetentionDue, error) { return s.DueEvents(t.Context(), tt.keep, 3) }).Count, name)
	}
	keep := records.KeepEvents{Since: old, Newest: 2}
	reported := due(t, func() (run.RetentionDue, error) { return s.DueEvents(t.Context(), keep, 2) })
	require.Len(t, reported.First, 2)
	require.Equal(t, []int64{2, 3}, []int64{reported.First[0].Event, reported.First[1].Event})
	require.Equal(t, int(reported.Count), remove(t, s, keep, 100))
	reported = due(t, func() (run.RetentionDue, error) { return s.DueEvents(t.Context(), keep, 2) })
	require.Equal(t, run.RetentionDue{Kind: run.RetentionEvents}, reported)
}

// testDueLogs creates runs with logs of their own, one open run, one whose logs
// others keep, and one that keeps the logs of a deleted run.
func testDueLogs(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	fixture.Running(t, s, fixture.OneTask("/a/b"))
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
	restartedRun := restarted(t, s, gone.ID)
	for _, id := range []run.ID{restarted(t, s, shared.ID).ID, restartedRun.ID} {
		require.NoError(t, s.CancelRun(t.Context(), id, nil))
	}
	require.NoError(t, s.DeleteRun(t.Context(), gone.ID))
	request := func(before time.Time, n int) run.RetentionDue {
		return due(t, func() (run.RetentionDue, error) { return s.DueLogs(t.Context(), before, n) })
	}
	first := fixture.Get(t, s, ids[1])
	require.Equal(t, run.RetentionDue{
		Kind: run.RetentionLogs, RetentionSum: run.RetentionSum{Count: 1, Bytes: 100}, Oldest: fixture.Get(t, s, ids[0]).EndedAt,
		First: []run.RetentionItem{{Run: ids[0], Bytes: 100, Since: fixture.Get(t, s, ids[0]).EndedAt}},
	}, request(first.EndedAt, 10))
	reported := request(afterTest(), 10)
	require.Equal(t, append(ids, shared.ID, restartedRun.ID), runsOf(reported), "each log once, and the log that a run keeps of a deleted one")
	require.Len(t, request(afterTest(), 2).First, 2)
	var sum run.RetentionSum
	for {
		out := expireLogs(t, s, afterTest(), 2)
		sum.Count += int64(out.Runs)
		sum.Bytes += out.Bytes
		if out.Runs < 2 {
			break
		}
	}
	require.Equal(t, reported.RetentionSum, sum)
	require.Equal(t, run.RetentionDue{Kind: run.RetentionLogs}, request(afterTest(), 10))
}

// requireExpires compares the archives that are listed as due with those that
// are removed, a few at a time.
func requireExpires(t *testing.T, s records.Store, kind run.ArchiveKind, keep run.ArchiveRetention) run.RetentionDue {
	t.Helper()
	request := func() (run.RetentionDue, error) { return s.DueArchives(t.Context(), kind, keep, 2) }
	reported := due(t, request)
	var sum run.RetentionSum
	for more := true; more; {
		out := expireArchives(t, s, kind, keep, 2)
		sum.Count += int64(out.Archives)
		sum.Bytes += out.Bytes
		more = out.More
	}
	require.Equal(t, reported.RetentionSum, sum)
	require.Equal(t, run.RetentionDue{Kind: reported.Kind}, due(t, request))
	return reported
}

func testDueWorkspaces(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Pipeline())
	fixture.Begin(t, s, r.ID)
	for n, key := range claimTasks(t, s, r.ID, 0, 1, 2) {
		save(t, s, fixture.Step(key, 0), fixture.Workspace("o"+fixture.Itoa(int64(n)), int64(10+n)))
	}
	_, key := fixture.Running(t, s, fixture.Pipeline())
	save(t, s, fixture.Step(key, 0), fixture.Workspace("open", 1))
	finishPipeline(t, s, r.ID)
	keep := run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}
	require.Zero(t, requireExpires(t, s, run.ArchiveWorkspace, keep).Count)
	d.Clock.Advance(2 * time.Hour)
	ended := fixture.Get(t, s, r.ID).EndedAt
	require.Equal(t, run.RetentionDue{
		Kind: run.RetentionWorkspaces, RetentionSum: run.RetentionSum{Count: 3, Bytes: 33}, Oldest: ended,
		First: []run.RetentionItem{{Run: r.ID, Task: "a", Bytes: 10, Since: ended}, {Run: r.ID, Task: "b", Bytes: 11, Since: ended}},
	}, requireExpires(t, s, run.ArchiveWorkspace, keep))
	require.ElementsMatch(t, []string{"o0", "o1", "o2"}, collectObjects(t, s))
}

func testDueArtifacts(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Pipeline())
	fixture.Begin(t, s, r.ID)
	expires := d.Clock.Now().Add(time.Hour).Round(0)
	for n, key := range claimTasks(t, s, r.ID, 0, 1, 2) {
		a := records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "o" + fixture.Itoa(int64(n)), Size: 7}
		if n < 2 {
			a.Expires = expires.Add(-time.Duration(n) * time.Minute)
		}
		save(t, s, fixture.Step(key, 2), a)
	}
	require.Zero(t, requireExpires(t, s, run.ArchiveArtifact, run.ArchiveRetention{}).Count)
	d.Clock.Advance(2 * time.Hour)
	reported := requireExpires(t, s, run.ArchiveArtifact, run.ArchiveRetention{})
	require.Equal(t, run.RetentionSum{Count: 2, Bytes: 14}, reported.RetentionSum)
	require.Equal(t, run.RetentionItem{Run: r.ID, Task: "b", Name: "report", Bytes: 7, Since: expires.Add(-time.Minute).UTC()}, reported.First[0])
	require.ElementsMatch(t, []string{"o0", "o1"}, collectObjects(t, s))
}

func testDueCaches(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.Pipeline())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		save(t, s, fixture.Step(key, 1), cache("s", name, "o-"+name, 10))
		d.Clock.Advance(time.Hour)
	}
	require.Zero(t, requireExpires(t, s, run.ArchiveCache, run.ArchiveRetention{}).Count)
	reported := requireExpires(t, s, run.ArchiveCache, run.ArchiveRetention{CacheBytes: 25})
	require.Equal(t, run.RetentionSum{Count: 3, Bytes: 30}, reported.RetentionSum)
	require.Equal(t, []string{"s a", "s b"}, []string{reported.First[0].Scope + " " + reported.First[0].Name, reported.First[1].Scope + " " + reported.First[1].Name})
	reported = requireExpires(t, s, run.ArchiveCache, run.ArchiveRetention{CacheBytes: 25, CacheUnused: run.Duration(90 * time.Minute)})
	require.Equal(t, run.RetentionSum{Count: 1, Bytes: 10}, reported.RetentionSum)
}
