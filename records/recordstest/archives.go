package recordstest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func archiveTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"a_step_is_saved_once":       testArchiveOnce,
		"only_the_claim_counts":      testArchiveClaims,
		"secrets_of_a_claim":         testClaimSecrets,
		"uncommitted_is_garbage":     testArchiveGarbage,
		"workspaces_by_level":        testWorkspaces,
		"caches":                     testCaches,
		"a_cache_is_written_once":    testCacheOnce,
		"a_cache_is_replaced":        testCacheReplaced,
		"caches_replaced_at_once":    testCachesReplaced,
		"artifacts_of_kept_tasks":    testArtifactsKept,
		"expire":                     testArchivesExpire,
		"caches_expire":              testCachesExpire,
		"restarted_while_it_expires": testArchivesRace,
		"keys_of_the_service":        testServiceKey,
	}
}

// claimTasks queues and claims tasks of a run, and returns their keys.
func claimTasks(t *testing.T, s records.Store, id run.ID, tasks ...int) (keys []run.Key) {
	t.Helper()
	for _, n := range tasks {
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(n, 1, 1)}})
		key := run.Key{Run: id, Task: n, Attempt: 1, Dispatch: 1}
		fixture.Claim(t, s, key)
		keys = append(keys, key)
	}
	return keys
}

func cache(scope, name, object string, size int64) records.Archive {
	return records.Archive{Kind: run.ArchiveCache, Scope: scope, Name: name, Object: object, Size: size, Digest: "sha256:" + object}
}

// save saves an archive as an engine does.
func save(t *testing.T, s records.Store, c records.ArchiveClaim, a records.Archive) records.Archive {
	t.Helper()
	require.NoError(t, s.PutObject(t.Context(), a.Object, fixture.Lease))
	saved, err := s.CommitArchive(t.Context(), c, a)
	require.NoError(t, err)
	return saved
}

func collectObjects(t *testing.T, s records.Store) []string {
	t.Helper()
	objects, err := s.TakeObjects(t.Context(), 100, fixture.Lease)
	require.NoError(t, err)
	require.NoError(t, s.CompleteObjects(t.Context(), objects))
	return objects
}

func testArchiveOnce(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.Pipeline())
	place, err := s.ArchiveContext(t.Context(), fixture.Step(key, 0))
	require.NoError(t, err)
	require.Equal(t, records.ArchiveContext{
		Step: run.ArchiveStep{SaveWorkspace: &run.SaveWorkspace{To: "x"}}, Task: "a", Group: "/a/b/c", Untrusted: true,
	}, place)
	saved, err := s.SavedArchive(t.Context(), fixture.Step(key, 0), "", "")
	require.NoError(t, err)
	require.Nil(t, saved)

	first := save(t, s, fixture.Step(key, 0), fixture.Workspace("o1", 5))
	require.Equal(t, "a", first.Task)
	saved, err = s.SavedArchive(t.Context(), fixture.Step(key, 0), "", "")
	require.NoError(t, err)
	require.Equal(t, first, *saved)
	require.Equal(t, first, save(t, s, fixture.Step(key, 0), fixture.Workspace("o2", 6)), "the first archive stays")
	require.Equal(t, []string{"o2"}, collectObjects(t, s))
	again := records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "o3", Tests: &run.TestSummary{Tests: 3, Failed: 1, FailedNames: []string{"x"}}}
	save(t, s, fixture.Step(key, 2), again)
	artifacts, err := s.Artifacts(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, artifacts, 1)
	require.Equal(t, again.Tests, artifacts[0].Tests)

	// A new attempt saves again, and only its archives count.
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 2, 1)}})
	key.Attempt = 2
	fixture.Claim(t, s, key)
	artifacts, err = s.Artifacts(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, artifacts)
	again.Object = "o4"
	save(t, s, fixture.Step(key, 2), again)
	artifacts, err = s.Artifacts(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, artifacts, 1)
	require.Equal(t, "o4", artifacts[0].Object)
	_, err = s.Artifacts(t.Context(), "01jd0000000000000000000000")
	fixture.RequireCode(t, run.CodeNotFound, err)

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		fixture.Ended(0, 2, 1, run.StatusSuccess),
		{Task: 1, Status: run.StatusSkipped},
		{Task: 2, Status: run.StatusSkipped},
		{Task: 3, Status: run.StatusSkipped},
		{Task: 4, Status: run.StatusSkipped},
	}, Result: run.ResultSuccess, Finish: true})
	require.NoError(t, s.DeleteRun(t.Context(), id))
	require.ElementsMatch(t, []string{"o1", "o3", "o4"}, collectObjects(t, s), "the objects of all attempts")
	stats, err := s.ArchiveStats(t.Context())
	require.NoError(t, err)
	require.Equal(t, run.ArchiveStat{}, stats[run.ArchiveArtifact])
}

func testArchiveClaims(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.Pipeline())
	for name, c := range map[string]records.ArchiveClaim{
		"another executor":  {Key: key, Executor: "y"},
		"another dispatch":  {Key: run.Key{Run: id, Task: 0, Attempt: 1, Dispatch: 2}, Executor: "x"},
		"an unclaimed task": {Key: run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}, Executor: "x"},
	} {
		_, err := s.ArchiveContext(t.Context(), c)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err), name)
		_, err = s.ClaimSecrets(t.Context(), c)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err), name)
		require.NoError(t, s.PutObject(t.Context(), "o", fixture.Lease))
		_, err = s.CommitArchive(t.Context(), c, fixture.Workspace("o", 1))
		require.Equal(t, run.CodeNotFound, run.CodeOf(err), name)
	}
	_, err := s.ArchiveContext(t.Context(), fixture.Step(key, 3))
	fixture.RequireCode(t, run.CodeNotFound, err)
	save(t, s, fixture.Step(key, 0), fixture.Workspace("mine", 1))
	require.NoError(t, s.CheckObjectAccess(t.Context(), fixture.Step(key, 0), "mine"))
	fixture.RequireCode(t, run.CodeGone, s.CheckObjectAccess(t.Context(), fixture.Step(key, 0), "o"))
	fixture.RequireCode(t, run.CodeNotFound, s.CheckObjectAccess(t.Context(), records.ArchiveClaim{Key: key, Executor: "y"}, "mine"))

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	_, err = s.CommitArchive(t.Context(), fixture.Step(key, 2), fixture.Workspace("o", 1))
	fixture.RequireCode(t, run.CodeConflict, err)
	fixture.RequireCode(t, run.CodeConflict, s.CheckObjectAccess(t.Context(), fixture.Step(key, 0), "mine"))

	// Any member of a set may continue what one of them claimed.
	member := func(id string) run.Executor {
		e := fixture.Executor(id)
		e.Set = "set"
		return e
	}
	require.NoError(t, fixture.Register(t, s, member("m1")))
	require.NoError(t, fixture.Register(t, s, member("m2")))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	key.Task = 1
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "m1", Set: "set", JournalID: "j", SpecVersion: run.NewestSpecVersion})
	require.NoError(t, err)
	_, err = s.ArchiveContext(t.Context(), records.ArchiveClaim{Key: key, Executor: "m2"})
	require.NoError(t, err)
	_, err = s.ArchiveContext(t.Context(), fixture.Step(key, 0))
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testClaimSecrets(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.Pipeline())
	got, err := s.ClaimSecrets(t.Context(), fixture.Step(key, 0))
	require.NoError(t, err)
	require.Empty(t, got.Secrets)
	spec := fixture.Pipeline()
	spec.Secrets = map[string]run.Secret{"A": run.Secret(rand.Text()), "B": run.Secret(rand.Text())}
	spec.SecretsFrom = map[string]run.SecretRef{"C": {Provider: "p", Name: "n"}}
	_, key = fixture.Running(t, s, spec)
	got, err = s.ClaimSecrets(t.Context(), fixture.Step(key, 0))
	require.NoError(t, err)
	require.Equal(t, spec.Secrets, got.Secrets)
	require.Equal(t, spec.SecretsFrom, got.SecretsFrom)
	require.Equal(t, spec.Group, got.Group)
}

func testArchiveGarbage(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.Pipeline())
	require.NoError(t, s.PutObject(t.Context(), "slow", fixture.Lease))
	require.NoError(t, s.PutObject(t.Context(), "lost", fixture.Lease))
	require.Empty(t, collectObjects(t, s))
	d.Clock.Advance(fixture.Lease / 2)
	require.NoError(t, s.PutObject(t.Context(), "slow", fixture.Lease), "the lease is extended")
	d.Clock.Advance(fixture.Lease * 3 / 4)
	taken, err := s.TakeObjects(t.Context(), 100, fixture.Lease)
	require.NoError(t, err)
	require.Equal(t, []string{"lost"}, taken)
	fixture.RequireCode(t, run.CodeGone, s.PutObject(t.Context(), "lost", fixture.Lease))
	_, err = s.CommitArchive(t.Context(), fixture.Step(key, 0), fixture.Workspace("lost", 1))
	fixture.RequireCode(t, run.CodeGone, err)
	saved, err := s.SavedArchive(t.Context(), fixture.Step(key, 0), "", "")
	require.NoError(t, err)
	require.Nil(t, saved, "an uncommitted archive is not visible")
	save(t, s, fixture.Step(key, 0), fixture.Workspace("slow", 1))
	require.NoError(t, s.CompleteObjects(t.Context(), []string{"slow"}), "a committed object is not removed")
	require.NoError(t, s.CheckObjectAccess(t.Context(), fixture.Step(key, 0), "slow"))
	require.Empty(t, collectObjects(t, s), "the object is leased")
	d.Clock.Advance(2 * fixture.Lease)
	require.Equal(t, []string{"lost"}, collectObjects(t, s), "the lease has ended")
	require.Empty(t, collectObjects(t, s))
}

func testWorkspaces(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Pipeline())
	fixture.Begin(t, s, r.ID)
	keys := claimTasks(t, s, r.ID, 0, 1, 2, 3, 4)
	for _, key := range keys {
		save(t, s, fixture.Step(key, 0), fixture.Workspace("o"+fixture.Itoa(int64(key.Task)), 1))
	}
	save(t, s, fixture.Step(keys[0], 1), fixture.Workspace("second", 1))
	names := func(n int) (out []string) {
		found, err := s.Workspaces(t.Context(), fixture.Step(keys[n], 0))
		require.NoError(t, err)
		for _, a := range found {
			out = append(out, a.Task+" "+a.Object)
		}
		return out
	}
	require.Empty(t, names(0))
	require.Equal(t, []string{"a o0", "a second"}, names(3))
	require.Equal(t, []string{"a o0", "a second", "b o1", "c o3"}, names(4))
}

func testCaches(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.Pipeline())
	c := fixture.Step(key, 1)
	find := func(scopes, keys []string) string {
		t.Helper()
		a, err := s.FindCache(t.Context(), c, scopes, keys)
		require.NoError(t, err)
		if a == nil {
			return ""
		}
		return a.Scope + " " + a.Name
	}
	both := []string{"own", "trusted"}
	require.Empty(t, find(both, []string{"go-1", "go-"}))
	for _, a := range []records.Archive{
		cache("own", "go-1", "c1", 1), cache("trusted", "go-2", "c2", 1), cache("trusted", "go-1", "c3", 1), cache("other", "go-3", "c4", 1), cache("own", "GO-1", "c5", 1),
	} {
		d.Clock.Advance(time.Second)
		save(t, s, c, a)
	}
	require.Equal(t, "own go-1", find(both, []string{"go-1"}))
	require.Equal(t, "trusted go-2", find(both, []string{"go-2"}))
	require.Equal(t, "own go-1", find(both, []string{"go-"}), "its own scope first")
	require.Equal(t, "trusted go-1", find([]string{"trusted"}, []string{"go-"}), "the newest")
	require.Equal(t, "trusted go-2", find([]string{"trusted"}, []string{"go-9", "go-2", "go-"}))
	require.Empty(t, find(both, []string{"go-3", "g_-", "%"}), "caches of other scopes are not found")
	require.Equal(t, "own GO-1", find(both, []string{"GO"}))
	saved, err := s.SavedArchive(t.Context(), c, "own", "go-1")
	require.NoError(t, err)
	require.Equal(t, "c1", saved.Object)
	_, err = s.FindCache(t.Context(), records.ArchiveClaim{Key: key, Executor: "y"}, both, []string{"go-1"})
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testCacheOnce(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	_, key := fixture.Running(t, stores[0], fixture.Pipeline())
	objects := make([]string, 8)
	var group errgroup.Group
	for i := range objects {
		group.Go(func() error {
			s, inPool := stores[i%2], cache("s", "k", "o"+fixture.Itoa(int64(i)), 1)
			if err := s.PutObject(t.Context(), inPool.Object, fixture.Lease); err != nil {
				return err
			}
			got, err := s.CommitArchive(t.Context(), fixture.Step(key, 1), inPool)
			objects[i] = got.Object
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, object := range objects {
		require.Equal(t, objects[0], object)
	}
	require.Len(t, collectObjects(t, stores[0]), len(objects)-1)
}

// The object of a replaced cache can be read for a time, and is garbage after it.
func testCacheReplaced(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.Pipeline())
	c := fixture.Step(key, 1)
	replacing := func(object string, size int64) records.Archive {
		a := cache("s", "k", object, size)
		a.Replace = true
		return a
	}
	require.Equal(t, "o1", save(t, s, c, replacing("o1", 1)).Object)
	require.Equal(t, "o1", save(t, s, c, cache("s", "k", "ignored", 1)).Object)
	require.Equal(t, []string{"ignored"}, collectObjects(t, s))
	save(t, s, c, cache("s", "other", "o9", 1))
	d.Clock.Advance(time.Second)
	require.Equal(t, "o2", save(t, s, c, replacing("o2", 5)).Object)

	found, err := s.FindCache(t.Context(), c, []string{"s"}, []string{"k"})
	require.NoError(t, err)
	require.Equal(t, "o2", found.Object)
	require.EqualValues(t, 5, found.Size)
	stats, err := s.ArchiveStats(t.Context())
	require.NoError(t, err)
	require.Equal(t, run.ArchiveStat{Archives: 2, Bytes: 6}, stats[run.ArchiveCache])

	d.Clock.Advance(records.ReplacedLease - time.Second)
	require.NoError(t, s.CheckObjectAccess(t.Context(), c, "o1"))
	require.Empty(t, collectObjects(t, s))
	d.Clock.Advance(time.Second)
	fixture.RequireCode(t, run.CodeGone, s.CheckObjectAccess(t.Context(), c, "o1"))
	require.Equal(t, []string{"o1"}, collectObjects(t, s))
	require.NoError(t, s.CheckObjectAccess(t.Context(), c, "o2"))
	require.NoError(t, s.CheckObjectAccess(t.Context(), c, "o9"))
}

// Each of several steps that replace a cache at once saves its own, and one of them stays.
func testCachesReplaced(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	var keys []run.Key
	for range 8 { // steps of one run wait for each other
		_, key := fixture.Running(t, stores[0], fixture.Pipeline())
		keys = append(keys, key)
	}
	var group errgroup.Group
	for i, key := range keys {
		group.Go(func() error {
			s, own := stores[i%2], cache("s", "k", "o"+fixture.Itoa(int64(i)), 1)
			own.Replace = true
			if err := s.PutObject(t.Context(), own.Object, fixture.Lease); err != nil {
				return err
			}
			got, err := s.CommitArchive(t.Context(), fixture.Step(key, 1), own)
			if err == nil && got.Object != own.Object {
				return run.Errorf(run.CodeInternal, "saved %s, not %s", got.Object, own.Object)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	saved, err := stores[0].SavedArchive(t.Context(), fixture.Step(keys[0], 1), "s", "k")
	require.NoError(t, err)
	d.Clock.Advance(records.ReplacedLease + time.Second)
	collected := collectObjects(t, stores[0])
	require.Len(t, collected, len(keys)-1)
	require.NotContains(t, collected, saved.Object)
}

func testArtifactsKept(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Pipeline())
	fixture.Begin(t, s, r.ID)
	keys := claimTasks(t, s, r.ID, 0, 1)
	save(t, s, fixture.Step(keys[0], 0), fixture.Workspace("w", 1))
	save(t, s, fixture.Step(keys[0], 2), records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "o", Size: 7})
	save(t, s, fixture.Step(keys[1], 2), records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "not kept"})
	finishPipeline(t, s, r.ID)
	next := restarted(t, s, r.ID)
	artifacts, err := s.Artifacts(t.Context(), next.ID)
	require.NoError(t, err)
	require.Len(t, artifacts, 1)
	require.Equal(t, "o", artifacts[0].Object)
	require.Equal(t, "a", artifacts[0].Task)
	fixture.Begin(t, s, next.ID)
	later := claimTasks(t, s, next.ID, 3)
	found, err := s.Workspaces(t.Context(), fixture.Step(later[0], 0))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, s.CheckObjectAccess(t.Context(), fixture.Step(later[0], 0), "w"))

	require.NoError(t, s.DeleteRun(t.Context(), r.ID))
	require.Equal(t, []string{"not kept"}, collectObjects(t, s), "the other run refers to them")
	finishPipeline(t, s, next.ID)
	require.NoError(t, s.DeleteRun(t.Context(), next.ID))
	require.ElementsMatch(t, []string{"o", "w"}, collectObjects(t, s))
}

func expireArchives(t *testing.T, s records.Store, kind run.ArchiveKind, keep run.ArchiveRetention, n int) records.Expired {
	t.Helper()
	out, err := s.ExpireArchives(t.Context(), kind, keep, n)
	require.NoError(t, err)
	return out
}

// finishPipeline ends all tasks of a run, of which the first succeeded.
func finishPipeline(t *testing.T, s records.Store, id run.ID) {
	t.Helper()
	changes := []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}
	for n := 1; n < 5; n++ {
		changes = append(changes, fixture.Ended(n, 1, 1, run.StatusFailed))
	}
	fixture.Apply(t, s, id, records.Changes{Tasks: changes, Result: run.ResultFailed, Finish: true})
}

func testArchivesExpire(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Pipeline())
	fixture.Begin(t, s, r.ID)
	key := claimTasks(t, s, r.ID, 0)[0]
	save(t, s, fixture.Step(key, 0), fixture.Workspace("w", 5))
	save(t, s, fixture.Step(key, 2), records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "o", Size: 7, Expires: d.Clock.Now().Add(24 * time.Hour)})
	other, otherKey := fixture.Running(t, s, fixture.Pipeline())
	save(t, s, fixture.Step(otherKey, 0), fixture.Workspace("open", 1))
	save(t, s, fixture.Step(otherKey, 2), records.Archive{Kind: run.ArchiveArtifact, Name: "report", Object: "for ever", Size: 7})
	finishPipeline(t, s, r.ID)

	keep := run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}
	require.Zero(t, expireArchives(t, s, run.ArchiveWorkspace, keep, 10))
	d.Clock.Advance(2 * time.Hour)
	require.Zero(t, expireArchives(t, s, run.ArchiveWorkspace, run.ArchiveRetention{}, 10), "kept as long as the run")
	require.Equal(t, records.Expired{Archives: 1, Bytes: 5, More: true}, expireArchives(t, s, run.ArchiveWorkspace, keep, 1))
	require.Zero(t, expireArchives(t, s, run.ArchiveWorkspace, keep, 10))
	require.Zero(t, expireArchives(t, s, run.ArchiveArtifact, keep, 10))
	require.Equal(t, []string{"w"}, collectObjects(t, s))
	d.Clock.Advance(48 * time.Hour)
	require.Equal(t, records.Expired{Archives: 1, Bytes: 7}, expireArchives(t, s, run.ArchiveArtifact, keep, 10))
	require.Equal(t, []string{"o"}, collectObjects(t, s))

	artifacts, err := s.Artifacts(t.Context(), r.ID)
	require.NoError(t, err)
	require.Len(t, artifacts, 1)
	require.Empty(t, artifacts[0].Object, "the row of a removed artifact stays")
	next := restarted(t, s, r.ID)
	fixture.Begin(t, s, next.ID)
	found, err := s.Workspaces(t.Context(), fixture.Step(claimTasks(t, s, next.ID, 3)[0], 0))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Empty(t, found[0].Object)
	require.NoError(t, s.CheckObjectAccess(t.Context(), fixture.Step(otherKey, 0), "open"), "the run %s is open", other)
	stats, err := s.ArchiveStats(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[run.ArchiveKind]run.ArchiveStat{
		run.ArchiveWorkspace: {Archives: 1, Bytes: 1}, run.ArchiveArtifact: {Archives: 1, Bytes: 7}, run.ArchiveCache: {},
	}, stats)
}

func testCachesExpire(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, fixture.Pipeline())
	c := fixture.Step(key, 1)
	for _, name := range []string{"a", "b", "c", "d"} {
		save(t, s, c, cache("s", name, "o-"+name, 10))
		d.Clock.Advance(time.Hour)
	}
	_, err := s.FindCache(t.Context(), c, []string{"s"}, []string{"a"})
	require.NoError(t, err)
	expire := func(keep run.ArchiveRetention, n int) records.Expired {
		t.Helper()
		return expireArchives(t, s, run.ArchiveCache, keep, n)
	}
	require.Zero(t, expire(run.ArchiveRetention{}, 10))
	require.Zero(t, expire(run.ArchiveRetention{CacheBytes: 40, CacheUnused: run.Duration(4 * time.Hour)}, 10))
	require.Equal(t, records.Expired{Archives: 1, Bytes: 10}, expire(run.ArchiveRetention{CacheBytes: 35}, 10))
	require.Equal(t, []string{"o-b"}, collectObjects(t, s), "the least recently used cache")
	d.Clock.Advance(90 * time.Minute)
	unused := run.ArchiveRetention{CacheUnused: run.Duration(2 * time.Hour)}
	require.Equal(t, records.Expired{Archives: 1, Bytes: 10, More: true}, expire(unused, 1))
	require.Equal(t, records.Expired{Archives: 1, Bytes: 10}, expire(unused, 10))
	require.ElementsMatch(t, []string{"o-c", "o-d"}, collectObjects(t, s))
	found, err := s.FindCache(t.Context(), c, []string{"s"}, []string{"a"})
	require.NoError(t, err)
	require.NotNil(t, found)
}

// testArchivesRace removes archives while runs are restarted: each object
// becomes garbage when its last reference is dropped, and not before.
func testArchivesRace(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	s := stores[0]
	for i := range 5 {
		r := fixture.Create(t, s, fixture.Pipeline())
		fixture.Begin(t, s, r.ID)
		key := claimTasks(t, s, r.ID, 0)[0]
		object := "w" + fixture.Itoa(int64(i))
		save(t, s, fixture.Step(key, 0), fixture.Workspace(object, 1))
		finishPipeline(t, s, r.ID)
		d.Clock.Advance(2 * time.Hour)
		var next run.Run
		var group errgroup.Group
		group.Go(func() error {
			_, err := stores[1].ExpireArchives(t.Context(), run.ArchiveWorkspace, run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}, 10)
			return err
		})
		group.Go(func() error {
			next = restarted(t, s, r.ID)
			return nil
		})
		require.NoError(t, group.Wait())
		fixture.Begin(t, s, next.ID)
		later := claimTasks(t, s, next.ID, 3)[0]
		found, err := s.Workspaces(t.Context(), fixture.Step(later, 0))
		require.NoError(t, err)
		require.Len(t, found, 1)
		if found[0].Object == "" {
			require.Equal(t, []string{object}, collectObjects(t, s))
			continue
		}
		require.Empty(t, collectObjects(t, s))
		require.NoError(t, s.CheckObjectAccess(t.Context(), fixture.Step(later, 0), object))
		finishPipeline(t, s, next.ID)
		require.NoError(t, s.DeleteRun(t.Context(), next.ID))
		require.Equal(t, []string{object}, collectObjects(t, s))
	}
}

func testServiceKey(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	values := make([]string, 6)
	var group errgroup.Group
	for i := range values {
		group.Go(func() (err error) {
			values[i], err = stores[i%2].ServiceKey(t.Context(), "archives", "mine "+fixture.Itoa(int64(i)))
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, value := range values {
		require.Equal(t, values[0], value)
	}
	other, err := stores[0].ServiceKey(t.Context(), "other", "x")
	require.NoError(t, err)
	require.Equal(t, "x", other)
}
