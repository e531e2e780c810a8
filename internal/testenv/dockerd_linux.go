//go:build linux

package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// What a stopped daemon started may still write to its directory for a while: the
// removal is tried this often, with this pause in between.
const (
	daemonRemovals = 200
	removalPause   = 100 * time.Millisecond
)

// Daemon is a Docker daemon for one test, which may stop and start it. It has no
// network, so its containers must use the network "none".
type Daemon struct {
	t       testing.TB
	dir     string
	flags   []string
	process *exec.Cmd
}

// NewDaemon starts a second daemon beside the one that other tests use, until the
// test ends. It needs root: without it, the test is skipped, or fails if
// DROVER_REQUIRE names docker.
func NewDaemon(t testing.TB, flags ...string) *Daemon {
	t.Helper()
	RequireDocker(t)
	if _, err := exec.LookPath("dockerd"); err != nil || os.Getuid() != 0 {
		Missing(t, "docker", "a second daemon needs root and an installed dockerd", "run the test as root")
	}
	dir, err := os.MkdirTemp("", "drover-dockerd-") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatalf("create the daemon's directory: %v", err)
	}
	d := &Daemon{t: t, dir: dir}
	d.flags = append([]string{
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "pid"), "--host", d.Host(),
		"--bridge=none", "--iptables=false", "--ip6tables=false",
	}, flags...)
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Logf("the daemon's end: %v", err)
		}
		d.clear()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("%s", log[max(0, len(log)-4000):])
		}
		removeDaemonDir(t, dir)
	})
	d.Start()
	return d
}

// removeDaemonDir removes the directory of a stopped daemon. The daemon's children
// may outlive it for a moment and still write there, so it tries again for a while.
// What is left then is logged: a leftover must not decide a test.
func removeDaemonDir(t testing.TB, dir string) {
	t.Helper()
	var err error
	for range daemonRemovals {
		if err = os.RemoveAll(dir); err == nil {
			return
		}
		<-time.After(removalPause)
	}
	t.Logf("failed to remove the daemon's directory %s: %v", dir, err)
}

// Host returns the DOCKER_HOST of the daemon.
func (d *Daemon) Host() string { return "unix://" + filepath.Join(d.dir, "docker.sock") }

// Client returns a client of the daemon.
func (d *Daemon) Client() *client.Client {
	d.t.Helper()
	cli, err := client.NewClientWithOpts(client.WithHost(d.Host()), client.WithAPIVersionNegotiation())
	if err != nil {
		d.t.Fatalf("create a client of the daemon: %v", err)
	}
	d.t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// Start starts the daemon, again or for the first time, and waits until it
// answers.
func (d *Daemon) Start() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatalf("open the daemon's log: %v", err)
	}
	defer func() { _ = log.Close() }()
	// In a network namespace of its own: otherwise it would remove the bridge of
	// the other daemon.
	d.process = exec.Command("unshare", append([]string{"--net", "dockerd"}, d.flags...)...)
	d.process.Stdout, d.process.Stderr = log, log
	if err := d.process.Start(); err != nil {
		d.t.Fatalf("start dockerd: %v", err)
	}
	cli := d.Client()
	Await(d.t, func() (bool, string) {
		_, err := cli.Ping(context.WithoutCancel(d.t.Context()))
		return err == nil, "dockerd does not answer"
	})
}

// Stop stops the daemon. It can be started again.
func (d *Daemon) Stop() {
	d.t.Helper()
	if err := d.stop(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Daemon) stop() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop dockerd: %w", err)
	}
	var exit *exec.ExitError
	if err := d.process.Wait(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("wait for dockerd: %w", err)
	}
	return nil
}

// clear ends the containerd and the mount that a daemon with live-restore leaves.
func (d *Daemon) clear() {
	if text, err := os.ReadFile(filepath.Join(d.dir, "exec", "containerd", "containerd.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	_ = syscall.Unmount(filepath.Join(d.dir, "data"), syscall.MNT_DETACH)
}
