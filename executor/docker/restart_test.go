//go:build linux

package docker_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// ownDaemon is a Docker daemon that a test may restart.
type ownDaemon struct {
	dir     string
	flags   []string
	process *exec.Cmd
}

// newOwnDaemon starts a daemon beside the one that other tests use. It needs
// what only root has.
func newOwnDaemon(t *testing.T, flags ...string) *ownDaemon {
	t.Helper()
	testenv.RequireDocker(t)
	if _, err := exec.LookPath("dockerd"); err != nil || os.Getuid() != 0 {
		testenv.Missing(t, "dockerd", "a daemon of its own can be started by root only, where dockerd is installed", "run the test as root")
	}
	dir, err := os.MkdirTemp("", "drover-dockerd-") //nolint:usetesting // a socket's path must be short
	require.NoError(t, err)
	d := &ownDaemon{dir: dir, flags: append([]string{
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "pid"), "--host", hostIn(dir),
		"--bridge=none", "--iptables=false", "--ip6tables=false",
	}, flags...)}
	t.Cleanup(func() {
		d.stop(t)
		d.clear()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("%s", log[max(0, len(log)-4000):])
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	d.start(t)
	return d
}

func hostIn(dir string) string { return "unix://" + filepath.Join(dir, "docker.sock") }

func (d *ownDaemon) client(t *testing.T) *client.Client {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.WithHost(hostIn(d.dir)), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	return cli
}

func (d *ownDaemon) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	// In a network of its own: it would take away the other daemon's bridge.
	d.process = exec.Command("unshare", append([]string{"--net", "dockerd"}, d.flags...)...)
	d.process.Stdout, d.process.Stderr = log, log
	require.NoError(t, d.process.Start())
	cli, err := client.NewClientWithOpts(client.WithHost(hostIn(d.dir)))
	require.NoError(t, err)
	defer func() { require.NoError(t, cli.Close()) }()
	testenv.Await(t, time.Minute, func() (bool, string) {
		_, err := cli.Ping(context.WithoutCancel(t.Context()))
		return err == nil, "starting dockerd"
	})
}

func (d *ownDaemon) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, d.process.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := d.process.Wait(); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
}

// clear ends what a daemon with live-restore leaves behind.
func (d *ownDaemon) clear() {
	if text, err := os.ReadFile(filepath.Join(d.dir, "exec", "containerd", "containerd.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	_ = syscall.Unmount(filepath.Join(d.dir, "data"), syscall.MNT_DETACH)
}

// TestDriver_outlives_the_daemon restarts the daemon under a task that runs.
func TestDriver_outlives_the_daemon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		lives bool
	}{
		"that takes its containers along": {nil, false},
		"that lets its containers go on":  {[]string{"--live-restore"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOwnDaemon(t, c.flags...)
			cli := d.client(t)
			b := &bench{cli: cli, image: testenv.BusyboxImage(t, cli), id: "test"}
			b.driver = b.newDriver(t, docker.Options{Network: "none"})
			def := b.definition(t, "echo begun; while ! [ -f /go ]; do sleep 0.1; done; echo went on")
			h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
			require.NoError(t, err)

			next, output := int64(1), ""
			for f, err := range h.Events(t.Context(), next) {
				if err != nil {
					require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
					break
				}
				next++
				if output += string(f.Data); output == "begun\n" {
					d.stop(t)
				}
			}
			require.Equal(t, "begun\n", output)
			d.start(t)
			if c.lives {
				require.NoError(t, h.CopyTo(t.Context(), "/", fileNamed(t, "go")))
				require.Equal(t, "went on\n", tell(t, h, next).output)
			} else {
				err := ruin(t, h)
				require.Equal(t, run.CodeNotFound, run.CodeOf(err))
				require.ErrorContains(t, err, "daemon was restarted")
			}
			require.NoError(t, h.Remove(t.Context()))
			b.requireNothingLeft(t)
		})
	}
}
