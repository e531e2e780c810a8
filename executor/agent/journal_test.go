package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/executor/agent/statedir"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

func journalKey(task int) run.Key {
	return run.Key{Run: "01jz0000000000000000000000", Task: task, Attempt: 1, Dispatch: 1}
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func filesIn(dir string) *journal { return &journal{Journal: statedir.NewJournal(dir, "journal")} }

func TestJournal_round_trip(t *testing.T) {
	t.Parallel()
	j := filesIn(t.TempDir())
	key := journalKey(1)
	f, err := j.create(key, record{State: stateClaimed, Token: []byte("one")})
	require.NoError(t, err)
	lines := []record{
		{State: stateStarting, Time: noon},
		{Setup: []run.Frame{{N: 1}}},
		{Setup: []run.Frame{{N: 2}}},
		{State: stateLaunched, FirstFrame: 3, Grace: time.Second, StepCount: 2},
		{Flight: &frames.Bounds{First: 1, Last: 4}, Steps: []run.StepResult{{Status: run.StatusRunning}}},
		{Flight: &frames.Bounds{First: 5, Last: 6}},
		{Token: []byte("two")},
	}
	want := entry{}
	want.apply(record{Version: recordVersion, State: stateClaimed, Token: []byte("one")})
	for _, r := range lines {
		require.NoError(t, f.append(r, executor.Synced))
		want.apply(r)
	}
	require.NoError(t, f.close())

	all, err := j.load()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, key, all[0].key)
	require.Empty(t, cmp.Diff(want, all[0].entry, cmp.AllowUnexported(entry{})))
	require.Equal(t, noon, all[0].entry.Granted)
	require.True(t, all[0].entry.begun())
	require.Equal(t, int64(5), all[0].entry.firstUnsent())

	_, err = j.create(key, record{State: stateClaimed})
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	require.NoError(t, all[0].file.remove())
	all, err = j.load()
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestJournal_compacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := filesIn(dir)
	f, err := j.create(journalKey(1), record{State: stateClaimed, Token: []byte("token")})
	require.NoError(t, err)
	want := entry{}
	want.apply(record{Version: recordVersion, State: stateClaimed, Token: []byte("token")})
	for n := range int64(20_000) {
		r := record{Flight: &frames.Bounds{First: n, Last: n}}
		require.NoError(t, f.append(r, executor.Kept))
		want.apply(r)
		require.NoError(t, f.compact(want.record))
		info, err := os.Stat(filepath.Join(dir, journalKey(1).String()+".jsonl"))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(statedir.CompactFrom))
	}
	require.NoError(t, f.append(record{Reason: "after"}, executor.Synced))
	want.apply(record{Reason: "after"})
	require.NoError(t, f.close())
	all, err := j.load()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Empty(t, cmp.Diff(want, all[0].entry, cmp.AllowUnexported(entry{})))
	require.NoError(t, all[0].file.close())
}

func TestJournal_cuts_a_torn_line(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := filesIn(dir)
	f, err := j.create(journalKey(1), record{State: stateClaimed})
	require.NoError(t, err)
	require.NoError(t, f.close())
	path := filepath.Join(dir, journalKey(1).String()+".jsonl")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(content, `{"state":"laun`...), 0o600))

	all, err := j.load()
	require.NoError(t, err)
	require.Equal(t, stateClaimed, all[0].entry.State)
	require.False(t, all[0].entry.Damaged)
	require.NoError(t, all[0].file.append(record{State: stateStarting}, executor.Synced))
	require.NoError(t, all[0].file.close())
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(content), "\n"))
	require.NotContains(t, string(content), "laun")
}

func TestJournal_ignores_foreign_files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := filesIn(dir)
	for _, name := range []string{"id", "notes.txt", "x.jsonl", ".check-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	all, err := j.load()
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoError(t, j.Check())
}

func TestEntry_of_a_damaged_file_may_have_run(t *testing.T) {
	t.Parallel()
	cases := map[string]state{
		"garbage\n":                                   stateLaunched,
		"{\"state\":\"claimed\"}\ngarbage\n":          stateLaunched,
		"garbage\n{\"state\":\"starting\"}\n":         stateLaunched,
		"garbage\n{\"state\":\"ended\"}\n":            stateEnded,
		"garbage\n{\"state\":\"closed\"}\n":           stateClosed,
		"{\"v\":2,\"state\":\"claimed\"}\n":           stateLaunched,
		"{\"v\":1,\"state\":\"claimed\"}\n":           stateClaimed,
		"":                                            stateNew,
		"{\"v\":1,\"state\":\"claimed\"":              stateNew,
		"{\"v\":1,\"state\":\"claimed\"}\n\x00\x00\n": stateLaunched,
	}
	for content, want := range cases {
		e, _ := parseEntry([]byte(content))
		require.Equal(t, want, e.State, "%q", content)
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"state\":\"claimed\"}\n{\"flight\":{\"a\":1,\"b\":2}}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		e, size := parseEntry(content)
		require.LessOrEqual(t, size, int64(len(content)))
		again, sameSize := parseEntry(content[:size])
		require.Equal(t, size, sameSize)
		require.Empty(t, cmp.Diff(e, again, cmp.AllowUnexported(entry{})))
	})
}

// The end of a task is recorded without the output of its services if there is no room for it.
func TestRecord_withoutServices(t *testing.T) {
	t.Parallel()
	output := run.Frame{Kind: run.FrameOutput, Stream: run.ServiceStream("db")}
	r := record{Last: 8, Tail: number([]run.Frame{output, output, systemFrame(0, time.Time{}, "why"), {Kind: run.FrameTaskEnd}}, 5)}
	shorter := r.withoutServices()
	require.Equal(t, int64(6), shorter.Last)
	require.Equal(t, number([]run.Frame{systemFrame(0, time.Time{}, "why"), {Kind: run.FrameTaskEnd}}, 5), shorter.Tail)
	require.Equal(t, record{Last: 3}, record{Last: 3}.withoutServices())
}

// The secrets of a service that writes to both streams at once are masked in each.
func TestFramesOf(t *testing.T) {
	t.Parallel()
	var l executor.ServiceLog
	for _, p := range []executor.LogPiece{
		{Stream: run.StreamStdout, Data: []byte("a sec")},
		{Stream: run.StreamStderr, Data: []byte("an error\n")},
		{Stream: run.StreamStdout, Data: []byte("ret\n")},
	} {
		p.Time = noon
		l.Add(p, 100)
	}
	got := framesOf(l, mask.NewSet([]string{"secret"}), noon, 100, 10)
	require.Len(t, got, 1)
	require.Equal(t, "a an error\n***\n", string(got[0].Data))
}
