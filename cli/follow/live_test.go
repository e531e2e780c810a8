package follow

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
)

var update = flag.Bool("update", false, "update the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// liveOf returns a view of a run with tasks in all statuses.
func liveOf(s Screen) (*live, *model) {
	m := newModel(testRun("prepare", "build[GO=1.26]", "lint", "deploy", "gpu", "after"))
	m.phase, m.started = run.PhaseRunning, noon
	set := func(name string, status run.Status, reason string) *task {
		t := m.byName[name]
		m.counts[t.status]--
		m.counts[status]++
		t.status, t.reason, t.attempt, t.started = status, reason, 1, noon.Add(10*time.Second)
		return t
	}
	set("prepare", run.StatusSuccess, "").ended = noon.Add(12 * time.Second)
	set("lint", run.StatusFailed, "step 2 exited with code 1\x1b[2J and more than there is room for").ended = noon.Add(13 * time.Second)
	building := set("build[GO=1.26]", run.StatusRunning, "")
	building.executor, building.attempt = "host-7", 2
	building.steps = []api.Step{{Status: api.StatusSuccess}, {Name: "vet", Status: api.StatusRunning}}
	set("deploy", run.StatusWaitingApproval, "0 of 2 approved").started = time.Time{}
	set("gpu", run.StatusQueued, "no executor of pool gpu is online").started = time.Time{}
	l := newLive(s)
	for i := range 30 {
		l.line(partialKey{source: source{"build[GO=1.26]", 2}}, fmt.Sprintf("line %d \x1b[31mred\x1b[0m", i))
	}
	return l, m
}

func TestLive_picture(t *testing.T) {
	t.Parallel()
	sizes := []struct{ columns, rows int }{{100, 20}, {60, 14}, {40, 10}, {minColumns, minRows}}
	for _, colour := range []bool{false, true} {
		s := testScreen(&bytes.Buffer{})
		s.Colour, s.Unicode = colour, !colour
		l, m := liveOf(s)
		var all strings.Builder
		for _, size := range sizes {
			lines := l.picture(m, size.columns, size.rows)
			require.LessOrEqual(t, len(lines), size.rows)
			for _, line := range lines {
				require.LessOrEqual(t, width(line), size.columns, line)
				require.NotContains(t, line, "\x1b[2J")
			}
			fmt.Fprintf(&all, "== %d x %d\n%s\n", size.columns, size.rows, strings.Join(lines, "\n"))
		}
		golden(t, fmt.Sprintf("picture-colour-%t", colour), strings.ReplaceAll(all.String(), "\x1b", "ESC"))
	}
}

func TestLive_stages(t *testing.T) {
	t.Parallel()
	m := newModel(testRun("a", "b", "c", "d"))
	for i, stage := range []api.Stage{"prepare", "step", "prepare", ""} {
		m.apply(api.Event{Type: api.EventTypeTask, Task: m.tasks[i].name, Time: noon, Status: api.StatusRunning, Stage: stage, Attempt: 1, Executor: "host-7"})
	}
	text := strings.Join(newLive(testScreen(&bytes.Buffer{})).picture(m, 80, 20), "\n")
	require.Contains(t, text, "4 tasks: 2 preparing, 2 running")
	require.Contains(t, text, "> a  preparing")
	require.Contains(t, text, "> b  running")
	m.merge(api.Run{Phase: api.PhaseQueued, Tasks: map[string]api.Task{"b": {Status: api.StatusRunning, Attempt: 1, Stage: "cleanup"}}})
	text = strings.Join(newLive(testScreen(&bytes.Buffer{})).picture(m, 80, 20), "\n")
	require.Contains(t, text, "> b  cleaning up")
}

func TestLive_many_tasks(t *testing.T) {
	t.Parallel()
	s := testScreen(&bytes.Buffer{})
	s.Unicode = true
	const n = 10_000
	models := map[int]*model{n / 8: manyTasks(n / 8), n: manyTasks(n)}
	var lines []string
	cputime.Linear(t, n/8, func(n int) { lines = newLive(s).picture(models[n], 80, 20) })
	lines = newLive(s).picture(models[n], 80, 20)
	golden(t, "many", strings.Join(lines, "\n")+"\n")
}

// manyTasks returns a run of n tasks, half of which have ended.
func manyTasks(n int) *model {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("work-%05d", i))
	}
	m := newModel(testRun(names...))
	for i, t := range m.tasks {
		status, reason := run.StatusQueued, "all 4 slots of pool shell are in use"
		switch {
		case i < n/2:
			status, reason, t.ended = run.StatusSuccess, "", noon
		case i < n/2+100:
			status, reason, t.ended = run.StatusFailed, "exit code 1", noon.Add(time.Duration(i)*time.Second)
		case i < n/2+104:
			status, reason = run.StatusRunning, ""
		case i > n-1000:
			reason = "no executor of pool gpu is online"
		}
		m.counts[t.status]--
		m.counts[status]++
		t.status, t.reason = status, reason
	}
	return m
}

// Tasks that wait for slots are counted by what they wait for, as queued ones are.
func TestLive_waits_for_slots(t *testing.T) {
	t.Parallel()
	m := manyTasks(400)
	for i, x := range m.tasks {
		if x.status != run.StatusQueued {
			continue
		}
		m.counts[x.status]--
		x.status, x.reason = run.StatusWaitingChangeGroup, fmt.Sprintf("waits for change group g: position %d in queue, 1 of 1 slots held by r0", i)
		m.counts[x.status]++
	}
	l := newLive(testScreen(&bytes.Buffer{}))
	picture := strings.Join(l.picture(m, 120, 24), "\n")
	require.Contains(t, picture, " 96 waiting for change group g; the next one: position 304 in queue, 1 of 1 slots held by r0\n")
	require.NotContains(t, picture, "96 queued")
	require.Contains(t, picture, "   and 290 more")
}

func TestLive_end(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := testScreen(&out)
	l, m := liveOf(s)
	l.output(output{source: source{"lint", 1}, chunk: api.LogChunk{Stream: run.StreamStdout, Data: []byte("checking\nbad name")}})
	l.output(output{source: source{"lint", 1}, ended: true})
	l.availability(errors.New("refused"))
	l.tick(m)
	require.Contains(t, out.String(), "the gateway is unavailable, trying again: refused")
	out.Reset()
	m.phase, m.result, m.ended = run.PhaseFinished, run.ResultFailed, noon.Add(20*time.Second)
	l.end(m, true)
	_, after, ok := strings.Cut(out.String(), showCursor)
	require.True(t, ok, "the cursor must come back")
	require.Equal(t, "the end of the log of lint:\n  checking\n  bad name\n"+
		"failed: lint: step 2 exited with code 1 and more than there is room for\nrun r1 finished: failed in 20s\n", after)
}

// The logs of failures come before those of failures that are allowed, which are
// warnings.
func TestLive_end_with_warnings(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := testRun("a", "b", "c", "d", "e")
	m := newModel(r)
	l := newLive(testScreen(&out))
	for _, t := range m.tasks {
		m.counts[t.status]--
		m.counts[run.StatusFailed]++
		t.status, t.attempt, t.allowed = run.StatusFailed, 1, t.name != "d"
		l.line(partialKey{source: source{t.name, 1}}, "log of "+t.name)
	}
	require.Equal(t, " ! a  failed", strings.TrimRight(l.row(m.byName["a"], 1, 40), " "))
	require.Equal(t, " x d  failed", strings.TrimRight(l.row(m.byName["d"], 1, 40), " "))
	m.phase, m.result, m.started, m.ended = run.PhaseFinished, run.ResultFailed, noon, noon.Add(time.Second)
	l.end(m, true)
	_, after, _ := strings.Cut(out.String(), showCursor)
	require.Equal(t, "the end of the log of d:\n  log of d\nthe end of the log of a:\n  log of a\nthe end of the log of b:\n  log of b\n"+
		"warning: failed as allowed: a\nwarning: failed as allowed: b\nwarning: failed as allowed: c\nwarning: failed as allowed: e\n"+
		"failed: d\nrun r1 finished: failed in 1s\n", after)
}

// The end of a log has the last lines of both streams, in their order, whichever
// printed more.
func TestLive_end_of_both_streams(t *testing.T) {
	t.Parallel()
	l, _ := liveOf(testScreen(&bytes.Buffer{}))
	s := source{"lint", 1}
	show := func(stream run.Stream, text string) {
		l.output(output{source: s, chunk: api.LogChunk{Stream: stream, Data: []byte(text)}})
	}
	show(run.StreamStderr, "warning\nerror: no such")
	show(run.StreamStdout, "begun\n")
	show(run.StreamStderr, " file\n")
	for i := range 100 {
		show(run.StreamStdout, fmt.Sprintf("out %d\n", i))
	}
	show(run.StreamStderr, "exit 1")
	l.output(output{source: s, ended: true})
	var got []string
	for _, line := range l.tails[s] {
		got = append(got, line.text)
	}
	want := []string{"warning", "error: no such file"}
	for i := 88; i < 100; i++ {
		want = append(want, fmt.Sprintf("out %d", i))
	}
	require.Equal(t, append(want, "exit 1"), got)
}

func TestLive_draws_only_changes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := testScreen(&out)
	l, m := liveOf(s)
	l.tick(m)
	drawn := out.Len()
	l.tick(m)
	require.Equal(t, drawn, out.Len(), "nothing has changed")
	l.line(partialKey{source: source{"lint", 1}}, "more")
	l.dirty = true
	l.tick(m)
	require.Contains(t, out.String()[drawn:], "lint | more")
	require.Contains(t, out.String()[drawn:], fmt.Sprintf("\x1b[%dA", strings.Count(l.canvas.last, "\n")+1))
}

func TestCanvas_rewinds_over_wrapped_lines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := canvas{screen: testScreen(&out)}
	c.draw([]string{strings.Repeat("x", 50), "y"}, 60)
	out.Reset()
	c.draw([]string{"z"}, 20) // the terminal is narrower: the first line takes three rows
	require.Contains(t, out.String(), "\x1b[4A")
}
