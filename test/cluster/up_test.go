package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clusterVariable is the environment variable with the directory of the
// programs and images of `make cluster`.
const clusterVariable = "DROVER_TEST_CLUSTER"

// TestUp_leaves_nothing kills the process of a cluster: no process, mount or
// link is left, and the next start removes the rest. A cluster that ends
// normally leaves nothing. Both clusters run beside the cluster of the other
// tests.
func TestUp_leaves_nothing(t *testing.T) {
	t.Parallel()
	bin := os.Getenv(clusterVariable)
	if bin == "" || os.Getenv(kubeconfigVariable) == "" {
		missing(t, clusterVariable+" is not set")
	}
	temp := t.TempDir()
	start := func(dir string, command ...string) *exec.Cmd {
		args := append([]string{"up", "--bin", bin, "--image", filepath.Join(bin, "images", "busybox.tar"), "--dir", dir, "--"}, command...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "cluster"), args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd
	}

	killed := filepath.Join(temp, "killed")
	ready := filepath.Join(temp, "ready")
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", ready).Run())
	cmd := start(killed, "/bin/sh", "-c", `echo ready > "$0"; exec sleep 600`, ready)
	require.NoError(t, cmd.Start())
	opened, err := os.ReadFile(ready) // blocks until the command writes
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(opened))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	l, err := readLayout(filepath.Join(killed, "config", "layout.json"))
	require.NoError(t, err)
	awaitGone(t, l)

	require.NoError(t, start(filepath.Join(temp, "ended"), "true").Run())
	require.NoDirExists(t, killed, "the next start cleans up")
	require.NoDirExists(t, filepath.Join(temp, "ended"))
	left, err := filepath.Glob(cgroupRoot + "/*/" + l.CGroup)
	require.NoError(t, err)
	require.Empty(t, left)
	locks, err := filepath.Glob(filepath.Join(temp, "drover-clusters", "*"))
	require.NoError(t, err)
	require.Empty(t, locks)
}

// awaitGone waits until the kernel has removed the contents of the namespaces.
func awaitGone(t *testing.T, l layout) {
	t.Helper()
	ctx := limited(t)
	for left := leftOf(t, l); left != ""; left = leftOf(t, l) {
		require.NoError(t, ctx.Err(), "left: %s", left)
		time.Sleep(pollInterval) //nolint:forbidigo // between two looks
	}
}

func leftOf(t *testing.T, l layout) string {
	t.Helper()
	if _, err := os.Stat("/sys/class/net/" + l.link()); err == nil {
		return "the link " + l.link()
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	if strings.Contains(string(mounts), l.Dir) {
		return "mounts"
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	require.NoError(t, err)
	for _, path := range groups {
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), l.CGroup) {
			return "process " + filepath.Base(filepath.Dir(path))
		}
	}
	return ""
}
