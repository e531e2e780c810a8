//go:build linux

package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"

	"github.com/drover-run/drover/plugins/internal/instance"
	"github.com/drover-run/drover/plugins/internal/testwait"
)

// The test binary is also the supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == SupervisorCommand {
		os.Exit(Supervise(os.Args[2:], os.Stderr))
	}
	os.Exit(m.Run())
}

// group returns a plugin process; a second one on the same configuration is a
// restarted plugin.
func group(t *testing.T, config InstanceGroup) *InstanceGroup {
	t.Helper()
	_, err := config.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
	require.NoError(t, err)
	t.Cleanup(func() {
		var ids []string
		require.NoError(t, config.Update(t.Context(), func(id string, _ provider.State) { ids = append(ids, id) }))
		_, err := config.Decrease(context.WithoutCancel(t.Context()), ids)
		require.NoError(t, err)
		for _, id := range ids {
			awaitState(t, &config, id, provider.StateDeleted)
			require.NoError(t, config.forget(id)) // a supervisor that starts late writes nothing any more
		}
	})
	return &config
}

func states(t *testing.T, g *InstanceGroup) map[string]provider.State {
	t.Helper()
	of := map[string]provider.State{}
	require.NoError(t, g.Update(t.Context(), func(id string, s provider.State) { of[id] = s }))
	return of
}

func awaitState(t *testing.T, g *InstanceGroup, id string, want provider.State) {
	t.Helper()
	testwait.Until(t, func() bool { return states(t, g)[id] == want }, "%s did not become %s", id, want)
}

// one creates an instance and waits until it runs.
func one(t *testing.T, g *InstanceGroup) (id, dir string) {
	t.Helper()
	before := states(t, g)
	n, err := g.Increase(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for found := range states(t, g) {
		if _, old := before[found]; !old {
			id = found
		}
	}
	require.NotEmpty(t, id)
	awaitState(t, g, id, provider.StateRunning)
	return id, filepath.Join(g.dir, id)
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

func awaitDead(t *testing.T, pid int) {
	t.Helper()
	testwait.Until(t, func() bool { return !alive(pid) }, "process %d still runs", pid)
}

func awaitPID(t *testing.T, path string) (pid int) {
	t.Helper()
	testwait.Until(t, func() bool {
		text, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, "there is no process id in %s", path)
	return pid
}

func TestGroup_outlives_its_plugin(t *testing.T) {
	t.Parallel()
	config := InstanceGroup{
		Name: "g", StateDir: t.TempDir(), WaitForAddress: true, Env: map[string]string{"WHO": "{{.ID}} of {{.Group}}"},
		Command: []string{"sh", "-c", `echo "$WHO in $FLEETING_INSTANCE_DIR"; setsid sleep 1000 & echo $! >left; echo 127.0.0.9:22 >new; mv new {{.Dir}}/address; exec sleep 1000`},
	}
	id, dir := one(t, group(t, config))

	g := group(t, config)
	require.Equal(t, map[string]provider.State{id: provider.StateRunning}, states(t, g))
	require.NoError(t, g.Heartbeat(t.Context(), id))
	info, err := g.ConnectInfo(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.9:22", info.InternalAddr)
	require.NotEmpty(t, info.Username)
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	require.NoError(t, err)
	require.Equal(t, id+" of g in "+dir+"\n", string(text))

	left := awaitPID(t, filepath.Join(dir, "left"))
	require.True(t, alive(left))
	gone, err := g.Decrease(t.Context(), []string{id})
	require.NoError(t, err)
	require.Equal(t, []string{id}, gone)
	require.NotEqual(t, provider.StateRunning, states(t, g)[id])
	require.ErrorIs(t, g.Heartbeat(t.Context(), id), provider.ErrInstanceUnhealthy)
	awaitState(t, g, id, provider.StateDeleted)
	require.False(t, alive(left), "the remaining processes ended with the command")

	gone, err = g.Decrease(t.Context(), []string{id})
	require.NoError(t, err)
	require.Equal(t, []string{id}, gone)
}

func TestGroup_forgets_ended_instances(t *testing.T) {
	t.Parallel()
	config := InstanceGroup{Name: "g", StateDir: t.TempDir(), Command: []string{"true"}}
	g := group(t, config)
	_, err := g.Increase(t.Context(), 2)
	require.NoError(t, err)
	testwait.Until(t, func() bool {
		for _, s := range states(t, g) {
			if s != provider.StateDeleted {
				return false
			}
		}
		return true
	}, "an instance has not ended")
	require.Len(t, states(t, g), 2)
	config.KeepEnded = 1
	require.Empty(t, states(t, group(t, config)))
	entries, err := os.ReadDir(g.dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, e.IsDir(), e.Name())
	}
}

func TestGroup_kills_a_command_that_does_not_stop(t *testing.T) {
	t.Parallel()
	g := group(t, InstanceGroup{
		Name: "g", StateDir: t.TempDir(), WaitForAddress: true, StopTimeout: instance.Duration(50 * time.Millisecond),
		Command: []string{"sh", "-c", `trap "" TERM; echo >address; while :; do sleep 1000; done`},
	})
	id, dir := one(t, g)
	var s started
	require.NoError(t, read(dir, startedFile, &s))
	_, err := g.Decrease(t.Context(), []string{id})
	require.NoError(t, err)
	awaitState(t, g, id, provider.StateDeleted)
	require.False(t, alive(s.PID))
}

func TestGroup_sees_a_killed_supervisor(t *testing.T) {
	t.Parallel()
	g := group(t, InstanceGroup{Name: "g", StateDir: t.TempDir(), Command: []string{"sleep", "1000"}})
	id, dir := one(t, g)
	var s started
	require.NoError(t, read(dir, startedFile, &s))
	pid, err := supervisorPID(dir)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	awaitState(t, g, id, provider.StateDeleted)
	awaitDead(t, s.PID)
	_, err = g.ConnectInfo(t.Context(), id)
	require.ErrorIs(t, err, provider.ErrInstanceUnhealthy)
}

func TestGroup_ends_an_instance_that_was_only_recorded(t *testing.T) {
	t.Parallel()
	g := group(t, InstanceGroup{Name: "g", StateDir: t.TempDir(), Command: []string{"sleep", "1000"}})
	vars := instance.Vars{ID: instance.NewID("g"), Group: "g"}
	vars.Dir = filepath.Join(g.dir, vars.ID)
	require.NoError(t, g.writeRecord(vars))
	require.Equal(t, provider.StateCreating, states(t, g)[vars.ID])
	require.NoError(t, write(vars.Dir, instanceFile, created{ID: vars.ID, At: time.Now().Add(-2 * supervisorTimeout)}))
	require.Equal(t, provider.StateDeleted, states(t, g)[vars.ID])
	require.Zero(t, Supervise([]string{vars.Dir, "1s", "touch", filepath.Join(vars.Dir, "ran")}, os.Stderr), "a supervisor that starts late")
	require.NoFileExists(t, filepath.Join(vars.Dir, "ran"))
}

func TestGroup_forgets_an_instance_before_its_supervisor_starts(t *testing.T) {
	t.Parallel()
	g := group(t, InstanceGroup{Name: "g", StateDir: t.TempDir(), Command: []string{"sleep", "1000"}})
	vars := instance.Vars{ID: instance.NewID("g"), Group: "g"}
	vars.Dir = filepath.Join(g.dir, vars.ID)
	require.NoError(t, g.writeRecord(vars))
	require.NoError(t, g.forget(vars.ID))
	require.NoError(t, g.forget(vars.ID), "it is gone already")
	ran := filepath.Join(t.TempDir(), "ran")
	require.Equal(t, exitSupervisor, Supervise([]string{vars.Dir, "1s", "touch", ran}, io.Discard))
	require.NoFileExists(t, ran)

	require.NoError(t, os.Mkdir(filepath.Join(g.dir, forgottenPrefix+"g-left"), 0o700), "a plugin that was killed left it")
	require.Empty(t, states(t, g))
	entries, err := os.ReadDir(g.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestGroup_limits_and_refuses(t *testing.T) {
	t.Parallel()
	g := group(t, InstanceGroup{Name: "g", StateDir: t.TempDir(), Command: []string{"sleep", "1000"}, MaxSize: 2})
	n, err := g.Increase(t.Context(), 3)
	require.Error(t, err)
	require.Equal(t, 2, n)
	require.Len(t, states(t, g), 2)
	gone, err := g.Decrease(t.Context(), []string{"g-unknown", "../g-x", "other"})
	require.NoError(t, err, "instances that do not exist count as ended")
	require.Len(t, gone, 3)
	for _, id := range []string{"g-unknown", "../g-x", ""} {
		_, err := g.ConnectInfo(t.Context(), id)
		require.Error(t, err)
		require.Error(t, g.Heartbeat(t.Context(), id))
	}
	_, err = g.Suspend(t.Context(), nil)
	require.ErrorIs(t, err, provider.ErrCapabilityNotSupported)
}

func TestInit_refuses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]InstanceGroup{
		"no name":          {StateDir: "/x", Command: []string{"x"}},
		"a path as a name": {Name: "../x", StateDir: "/x", Command: []string{"x"}},
		"no command":       {Name: "g", StateDir: "/x"},
		"a relative dir":   {Name: "g", StateDir: "x", Command: []string{"x"}},
		"unknown values":   {Name: "g", StateDir: "/x", Command: []string{"{{.Port}}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
			require.Error(t, err)
		})
	}
}
