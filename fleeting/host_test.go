//go:build linux

package fleeting_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/internal/testenv"
)

const dummyPackage = "gitlab.com/gitlab-org/fleeting/fleeting/plugin/fleeting-plugin-dummy/cmd/fleeting-plugin-dummy"

// dummy builds the unmodified dummy plugin of the fleeting project, which uses
// the older protocol.
func dummy(t *testing.T) string {
	t.Helper()
	return testenv.BuildProgram(t, "fleeting/testdata/dummy", dummyPackage)
}

func open(t *testing.T, o fleeting.Options) *fleeting.Host {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	h, err := fleeting.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	return h
}

func TestHost_full_cycle_of_the_dummy_plugin(t *testing.T) {
	t.Parallel()
	h := open(t, fleeting.Options{
		Plugin: dummy(t), Config: json.RawMessage(`{"MaxSize": 7, "SimulateDeleting": true, "unknown": 1}`),
		Connector: fleeting.Connector{OS: "linux", Username: "drover", UseStaticCredentials: true, ProtocolPort: 2222},
	})
	info, err := h.Init(t.Context())
	require.NoError(t, err)
	require.Equal(t, "dummy/dummy", info.ID)
	require.EqualValues(t, 7, info.MaxSize)
	require.False(t, info.Can(fleeting.CapabilitySuspendResume))

	n, err := h.Increase(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	all, err := h.Update(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	ids := []string{all[0].ID, all[1].ID, all[2].ID}
	require.Equal(t, fleeting.StateCreating, all[0].State)

	c, err := h.ConnectInfo(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, ids[0], c.ID)
	require.Equal(t, "drover", c.Username)
	require.True(t, c.UseStaticCredentials)
	require.Equal(t, 30*time.Second, c.Keepalive)
	require.Equal(t, 10*time.Minute, c.Timeout)
	require.Equal(t, 2222, c.ProtocolPort)
	require.True(t, c.Expires.IsZero())

	require.NoError(t, h.Heartbeat(t.Context(), ids[0]))
	require.ErrorIs(t, h.Heartbeat(t.Context(), "unknown"), fleeting.ErrUnhealthy)
	_, err = h.Suspend(t.Context(), ids[:1])
	require.ErrorIs(t, err, fleeting.ErrNotSupported)

	// One invalid id makes the whole call fail, and the response loses the
	// other ids.
	gone, err := h.Decrease(t.Context(), []string{ids[0], "unknown", ids[1]})
	said := (*fleeting.CallError)(nil)
	require.ErrorAs(t, err, &said)
	require.Contains(t, said.Message, "unknown")
	require.Empty(t, gone)
	require.Equal(t, fleeting.StateDeleting, states(t, h)[ids[0]], "Update shows the result")

	gone, err = h.Decrease(t.Context(), ids[1:])
	require.NoError(t, err)
	require.ElementsMatch(t, ids[1:], gone)
	require.Equal(t, fleeting.StateDeleting, states(t, h)[ids[1]])
	require.Equal(t, fleeting.StateDeleted, states(t, h)[ids[1]])

	require.NoError(t, h.Shutdown(t.Context()))
	_, err = h.Update(t.Context())
	require.ErrorIs(t, err, fleeting.ErrClosed)
}

func states(t *testing.T, h *fleeting.Host) map[string]fleeting.State {
	t.Helper()
	all, err := h.Update(t.Context())
	require.NoError(t, err)
	of := map[string]fleeting.State{}
	for _, i := range all {
		of[i.ID] = i.State
	}
	return of
}

// TestHost_sends_large_messages exceeds gRPC's default limit of 4 MiB, which
// fleeting plugins do not respect.
func TestHost_sends_large_messages(t *testing.T) {
	t.Parallel()
	config, err := json.Marshal(map[string]any{"MaxSize": 7, "Padding": strings.Repeat("x", 6<<20)})
	require.NoError(t, err)
	h := open(t, fleeting.Options{Plugin: dummy(t), Dir: t.TempDir(), Config: config})
	info, err := h.Init(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, info.MaxSize)
}

func TestHost_launches_a_killed_plugin_again(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir(), Config: json.RawMessage(`{"MaxSize": 7}`)}
	h := open(t, o)
	_, err := h.Increase(t.Context(), 1)
	require.NoError(t, err)
	for range 2 {
		plugin := pluginPID(t, o.Dir)
		require.NoError(t, syscall.Kill(plugin, syscall.SIGKILL))
		all, err := h.Update(t.Context())
		require.NoError(t, err, "repeated after the crash")
		require.Empty(t, all, "the dummy keeps its instances in memory")
		require.NotEqual(t, plugin, pluginPID(t, o.Dir))
	}
	info, err := h.Init(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, info.MaxSize, "the configuration was sent again")
}

func TestHost_ends_a_plugin_that_hangs(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir(), Timeouts: fleeting.Timeouts{Change: 100 * time.Millisecond}}
	h := open(t, o)
	plugin := pluginPID(t, o.Dir)
	require.NoError(t, syscall.Kill(plugin, syscall.SIGSTOP))
	testenv.Await(t, func() (bool, string) { // its threads do not stop at once
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", plugin))
		_, rest, _ := strings.Cut(string(stat), ") ")
		return err == nil && strings.HasPrefix(rest, "T"), string(stat)
	})
	_, err := h.Increase(t.Context(), 1)
	require.ErrorIs(t, err, fleeting.ErrTimeout)
	awaitGone(t, plugin)
	n, err := h.Increase(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestHost_killed_is_followed_by_one_that_takes_the_plugin_over(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir(), Config: json.RawMessage(`{"MaxSize": 9}`), Grace: time.Minute}
	guard, plugin := killedHost(t, o)

	var records logRecords
	again := o
	again.Logger = records.logger()
	h := open(t, again)
	require.Equal(t, plugin, pluginPID(t, o.Dir), records.text())
	require.Len(t, states(t, h), 2, "the plugin was not initialised again")
	info, err := h.Init(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 9, info.MaxSize)
	require.NoError(t, h.Shutdown(t.Context()))
	awaitGone(t, plugin)
	awaitGone(t, guard)
	testenv.Await(t, func() (bool, string) { return records.has("msg=\"dummy shutdown called\""), records.text() })
}

func TestHost_ends_an_abandoned_plugin_with_other_settings(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir(), Config: json.RawMessage(`{"MaxSize": 9}`), Grace: time.Minute}
	_, plugin := killedHost(t, o)
	o.Config = json.RawMessage(`{"MaxSize": 10}`)
	h := open(t, o)
	require.NotEqual(t, plugin, pluginPID(t, o.Dir))
	awaitGone(t, plugin)
	info, err := h.Init(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, info.MaxSize)
}

// TestHost_killed_during_a_launch_leaves_no_sockets kills a host and its guard before the
// plugin has printed its handshake: nothing has recorded the directory of its socket.
func TestHost_killed_during_a_launch_leaves_no_sockets(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "drover") //nolint:usetesting // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	dirs := func() []string {
		dirs, err := filepath.Glob(filepath.Join(temp, "drover-plugin-*"))
		require.NoError(t, err)
		return dirs
	}
	silent := filepath.Join(t.TempDir(), "silent")
	syscall.ForkLock.RLock() // a child of another test that had the file open for writing would make it "text file busy"
	err = os.WriteFile(silent, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	o := fleeting.Options{Plugin: silent, Dir: t.TempDir(), Grace: time.Minute}
	host := hostCommand(t, o, "TMPDIR="+temp)
	require.NoError(t, host.Start())
	testenv.Await(t, func() (bool, string) {
		// The host makes the file before it starts the guard, which writes its pid.
		// A guard that began later than the next host would keep that one from the group.
		pid, _ := os.ReadFile(filepath.Join(o.Dir, "guard.lock"))
		return len(pid) > 0 && len(dirs()) == 1, "no guard runs"
	})
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	require.Len(t, dirs(), 1, "the guard runs")

	o.Plugin = dummy(t)
	guard, plugin := killedHost(t, o, "TMPDIR="+temp)
	require.Equal(t, []string{socketDir(t, o.Dir)}, dirs())
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	awaitGone(t, plugin)
}

func TestGuard_ends_a_plugin_without_a_host(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir(), Grace: 300 * time.Millisecond}
	guard, plugin := killedHost(t, o)
	awaitGone(t, plugin)
	awaitGone(t, guard)
}

func TestGuard_killed_takes_the_plugin_with_it(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir()}
	h := open(t, o)
	plugin := pluginPID(t, o.Dir)
	require.NoError(t, syscall.Kill(guardPID(t, o.Dir), syscall.SIGKILL))
	awaitGone(t, plugin)
	_, err := h.Update(t.Context())
	require.NoError(t, err)
}

func TestHost_closed_leaves_the_plugin_to_the_next(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir()}
	first := open(t, o)
	_, err := first.Increase(t.Context(), 1)
	require.NoError(t, err)
	plugin := pluginPID(t, o.Dir)
	require.NoError(t, first.Close())
	_, err = first.Update(t.Context())
	require.ErrorIs(t, err, fleeting.ErrClosed)
	second := open(t, o)
	require.Equal(t, plugin, pluginPID(t, o.Dir))
	require.Len(t, states(t, second), 1)
}

func TestOpen_refuses_a_group_that_is_driven(t *testing.T) {
	t.Parallel()
	o := fleeting.Options{Plugin: dummy(t), Dir: t.TempDir()}
	open(t, o)
	_, err := fleeting.Open(t.Context(), o)
	require.ErrorIs(t, err, fleeting.ErrOwned)
}

func TestHost_logs_what_the_plugin_logs(t *testing.T) {
	t.Parallel()
	var records logRecords
	h := open(t, fleeting.Options{Plugin: dummy(t), Config: json.RawMessage(`{"ListenSSH": true}`), Logger: records.logger()})
	testenv.Await(t, func() (bool, string) {
		return records.has("level=INFO msg=\"ssh listening\" addr=127.0.0.1:"), records.text()
	})
	require.NoError(t, h.Shutdown(t.Context()))
}

// killedHost starts a host in its own process, creates two instances through
// it, and kills it. It returns the pids of the guard and the plugin.
func killedHost(t *testing.T, o fleeting.Options, env ...string) (guard, plugin int) {
	t.Helper()
	cmd := hostCommand(t, o, env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	guard, plugin = guardPID(t, o.Dir), pluginPID(t, o.Dir)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	t.Cleanup(func() { _ = syscall.Kill(plugin, syscall.SIGKILL) })
	return guard, plugin
}

// hostCommand returns a command that runs a host until it is killed.
func hostCommand(t *testing.T, o fleeting.Options, env ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = slices.Concat(os.Environ(), []string{roleVariable + "=host", optsVariable + "=" + string(text)}, env)
	return cmd
}

func guardPID(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "guard.lock"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return pid
}

// pluginPID returns the pid of the guard's only child.
func pluginPID(t *testing.T, dir string) int {
	t.Helper()
	guard := guardPID(t, dir)
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", guard))
	require.NoError(t, err)
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
	}
	t.Fatalf("guard %d has no child", guard)
	return 0
}

// awaitGone waits until a process has exited; it may be a zombie.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(rest, "Z"), string(stat)
	})
}
