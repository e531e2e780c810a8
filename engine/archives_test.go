package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/engine/maintenance"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// archiveBench is an engine that stores archives in a directory.
type archiveBench struct {
	*engine.Engine
	store records.Store
	deps  engine.Deps
	// collector removes unreferenced objects of the store.
	collector *maintenance.ArchiveGarbageCollector
	dir       string
	now       time.Time
}

func newArchiveBench(t *testing.T, opts archives.Options) *archiveBench {
	t.Helper()
	d := &archiveBench{dir: t.TempDir(), now: time.Now()}
	var err error
	d.store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{Now: func() time.Time { return d.now }})
	require.NoError(t, err)
	bucket, err := blobs.Open(t.Context(), "file://"+d.dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(d.store.Close(), bucket.Close())) })
	d.deps = engine.Deps{Store: d.store, Logs: bucket, Archives: bucket, Archiving: opts, Logger: slog.New(slog.DiscardHandler)}
	d.Engine = engine.New(d.deps)
	d.collector = maintenance.NewArchiveGarbageCollector(d.store, bucket, d.deps.Logger, maintenance.NewMetrics())
	return d
}

// objects counts the objects in the bucket.
func (d *archiveBench) objects(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "archives", "*", "*"))
	require.NoError(t, err)
	return len(files)
}

const (
	stepWorkspace, stepCache, stepArtifact, stepFind, stepRestore, stepRun = 0, 1, 2, 3, 4, 5
	stepSaveKeyed, stepFindKeyed, stepReplace                              = 6, 7, 8
)

// begin creates a run of two tasks, each with every kind of archive step, of
// which the second depends on the first, and claims both for one executor.
func (d *archiveBench) begin(t *testing.T, group string, untrusted bool) (first, second run.Key) {
	t.Helper()
	step := func(s run.ArchiveStep) run.Step { return run.Step{ArchiveStep: s} }
	steps := []run.Step{
		step(run.ArchiveStep{SaveWorkspace: &run.SaveWorkspace{}}), step(run.ArchiveStep{SaveCache: &run.SaveCache{Key: `{{ env "K" }}`}}),
		step(run.ArchiveStep{SaveArtifacts: &run.SaveArtifacts{Name: "report", JUnit: true, Retention: run.Duration(time.Hour)}}),
		step(run.ArchiveStep{RestoreCache: &run.RestoreCache{Keys: []string{`{{ env "K" }}`}}}), step(run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{}}),
		{Run: "true"},
		step(run.ArchiveStep{SaveCache: &run.SaveCache{Key: `go-{{ sha256 "go.sum" }}`}}),
		step(run.ArchiveStep{RestoreCache: &run.RestoreCache{Keys: []string{`go-{{ sha256 "go.sum" }}`, "go-"}}}),
		step(run.ArchiveStep{SaveCache: &run.SaveCache{Key: `{{ env "K" }}`, Mode: run.CacheReplace}}),
	}
	of := &run.Spec{Name: "n", Group: group, Untrusted: untrusted, Tasks: map[string]*run.TaskSpec{
		"a": {Steps: steps}, "b": {Steps: steps, Depends: []run.Depend{{Task: "a"}}},
	}}
	x, faults := spec.Expand(of, func(string, *run.TaskSpec) (string, error) { return "shell", nil })
	require.Empty(t, faults)
	r, err := d.store.CreateRun(t.Context(), records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(t, err)
	_, err = d.store.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	for task, key := range []*run.Key{&first, &second} {
		*key = run.Key{Run: r.ID, Task: task, Attempt: 1, Dispatch: 1}
		_, _, err = d.store.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{{Task: task, Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
		require.NoError(t, err)
		_, err = d.Claim(t.Context(), run.ClaimRequest{Key: *key, Executor: executorID, JournalID: "j1", SpecVersion: run.NewestSpecVersion})
		require.NoError(t, err)
	}
	return first, second
}

func (d *archiveBench) beginSave(key run.Key, step int, cacheKey string) (run.ArchiveUpload, error) {
	return d.BeginArchive(context.Background(), run.ArchiveSave{Key: key, Executor: executorID, Step: step, CacheKey: cacheKey})
}

func (d *archiveBench) save(t *testing.T, key run.Key, step int, cacheKey string, content []byte) run.ArchiveInfo {
	t.Helper()
	up, err := d.beginSave(key, step, cacheKey)
	require.NoError(t, err)
	require.Nil(t, up.Saved)
	info, err := d.SaveArchive(t.Context(), up, bytes.NewReader(content))
	require.NoError(t, err)
	return info
}

func (d *archiveBench) find(t *testing.T, key run.Key, step int, keys ...string) []run.ArchiveRef {
	t.Helper()
	refs, err := d.FindArchives(t.Context(), run.ArchiveQuery{Key: key, Executor: executorID, Step: step, Keys: keys})
	require.NoError(t, err)
	return refs
}

func (d *archiveBench) readRef(t *testing.T, ref run.ArchiveRef, offset int64) string {
	t.Helper()
	r, err := d.OpenArchive(t.Context(), run.ArchiveRead{Ref: ref, Executor: executorID, Offset: offset})
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, errors.Join(err, r.Close()))
	return string(data)
}

// packFiles returns an archive of files.
func packFiles(t *testing.T, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	var out bytes.Buffer
	_, err := archive.Pack(t.Context(), &out, archive.Selection{Root: dir}, archive.Limits{})
	require.NoError(t, err)
	return out.Bytes()
}

func TestArchives_workspace(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{Limits: run.ArchiveLimits{Size: 100, Entries: 7, Bytes: 8}})
	first, second := d.begin(t, "/a/b", false)
	require.Empty(t, d.find(t, second, stepRestore))
	info := d.save(t, first, stepWorkspace, "", []byte("content"))
	require.Equal(t, run.ArchiveWorkspace, info.Kind)
	require.Equal(t, "a", info.Name)
	require.Equal(t, int64(7), info.Size)
	require.Equal(t, "sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73", info.Digest)
	again, err := d.beginSave(first, stepWorkspace, "")
	require.NoError(t, err)
	require.Equal(t, &info, again.Saved, "nothing is sent twice")

	require.Empty(t, d.find(t, first, stepRestore), "a step does not restore what it saved itself")
	refs := d.find(t, second, stepRestore)
	require.Len(t, refs, 1)
	require.Equal(t, info, refs[0].ArchiveInfo)
	require.Equal(t, run.ArchiveLimits{Size: 100, Entries: 7, Bytes: 8}, refs[0].Limits)
	require.Equal(t, "content", d.readRef(t, refs[0], 0))
	require.Equal(t, "tent", d.readRef(t, refs[0], 3))
	require.Empty(t, d.readRef(t, refs[0], 7))
	other := engine.New(d.deps)
	r, err := other.OpenArchive(t.Context(), run.ArchiveRead{Ref: refs[0], Executor: executorID})
	require.NoError(t, err, "another gateway believes it")
	require.NoError(t, r.Close())
}

func TestArchives_refuses(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{Limits: run.ArchiveLimits{Size: 10}, CacheSize: 5})
	first, second := d.begin(t, "/a/b", false)
	d.save(t, first, stepWorkspace, "", []byte("content"))
	ref := d.find(t, second, stepRestore)[0]
	open := func(change func(r *run.ArchiveRead)) error {
		r := run.ArchiveRead{Ref: ref, Executor: executorID}
		change(&r)
		_, err := d.OpenArchive(t.Context(), r)
		return err
	}
	up, err := d.beginSave(first, stepArtifact, "")
	require.NoError(t, err)
	cacheUp, err := d.beginSave(first, stepCache, "k")
	require.NoError(t, err)
	save := func(u run.ArchiveUpload, content io.Reader) error {
		_, err := d.SaveArchive(t.Context(), u, content)
		return err
	}
	broken := errors.New("broken")
	begin := func(key run.Key, step int, cacheKey string) error {
		_, err := d.beginSave(key, step, cacheKey)
		return err
	}
	find := func(q run.ArchiveQuery) error {
		q.Key, q.Executor = second, executorID
		_, err := d.FindArchives(t.Context(), q)
		return err
	}
	for name, tt := range map[string]struct {
		err  error
		want run.Code
	}{
		"a forged reference":              {open(func(r *run.ArchiveRead) { r.Ref.Ref = "x" + r.Ref.Ref }), run.CodeInvalid},
		"no reference":                    {open(func(r *run.ArchiveRead) { r.Ref.Ref = "" }), run.CodeInvalid},
		"a reference to save":             {open(func(r *run.ArchiveRead) { r.Ref.Ref = up.Ref }), run.CodeInvalid},
		"another executor":                {open(func(r *run.ArchiveRead) { r.Executor = "other" }), run.CodeNotFound},
		"behind the end":                  {open(func(r *run.ArchiveRead) { r.Offset = 8 }), run.CodeInvalid},
		"before the start":                {open(func(r *run.ArchiveRead) { r.Offset = -1 }), run.CodeInvalid},
		"to save by a reference to read":  {save(run.ArchiveUpload{Ref: ref.Ref, Executor: executorID}, strings.NewReader("x")), run.CodeInvalid},
		"to save as another":              {save(run.ArchiveUpload{Ref: up.Ref, Executor: "other"}, strings.NewReader("x")), run.CodeNotFound},
		"too much":                        {save(up, strings.NewReader("12345678901")), run.CodeTooLarge},
		"too much for a cache":            {save(cacheUp, strings.NewReader("123456")), run.CodeTooLarge},
		"nothing":                         {save(cacheUp, strings.NewReader("")), run.CodeInvalid},
		"reports in no archive":           {save(up, strings.NewReader("no tar")), run.CodeInvalid},
		"broken content":                  {save(cacheUp, io.MultiReader(strings.NewReader("12"), iotest.ErrReader(broken))), run.CodeInternal},
		"to save by a step that restores": {begin(first, stepRestore, ""), run.CodeInvalid},
		"to save by a step that runs":     {begin(first, stepRun, ""), run.CodeInvalid},
		"a step that is not there":        {begin(first, 9, ""), run.CodeNotFound},
		"a cache without a key":           {begin(first, stepCache, ""), run.CodeInvalid},
		"to restore by a step that saves": {find(run.ArchiveQuery{Step: stepWorkspace}), run.CodeInvalid},
		"other keys than it has":          {find(run.ArchiveQuery{Step: stepFind}), run.CodeInvalid},
		"a key of no text":                {find(run.ArchiveQuery{Step: stepFind, Keys: []string{"\x00"}}), run.CodeInvalid},
	} {
		require.Equal(t, tt.want, run.CodeOf(tt.err), "%s: %v", name, tt.err)
	}
	require.NoError(t, d.collector.Collect(t.Context()))
	require.Equal(t, 1, d.objects(t), "nothing is left of what was refused")
	_, _, err = d.store.Apply(t.Context(), first.Run, records.Changes{Tasks: []run.TaskChange{{Task: 1, Attempt: 1, Dispatch: 1, Status: run.StatusFailed}}})
	require.NoError(t, err)
	require.Equal(t, run.CodeConflict, run.CodeOf(open(func(*run.ArchiveRead) {})), "the claim is closed")
	none := engine.New(engine.Deps{Store: d.store, Logs: d.deps.Logs, Logger: d.deps.Logger})
	_, err = none.BeginArchive(t.Context(), run.ArchiveSave{})
	require.Equal(t, run.CodeNotSupported, run.CodeOf(err))
}

func TestArchives_cache_scopes(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	trusted, _ := d.begin(t, "/org/app/main", false)
	proposed, _ := d.begin(t, "/org/app/pr/1", true)
	again, _ := d.begin(t, "/org/app/pr/1", true)
	otherProposed, _ := d.begin(t, "/org/app/pr/2", true)
	stranger, _ := d.begin(t, "/org/other/main", false)
	read := func(key run.Key) string {
		refs := d.find(t, key, stepFind, "k")
		if len(refs) == 0 {
			return ""
		}
		return d.readRef(t, refs[0], 0)
	}
	d.save(t, proposed, stepCache, "k1", []byte("poison"))
	require.Empty(t, read(trusted))
	require.Empty(t, read(otherProposed))
	require.Equal(t, "poison", read(again))
	d.save(t, trusted, stepCache, "k1", []byte("good"))
	require.Equal(t, "good", read(trusted))
	require.Equal(t, "good", read(otherProposed))
	require.Empty(t, read(stranger))
	saved, err := d.beginSave(trusted, stepCache, "k1")
	require.NoError(t, err)
	require.NotNil(t, saved.Saved, "it is written once")
}

// A step that has found a cache reads all of it, also if it is replaced meanwhile and the
// transfer is resumed.
func TestArchives_cache_replaced(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	reader, _ := d.begin(t, "/org/app/main", false)
	writer, _ := d.begin(t, "/org/app/main", false)
	d.save(t, reader, stepReplace, "k", []byte("first"))
	before := d.find(t, reader, stepFind, "k")
	require.Len(t, before, 1)
	d.save(t, writer, stepReplace, "k", []byte("second"))
	require.Equal(t, "second", d.readRef(t, d.find(t, reader, stepFind, "k")[0], 0))
	d.save(t, writer, stepReplace, "k", []byte("third"))
	require.NoError(t, d.collector.Collect(t.Context()))
	require.Equal(t, "first", d.readRef(t, before[0], 0))
	require.Equal(t, "st", d.readRef(t, before[0], 3))
	saved, err := d.beginSave(writer, stepCache, "k")
	require.NoError(t, err)
	require.NotNil(t, saved.Saved, "a step with the mode once keeps it")

	d.now = d.now.Add(records.ReplacedLease + time.Second)
	require.NoError(t, d.collector.Collect(t.Context()))
	require.Equal(t, 1, d.objects(t))
	_, err = d.OpenArchive(t.Context(), run.ArchiveRead{Ref: before[0], Executor: executorID})
	require.Equal(t, run.CodeGone, run.CodeOf(err))
	require.Equal(t, "third", d.readRef(t, d.find(t, reader, stepFind, "k")[0], 0))
}

const report = `<testsuites><testsuite name="s"><testcase classname="c" name="good"/><testcase classname="c" name="bad"><failure>no</failure></testcase>` +
	`<testcase name="odd"><error/></testcase><testcase name="later"><skipped/></testcase></testsuite></testsuites>`

func TestArtifacts(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	key, _ := d.begin(t, "/a/b", false)
	content := packFiles(t, map[string]string{"out/report.xml": report, "out/broken.XML": "<testsuite", "index.html": "<html>"})
	d.save(t, key, stepArtifact, "", content)
	list, err := d.Artifacts(t.Context(), key.Run)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "a", list[0].Task)
	require.Equal(t, "report", list[0].Name)
	tests := list[0].Tests
	require.Equal(t, []int{4, 2, 1}, []int{tests.Tests, tests.Failed, tests.Skipped})
	require.Equal(t, []string{"c.bad", "odd"}, tests.FailedNames)
	require.Len(t, tests.Faults, 1)
	require.Contains(t, tests.Faults[0], "out/broken.XML: ")
	got, err := d.Get(t.Context(), key.Run)
	require.NoError(t, err)
	require.Equal(t, tests, got.Tests)

	ref := run.ArtifactRef{Run: key.Run, Task: "a", Name: "report"}
	entries, more, err := d.ArtifactEntries(t.Context(), ref, 10)
	require.NoError(t, err)
	require.False(t, more)
	var paths []string
	for _, e := range entries {
		paths = append(paths, e.Path+" "+string(e.Type))
	}
	require.Equal(t, []string{"index.html file", "out directory", "out/broken.XML file", "out/report.xml file"}, paths)
	_, more, err = d.ArtifactEntries(t.Context(), ref, 3)
	require.NoError(t, err)
	require.True(t, more)
	entry, file, err := d.OpenArtifactFile(t.Context(), ref, "out/report.xml")
	require.NoError(t, err)
	data, err := io.ReadAll(file)
	require.NoError(t, errors.Join(err, file.Close()))
	require.Equal(t, report, string(data))
	require.Equal(t, int64(len(report)), entry.Size)
	_, whole, err := d.OpenArtifact(t.Context(), ref, 4)
	require.NoError(t, err)
	data, err = io.ReadAll(whole)
	require.NoError(t, errors.Join(err, whole.Close()))
	require.Equal(t, content[4:], data)

	for name, want := range map[string]run.Code{"out": run.CodeInvalid, "nothing": run.CodeNotFound} {
		_, _, err = d.OpenArtifactFile(t.Context(), ref, name)
		require.Equal(t, want, run.CodeOf(err), name)
	}
	_, _, err = d.OpenArtifact(t.Context(), run.ArtifactRef{Run: key.Run, Task: "b", Name: "report"}, 0)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	_, _, err = d.OpenArtifact(t.Context(), ref, int64(len(content))+1)
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))

	d.now = d.now.Add(2 * time.Hour)
	d.expire(t, run.ArchiveRetention{})
	require.Zero(t, d.objects(t))
	list, err = d.Artifacts(t.Context(), key.Run)
	require.NoError(t, err)
	require.True(t, list[0].Removed)
	_, _, err = d.OpenArtifact(t.Context(), ref, 0)
	require.Equal(t, run.CodeGone, run.CodeOf(err))
}

// expire removes archives under the retention settings, with their bytes.
func (d *archiveBench) expire(t *testing.T, keep run.ArchiveRetention) {
	t.Helper()
	for _, kind := range []run.ArchiveKind{run.ArchiveWorkspace, run.ArchiveArtifact, run.ArchiveCache} {
		_, err := d.store.ExpireArchives(t.Context(), kind, keep, 100)
		require.NoError(t, err)
	}
	require.NoError(t, d.collector.Collect(t.Context()))
}

// TestArchiveGarbageCollector covers every kind of garbage: an upload whose process was
// killed, archives that are too old, and too many caches.
func TestArchiveGarbageCollector(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	keep := run.ArchiveRetention{Workspaces: run.Duration(time.Hour), CacheBytes: 10}
	key, _ := d.begin(t, "/a/b", false)
	d.save(t, key, stepWorkspace, "", []byte("workspace"))
	d.save(t, key, stepCache, "old", []byte("1234567"))
	d.now = d.now.Add(time.Minute)
	d.save(t, key, stepCache, "new", []byte("1234567"))
	bucket := d.deps.Archives
	lost := bucket.NewObject()
	require.NoError(t, d.store.PutObject(t.Context(), lost, time.Minute))
	require.NoError(t, bucket.PutArchive(t.Context(), lost, strings.NewReader("never committed")))
	require.Equal(t, 4, d.objects(t))

	d.expire(t, keep)
	require.Equal(t, 3, d.objects(t), "the cache that was used longest ago")
	d.now = d.now.Add(2 * time.Minute)
	collector := d.collector
	require.NoError(t, collector.Collect(t.Context()))
	require.Equal(t, 2, d.objects(t), "the upload")
	_, _, err := d.store.Apply(t.Context(), key.Run, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusSuccess}, {Task: 1, Attempt: 1, Dispatch: 1, Status: run.StatusSuccess},
	}, Result: run.ResultSuccess, Finish: true})
	require.NoError(t, err)
	d.expire(t, keep)
	require.Equal(t, 2, d.objects(t))
	d.now = d.now.Add(2 * time.Hour)
	d.expire(t, keep)
	require.Equal(t, 1, d.objects(t), "the workspace")
	require.NoError(t, collector.Collect(t.Context()), "there is no more to do")
}

// An executor saves and restores caches by the keys of its step only, not by
// any key of the run's group.
func TestArchives_keys_of_the_step(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	key, _ := d.begin(t, "/a/b", false)
	good := "go-" + strings.Repeat("0a", 32)
	d.save(t, key, stepSaveKeyed, good, packFiles(t, map[string]string{"f": "x"}))
	for _, bad := range []string{"other", "go-", good + "0", "x" + good, strings.ToUpper(good)} {
		_, err := d.beginSave(key, stepSaveKeyed, bad)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), bad)
	}
	find := func(keys ...string) error {
		_, err := d.FindArchives(t.Context(), run.ArchiveQuery{Key: key, Executor: executorID, Step: stepFindKeyed, Keys: keys})
		return err
	}
	require.NoError(t, find(good, "go-"))
	require.Equal(t, run.CodeInvalid, run.CodeOf(find(good, "g")))
	require.Equal(t, run.CodeInvalid, run.CodeOf(find("go-", good)))
}
