// Package harness runs Drover's real binaries for tests of whole processes:
// it starts, kills, freezes and thaws them, and calls them over HTTP as a
// client does.
package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/freeport"
	"github.com/drover-run/drover/internal/testenv"
)

// binariesVariable names a directory with the binaries drover and drover-shim,
// built with the tag chaos, that are used instead of fresh ones.
const binariesVariable = "DROVER_TEST_BINARIES"

var built struct {
	sync.Once
	err error
}

// Drover returns the path of a drover binary built from the working tree with
// the tag chaos, which lets a test freeze it at a named point. drover-shim is in
// the same directory.
func Drover(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(binariesVariable)
	if dir == "" {
		dir = filepath.Join(testenv.ScratchDir(t), "bin")
		built.Do(func() { built.err = buildBinaries(dir) })
		require.NoError(t, built.err)
	}
	return filepath.Join(dir, "drover")
}

func buildBinaries(dir string) error {
	_, file, _, _ := runtime.Caller(0)
	for _, command := range []string{"drover", "drover-shim"} {
		cmd := exec.Command("go", "build", "-tags", "chaos", "-o", filepath.Join(dir, command), "./cmd/"+command)
		cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", command, err, out)
		}
	}
	return nil
}

// TempDir returns the directory for temporary files of the processes under test, which
// leave some when they are killed.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(testenv.ScratchDir(t), "tmp")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return dir
}

// Process is a running drover command.
type Process struct {
	t    testing.TB
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts `drover ARGS...` with env added to a clean environment. A failed
// test shows the end of its log. The process is killed at the end of the test.
func Start(t testing.TB, dir string, env []string, args ...string) *Process {
	t.Helper()
	return StartUnder(t, nil, dir, env, args...)
}

// StartUnder does what Start does, with a command prefix that runs drover.
func StartUnder(t testing.TB, prefix []string, dir string, env []string, args ...string) *Process {
	t.Helper()
	name := commandName(args)
	log, err := os.CreateTemp(dir, name+"-*.log")
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	line := slices.Concat(prefix, []string{Drover(t)}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + TempDir(t),
		"DROVER_CONTEXT=" + filepath.Join(dir, "context.yaml"),
	}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	p := &Process{t: t, name: name, log: log.Name(), cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		p.Kill()
		killLeftover(dir)
		if t.Failed() {
			t.Logf("the end of the log of drover %s:\n%s", strings.Join(args, " "), p.tail())
		}
	})
	return p
}

// commandName returns the name of a process for its log file: the process that
// drover start starts, or else the command.
func commandName(args []string) string {
	if args[0] == "start" {
		return args[1]
	}
	return args[0]
}

// AwaitReady waits for the line that begins with "ready".
func (p *Process) AwaitReady() {
	p.t.Helper()
	testenv.Await(p.t, func() (bool, string) {
		select {
		case <-p.done:
			p.t.Fatalf("drover %s ended while starting: %v\n%s", p.name, p.err, p.tail())
		default:
		}
		return p.Ready(), "drover " + p.name + " is not ready:\n" + p.tail()
	})
}

// Ready reports whether the process has written the line that begins with
// "ready".
func (p *Process) Ready() bool {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return false
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		if strings.HasPrefix(scanner.Text(), "ready") {
			return true
		}
	}
	return false
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// Freeze stops the process with SIGSTOP and waits until it is stopped.
func (p *Process) Freeze() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	testenv.Await(p.t, func() (bool, string) { return p.Frozen(), "drover " + p.name + " is not stopped" })
}

// Thaw continues the process with SIGCONT.
func (p *Process) Thaw() { require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGCONT)) }

// Frozen reports whether every thread of the process is stopped, by itself or by
// Freeze. The signal stops the threads one after the other.
func (p *Process) Frozen() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Stop ends the process with SIGTERM and returns its exit error.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-testenv.Expired(p.t):
		p.Kill()
		return errors.New("the process did not stop on SIGTERM")
	}
}

// Output returns what the process has written to its standard streams.
func (p *Process) Output() string {
	p.t.Helper()
	data, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(data)
}

func (p *Process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-8000):])
}

const loopback = "127.0.0.1"

// FreeAddress returns a loopback address on which no process listened a moment
// ago.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return freeAddressOf(t, loopback)
}

func freeAddressOf(t testing.TB, host string) string {
	t.Helper()
	port, err := freeport.On(t.Context(), host)
	require.NoError(t, err)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Grep reports whether a file, or its SQLite write-ahead log, contains a text.
func Grep(t testing.TB, file, text string) bool {
	t.Helper()
	found := false
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(file + suffix)
		if errors.Is(err, os.ErrNotExist) && suffix != "" {
			continue
		}
		require.NoError(t, err)
		found = found || strings.Contains(string(data), text)
	}
	return found
}

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// AwaitEnd waits until the process ends by itself, and returns the end of
// its log and its exit error.
func (p *Process) AwaitEnd() (log string, err error) {
	p.t.Helper()
	testenv.Await(p.t, func() (bool, string) { return !p.Running(), "drover " + p.name + " still runs:\n" + p.tail() })
	return p.tail(), p.err
}

// AwaitLog waits until the output of the process contains text.
func (p *Process) AwaitLog(text string) {
	p.t.Helper()
	testenv.Await(p.t, func() (bool, string) {
		data, err := os.ReadFile(p.log)
		return err == nil && strings.Contains(string(data), text), "the output of drover " + p.name + " is:\n" + string(data)
	})
}
