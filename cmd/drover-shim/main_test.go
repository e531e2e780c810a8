package main

import (
	"bytes"
	"encoding/json"
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
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// shimProcess is a shim that a test started.
type shimProcess struct {
	t      testing.TB
	cmd    *exec.Cmd
	dir    string
	stderr bytes.Buffer
	exited chan struct{}
}

func start(t testing.TB, stdin io.Reader, stdout io.Writer, args ...string) *shimProcess {
	t.Helper()
	p := &shimProcess{t: t, dir: filepath.Join(t.TempDir(), "task"), exited: make(chan struct{})}
	args = append([]string{args[0], "--dir", p.dir}, args[1:]...)
	p.cmd = exec.CommandContext(t.Context(), testenv.BuildShim(t), args...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the state is what counts
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

func (p *shimProcess) exit() int {
	p.t.Helper()
	testenv.Receive(p.t, p.exited)
	return p.cmd.ProcessState.ExitCode()
}

// await reads the journal until a frame of the kind.
func (p *shimProcess) await(kind run.FrameKind) run.Frame {
	p.t.Helper()
	for {
		ended := p.ended()
		for f, err := range journal.Tail(p.t.Context(), p.dir, 1, nil) {
			if run.CodeOf(err) == run.CodeNotFound && !ended {
				break // it is about to begin
			}
			require.NoError(p.t, err)
			if f.Kind == kind {
				return f
			}
		}
	}
}

func (p *shimProcess) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func order(t testing.TB, change func(*run.ShimSpec), scripts ...string) io.Reader {
	t.Helper()
	o := run.ShimSpec{Version: 1, FirstFrame: 1, WorkingDir: t.TempDir(), Definition: run.Definition{Task: "t", Grace: time.Minute}}
	for _, s := range scripts {
		o.Definition.Steps = append(o.Definition.Steps, run.StepDef{Script: s})
	}
	if change != nil {
		change(&o)
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	return bytes.NewReader(text)
}

func shimCommand(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = command(t.Context(), args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		p := start(t, order(t, nil, "exit 3"), nil, "run")
		require.Equal(t, shim.ExitDone, p.exit())
		require.Equal(t, run.StatusFailed, p.await(run.FrameTaskEnd).Result.Status)
	})
	t.Run("order cut off", func(t *testing.T) {
		t.Parallel()
		p := start(t, strings.NewReader(`{"v":1,"first_frame":1,`), nil, "run")
		require.Equal(t, shim.ExitOrder, p.exit())
		require.False(t, journal.Exists(p.dir))
	})
	t.Run("order file missing", func(t *testing.T) {
		t.Parallel()
		p := start(t, nil, nil, "run", "--order", "/no/such/order")
		require.Equal(t, shim.ExitOrder, p.exit())
	})
	t.Run("order file is removed", func(t *testing.T) {
		t.Parallel()
		text, err := io.ReadAll(order(t, nil, "true"))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "order")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		p := start(t, nil, nil, "run", "--order", path)
		require.Equal(t, shim.ExitDone, p.exit())
		require.NoFileExists(t, path)
	})
	t.Run("journal exists", func(t *testing.T) {
		t.Parallel()
		p := start(t, order(t, nil, "true"), nil, "run")
		require.Equal(t, shim.ExitDone, p.exit())
		before, err := os.ReadFile(filepath.Join(p.dir, journal.File))
		require.NoError(t, err)
		again := exec.CommandContext(t.Context(), testenv.BuildShim(t), "run", "--dir", p.dir)
		again.Stdin = order(t, nil, "echo no")
		_ = again.Run()
		require.Equal(t, shim.ExitExists, again.ProcessState.ExitCode())
		after, err := os.ReadFile(filepath.Join(p.dir, journal.File))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
	t.Run("locked", func(t *testing.T) {
		t.Parallel()
		p := start(t, order(t, nil, "sleep 60"), nil, "run")
		p.await(run.FrameStepStart)
		again := exec.CommandContext(t.Context(), testenv.BuildShim(t), "run", "--dir", p.dir)
		again.Stdin = order(t, nil, "echo no")
		_ = again.Run()
		require.Equal(t, shim.ExitLocked, again.ProcessState.ExitCode())
		code, _, _ := shimCommand(t, "stop", "--dir", p.dir, "--grace", "1s")
		require.Equal(t, shim.ExitDone, code)
		require.Equal(t, shim.ExitDone, p.exit())
		require.Equal(t, run.StatusStopped, p.await(run.FrameTaskEnd).Result.Status)
	})
	t.Run("directory that can not be created", func(t *testing.T) {
		t.Parallel()
		code, _, errOut := shimCommand(t, "run", "--dir", "/dev/null/below")
		require.Equal(t, shim.ExitFiles, code)
		require.Contains(t, errOut, "/dev/null")
	})
	t.Run("usage", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{}, {"fly"}, {"run"}, {"read", "--dir"}, {"run", "--dir", "x", "more"}, {"run", "--nonsense"}} {
			code, _, errOut := shimCommand(t, args...)
			require.Equal(t, shim.ExitUsage, code, args)
			require.NotEmpty(t, errOut)
		}
	})
	t.Run("version", func(t *testing.T) {
		t.Parallel()
		code, out, _ := shimCommand(t, "version")
		require.Equal(t, shim.ExitDone, code)
		require.True(t, strings.HasPrefix(out, "drover-shim "))
	})
}

func TestRead(t *testing.T) {
	t.Parallel()
	code, _, _ := shimCommand(t, "read", "--dir", t.TempDir())
	require.Equal(t, shim.ExitNoJournal, code)

	p := start(t, order(t, nil, "echo one; sleep 0.3; echo two"), nil, "run")
	p.await(run.FrameOutput)
	code, followed, _ := shimCommand(t, "read", "--dir", p.dir, "--follow")
	require.Equal(t, shim.ExitDone, code)
	code, all, _ := shimCommand(t, "read", "--dir", p.dir)
	require.Equal(t, shim.ExitDone, code)
	require.Equal(t, all, followed)
	code, part, _ := shimCommand(t, "read", "--dir", p.dir, "--from", "3")
	require.Equal(t, shim.ExitDone, code)
	require.True(t, strings.HasSuffix(all, part))
	require.Equal(t, strings.Count(all, "\n")-2, strings.Count(part, "\n"))

	p = start(t, order(t, nil, "sleep 60"), nil, "run")
	p.await(run.FrameStepStart)
	require.NoError(t, p.cmd.Process.Kill())
	code, _, _ = shimCommand(t, "read", "--dir", p.dir, "--follow")
	require.Equal(t, shim.ExitEnded, code)
}

// TestRead_verify damages a frame such that only decoding detects it.
func TestRead_verify(t *testing.T) {
	t.Parallel()
	p := start(t, order(t, nil, "echo one; sleep 60"), nil, "run")
	p.await(run.FrameOutput)
	code, out, _ := shimCommand(t, "read", "--dir", p.dir, "--verify")
	require.Equal(t, shim.ExitDone, code)
	require.Equal(t, shim.Done, out)
	name := filepath.Join(p.dir, journal.File)
	journal, err := os.ReadFile(name)
	require.NoError(t, err)
	damaged := bytes.Replace(journal, []byte(`"d":"`), []byte(`"d":"!`), 1)
	require.False(t, bytes.Equal(journal, damaged))
	require.NoError(t, os.WriteFile(name, damaged, 0o600))
	code, _, _ = shimCommand(t, "read", "--dir", p.dir, "--verify")
	require.Equal(t, shim.ExitDamaged, code)
	require.NoError(t, p.cmd.Process.Kill())
	testenv.Await(t, func() (bool, string) {
		alive, err := process.Alive(p.dir)
		return err == nil && !alive, "the shim runs"
	})
	code, _, _ = shimCommand(t, "read", "--dir", p.dir, "--verify")
	require.Equal(t, shim.ExitSpoiled, code)
}

// The copy has all frames if its reader keeps up, and the shim waits for the
// acknowledgment.
func TestStdout(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p := start(t, order(t, nil, "echo one; echo two >&2"), w, "run", "--stdout", "nonce")
	require.NoError(t, w.Close())
	var copied strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&copied, r)
	}()
	p.await(run.FrameTaskEnd)
	select {
	case <-p.exited:
		require.Fail(t, "it did not wait for the acknowledgment")
	case <-time.After(50 * time.Millisecond): //nolint:forbidigo // no event marks the absence of the end
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, shim.ExitDone, p.exit())
	<-ended
	journal, err := os.ReadFile(filepath.Join(p.dir, journal.File))
	require.NoError(t, err)
	require.Equal(t, "nonce "+strings.ReplaceAll(strings.TrimSpace(string(journal)), "\n", "\nnonce ")+"\n", copied.String())
}

// Without a reader of the copy the task still continues.
func TestStdout_is_not_read(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p := start(t, order(t, nil, "yes | head -c 3000000"), w, "run", "--stdout", "nonce")
	require.NoError(t, w.Close())
	require.Equal(t, run.StatusSuccess, p.await(run.FrameTaskEnd).Result.Status)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, shim.ExitDone, p.exit(), "the end does not wait either")
	require.NoError(t, r.Close())
}

// A daemon leaves its process group, its session and its parent. The shim finds it
// if the system allows that.
func TestDaemons_end_with_the_task(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		testenv.HostLacks(t, "setsid")
	}
	if len(processes(t, "")) == 0 {
		testenv.HostLacks(t, "/proc")
	}
	mark := "31536" + strings.TrimLeft(time.Now().Format("150405.000"), "0")
	p := start(t, order(t, nil, "setsid sh -c 'sleep "+mark+" & exec sleep "+mark+"' >/dev/null 2>&1 & sleep 0.2"), nil, "run")
	require.Equal(t, shim.ExitDone, p.exit())
	require.Empty(t, processes(t, "sleep\x00"+mark+"\x00"))
}

// processes returns the command lines of this host that contain a text. A zero byte
// follows each argument.
func processes(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file) // it may have ended meanwhile
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, string(line))
		}
	}
	return found
}
