package shell_test

import (
	"context"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

func definition(n int, scripts ...string) run.Definition {
	d := run.Definition{
		Key:  run.Key{Run: "01aaaaaaaaaaaaaaaaaaaaaaaa", Task: n, Attempt: 1, Dispatch: 1},
		Task: "t", Shell: run.DefaultShell(), Grace: run.StopGrace,
	}
	for _, s := range scripts {
		d.Steps = append(d.Steps, run.StepDef{Script: s, When: run.WhenOnSuccess})
	}
	return d
}

// BenchmarkDriver_no_op measures a task from Start to the frame of its end.
func BenchmarkDriver_no_op(b *testing.B) {
	d, _ := newDriver(b)
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		h, err := d.Start(b.Context(), executor.Task{Definition: definition(len(times), "true"), Launch: func() (int64, error) { return 1, nil }})
		require.NoError(b, err)
		for f, err := range h.Events(b.Context(), 1) {
			require.NoError(b, err)
			if f.Kind == run.FrameTaskEnd {
				require.Equal(b, run.StatusSuccess, f.Result.Status)
			}
		}
		times = append(times, time.Since(began))
		b.StopTimer()
		require.NoError(b, h.Remove(b.Context()))
		b.StartTimer()
	}
	report(b, times)
}

// BenchmarkBare is the baseline: the same shell without Drover.
func BenchmarkBare(b *testing.B) {
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		require.NoError(b, exec.CommandContext(b.Context(), "/bin/sh", "-ec", "true").Run())
		times = append(times, time.Since(began))
	}
	report(b, times)
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	for name, at := range map[string]int{"p50": len(times) / 2, "p95": len(times) * 95 / 100, "min": 0} {
		b.ReportMetric(float64(times[at].Microseconds())/1000, name+"-ms")
	}
}

func start(t testing.TB, d *shell.Driver, def run.Definition) executor.Handle {
	t.Helper()
	h, err := d.Start(t.Context(), executor.Task{Definition: def, Launch: func() (int64, error) { return 1, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Remove(context.WithoutCancel(t.Context()))) })
	return h
}

func newDriver(t testing.TB) (d *shell.Driver, state string) {
	t.Helper()
	state = t.TempDir()
	d, err := shell.New(shell.Options{StateDir: state, ShimPath: testenv.BuildShim(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, state
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, o := range []shell.Options{{}, {StateDir: t.TempDir()}, {ShimPath: "/bin/true"}} {
		_, err := shell.New(o)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	}
}

func TestDriver_Check(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, nil, 0o600))
	for _, path := range []string{"/no/such/shim", t.TempDir(), text} {
		d, err := shell.New(shell.Options{StateDir: state, ShimPath: path})
		require.NoError(t, err)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(d.Check(t.Context())), path)
	}
}

// TestDriver_vanished_leaves_no_process kills a shim: the driver kills the
// shim's processes before it reports the end.
func TestDriver_vanished_leaves_no_process(t *testing.T) {
	t.Parallel()
	d, state := newDriver(t)
	def := definition(1, "(trap '' TERM; sleep 300) & setsid sleep 300 & echo begun; sleep 300")
	h := start(t, d, def)
	for f, err := range h.Events(t.Context(), 1) {
		if err != nil {
			require.Equal(t, run.CodeNotFound, run.CodeOf(err))
			break
		}
		if f.Kind == run.FrameOutput {
			killed, err := process.Kill(filepath.Join(state, "tasks", def.Key.String()))
			require.NoError(t, err)
			require.True(t, killed)
		}
	}
	for _, left := range leftovers(t, state) {
		require.NotContains(t, left, "sleep")
	}
}

func TestDriver_environment(t *testing.T) {
	t.Parallel()
	d, err := shell.New(shell.Options{StateDir: t.TempDir(), ShimPath: testenv.BuildShim(t), Environment: map[string]string{"PATH": "/bin:/usr/bin", "EXTRA": "x"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	h := start(t, d, definition(1, `echo "$PATH $EXTRA"; cd "$TMPDIR"; pwd; env | cut -d= -f1 | sort | tr '\n' ' '`))
	var out strings.Builder
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		out.Write(f.Data)
	}
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, "/bin:/usr/bin x", lines[0])
	require.True(t, strings.HasSuffix(lines[1], "/tmp"))
	require.Equal(t, "DROVER_OUTPUT DROVER_RUN_COUNTER DROVER_RUN_GROUP DROVER_RUN_ID DROVER_TASK_ATTEMPT DROVER_TASK_NAME "+
		"EXTRA HOME LANG LOGNAME OLDPWD PATH PWD SHELL TMPDIR USER ", lines[2], "no variable of the executor")

	inSteps := slices.DeleteFunc(strings.Fields(lines[2]), func(name string) bool { return strings.HasPrefix(name, "DROVER_") })
	inSteps = slices.DeleteFunc(inSteps, func(name string) bool { return slices.Contains([]string{"EXTRA", "PWD", "OLDPWD"}, name) })
	pages.RequireSame(t, "variables.md", inSteps, pages.FirstColumn(pages.Table(t, "variables.md", "## Variables of the environment")))
}

func TestDriver_files_are_private(t *testing.T) {
	t.Parallel()
	d, state := newDriver(t)
	def := definition(1, "echo secret > /dev/null")
	h := start(t, d, def)
	for _, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
	}
	for _, dir := range []string{"tasks", "tasks/" + def.Key.String()} {
		info, err := os.Stat(filepath.Join(state, dir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), dir)
	}
}

// TestDriver_removes_what_is_read_only removes read-only directories, as in
// Go's module cache.
func TestDriver_removes_what_is_read_only(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	h := start(t, d, definition(1, "mkdir -p a/b; touch a/b/c; chmod 500 a/b a; chmod 000 a/b/c"))
	for _, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
	}
	require.NoError(t, h.Remove(t.Context()))
	keys, err := d.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestDriver_a_removal_that_was_cut_off(t *testing.T) {
	t.Parallel()
	d, state := newDriver(t)
	key := definition(1).Key
	require.NoError(t, os.MkdirAll(filepath.Join(state, "trash", key.String(), "work"), 0o700))
	_, err := d.Attach(t.Context(), key)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.NoError(t, start(t, d, definition(1, "true")).Remove(t.Context()))
	require.Empty(t, leftovers(t, state))
}

// BenchmarkDriver_output measures the throughput from a step to a follower.
func BenchmarkDriver_output(b *testing.B) {
	d, _ := newDriver(b)
	const size = 50 << 20
	b.SetBytes(size)
	n := 0
	for b.Loop() {
		n++
		h := start(b, d, definition(n, "yes 0123456789abcde 2>/dev/null | head -c 52428800"))
		total := 0
		for f, err := range h.Events(b.Context(), 1) {
			require.NoError(b, err)
			total += len(f.Data)
		}
		require.Equal(b, size, total)
	}
}

// BenchmarkDriver_line measures the latency of a line from a step to a
// follower.
func BenchmarkDriver_line(b *testing.B) {
	d, _ := newDriver(b)
	h := start(b, d, definition(1, "while true; do date +%s%N; sleep 0.03; done"))
	next, stop := iter.Pull2(h.Events(b.Context(), 1))
	defer stop()
	var times []time.Duration
	for b.Loop() {
		f, err, ok := next()
		require.NoError(b, err)
		require.True(b, ok)
		now := time.Now()
		if ns, err := strconv.ParseInt(strings.TrimSpace(string(f.Data)), 10, 64); err == nil {
			times = append(times, now.Sub(time.Unix(0, ns)))
		}
	}
	if len(times) > 0 {
		report(b, times)
	}
}
