package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// handProcess runs "drover-shim hand" for a waiting shim.
type handProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func startHand(t testing.TB, dir string, order io.Reader, args ...string) *handProcess {
	t.Helper()
	g := &handProcess{cmd: exec.CommandContext(t.Context(), testenv.BuildShim(t), append([]string{"hand", "--dir", dir}, args...)...)}
	var err error
	g.stdin, err = g.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := g.cmd.StdoutPipe()
	require.NoError(t, err)
	g.stdout = bufio.NewReader(out)
	require.NoError(t, g.cmd.Start())
	t.Cleanup(func() { _ = g.cmd.Process.Kill(); _ = g.cmd.Wait() })
	if order != nil {
		text, err := io.ReadAll(order)
		require.NoError(t, err)
		_, err = g.stdin.Write(append(text, '\n'))
		require.NoError(t, err)
	}
	return g
}

func (g *handProcess) line(t testing.TB) string {
	t.Helper()
	line, err := g.stdout.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

func (g *handProcess) exit(t testing.TB) int {
	t.Helper()
	_, err := io.Copy(io.Discard, g.stdout)
	require.NoError(t, err)
	_ = g.cmd.Wait() // the state is what counts
	return g.cmd.ProcessState.ExitCode()
}

func TestHand(t *testing.T) {
	t.Parallel()
	t.Run("follows to the end", func(t *testing.T) {
		t.Parallel()
		p := start(t, nil, nil, "run", "--order", "socket")
		g := startHand(t, p.dir, order(t, nil, "echo one"), "--pulse", "1h")
		require.Equal(t, "begun", g.line(t))
		var lines []string
		for len(lines) == 0 || !strings.Contains(lines[len(lines)-1], `"task_end"`) {
			lines = append(lines, g.line(t))
		}
		require.Equal(t, shim.ExitDone, g.exit(t))
		require.Equal(t, shim.ExitDone, p.exit())
		journal, err := os.ReadFile(filepath.Join(p.dir, journal.File))
		require.NoError(t, err)
		require.Equal(t, string(journal), strings.Join(lines, "\n")+"\n")
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		p := start(t, nil, nil, "run", "--order", "socket")
		require.Equal(t, "begun", startHand(t, p.dir, order(t, nil, "sleep 60"), "--pulse", "1h").line(t))
		require.Equal(t, "exists", startHand(t, p.dir, order(t, nil, "echo no"), "--pulse", "1h").line(t))
		require.Equal(t, run.FrameStepStart, p.await(run.FrameStepStart).Kind)
	})
	t.Run("ends with its stdin", func(t *testing.T) {
		t.Parallel()
		p := start(t, nil, nil, "run", "--order", "socket")
		g := startHand(t, p.dir, order(t, nil, "sleep 60"), "--pulse", "10ms")
		require.Equal(t, "begun", g.line(t))
		for g.line(t) != "" {
		}
		require.NoError(t, g.stdin.Close())
		require.Equal(t, shim.ExitFiles, g.exit(t))
		require.False(t, p.ended(), "the task continues")
	})
	t.Run("is cut off", func(t *testing.T) {
		t.Parallel()
		p := start(t, nil, nil, "run", "--order", "socket")
		g := startHand(t, p.dir, nil)
		_, err := io.WriteString(g.stdin, `{"v":1,"first_frame":1,"definition":{"steps":[{"script":"echo no"}]}}`)
		require.NoError(t, err)
		require.NoError(t, g.stdin.Close())
		require.Equal(t, shim.ExitOrder, g.exit(t))
		require.False(t, journal.Exists(p.dir))
	})
	t.Run("is refused", func(t *testing.T) {
		t.Parallel()
		p := start(t, nil, nil, "run", "--order", "socket")
		g := startHand(t, p.dir, order(t, func(o *run.ShimSpec) { o.Version = 99 }, "echo no"))
		require.Equal(t, shim.ExitOrder, g.exit(t))
		require.False(t, p.ended(), "the shim waits for another order")
	})
	t.Run("without a shim", func(t *testing.T) {
		t.Parallel()
		g := startHand(t, t.TempDir(), order(t, nil, "true"), "--timeout", "20ms")
		require.Equal(t, shim.ExitNoShim, g.exit(t))
	})
}

// A SIGTERM that ends a pod does not come from Drover.
func TestStrict(t *testing.T) {
	t.Parallel()
	p := start(t, order(t, nil, "echo begun; sleep 60"), nil, "run", "--strict")
	p.await(run.FrameOutput)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	r := p.await(run.FrameTaskEnd).Result
	require.Equal(t, run.StatusFailed, r.Status)
	require.Equal(t, run.CauseVanished, r.Cause)

	p = start(t, order(t, nil, "echo begun; sleep 60"), nil, "run", "--strict")
	p.await(run.FrameOutput)
	code, _, _ := shimCommand(t, "stop", "--dir", p.dir, "--grace", "1s")
	require.Equal(t, shim.ExitDone, code)
	require.Equal(t, run.StatusStopped, p.await(run.FrameTaskEnd).Result.Status)
}

func TestInherit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "task")
	cmd := exec.CommandContext(t.Context(), testenv.BuildShim(t), "run", "--dir", dir, "--inherit")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIVEN=yes", "OVER=no"}
	cmd.Stdin = order(t, func(o *run.ShimSpec) {
		o.WorkingDir = ""
		o.Definition.Environment = map[string]string{"OVER": "yes"}
	}, `test "$GIVEN$OVER" = yesyes && test "$(pwd -P)" = "`+realPath(t, cmd.Dir)+`"`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	var result *run.TaskResult
	for f, err := range journal.Tail(t.Context(), dir, 1, nil) {
		require.NoError(t, err)
		if f.Result != nil {
			result = f.Result
		}
	}
	require.NotNil(t, result)
	require.Equal(t, run.StatusSuccess, result.Status, result.Reason)
}

func realPath(t testing.TB, path string) string {
	t.Helper()
	resolved, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return resolved
}

func TestCopy(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	require.NoError(t, os.WriteFile(filepath.Join(from, "file"), []byte("content"), 0o640))
	code, tar, errOut := shimCommand(t, "pack", "--path", filepath.Join(from, "file"))
	require.Equal(t, shim.ExitDone, code, errOut)
	var stderr strings.Builder
	require.Equal(t, shim.ExitDone, command(t.Context(), []string{"unpack", "--dir", to}, strings.NewReader(tar), io.Discard, &stderr), stderr.String())
	text, err := os.ReadFile(filepath.Join(to, "file"))
	require.NoError(t, err)
	require.Equal(t, "content", string(text))

	code, _, errOut = shimCommand(t, "pack", "--path", filepath.Join(from, "absent"))
	require.Equal(t, shim.ExitNoFile, code)
	require.NotEmpty(t, errOut)
	require.Equal(t, shim.ExitFiles, command(t.Context(), []string{"unpack", "--dir", to}, strings.NewReader("no archive at all"), io.Discard, io.Discard))
}

// Simultaneous lines are written together, and empty lines fill silences.
func TestLineWriter(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	lines := newLineWriter(w, 20*time.Millisecond)
	out := bufio.NewReader(r)
	require.NoError(t, lines.write([]byte("one\n")))
	for _, want := range []string{"one\n", "\n", "\n"} {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	require.NoError(t, r.Close())
	testenv.Await(t, func() (bool, string) {
		err := lines.write([]byte("two\n"))
		return err != nil, "the lost reader is not reported"
	})
}
