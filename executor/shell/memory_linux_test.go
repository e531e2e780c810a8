package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// memoryGroup creates a control group with a limit of memory, and returns the file
// that moves a process into it.
func memoryGroup(t *testing.T) string {
	t.Helper()
	for _, v := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir := filepath.Join(v.root, fmt.Sprintf("drover-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { removeGroup(t, dir) })
		if os.WriteFile(filepath.Join(dir, v.limit), []byte("50000000"), 0o600) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	testenv.HostLacks(t, "root, or control groups for memory that can be written")
	return ""
}

// TestDriver_out_of_memory: the service of an executor may have a limit of memory.
func TestDriver_out_of_memory(t *testing.T) {
	t.Parallel()
	group := memoryGroup(t)
	shim := filepath.Join(t.TempDir(), "shim")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s\nexec %s \"$@\"\n", group, testenv.BuildShim(t))
	syscall.ForkLock.RLock() // a child of another test that had the file open for writing would make it "text file busy"
	err := os.WriteFile(shim, []byte(script), 0o700)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	d, err := shell.New(shell.Options{StateDir: t.TempDir(), ShimPath: shim})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	const (
		child  = `sh -c 'x=$(head -c 200000000 /dev/zero | tr "\\0" a)'`
		killed = "the kernel killed N because memory ran out (limit 48828Ki), in step 1; it may have been of another task"
	)
	count := regexp.MustCompile(`killed (1 process|\d+ processes)`) // of the shell and of its child
	for n, tt := range []struct {
		script string
		cause  run.Cause
		reason string
	}{
		{"x=$(head -c 200000000 /dev/zero | tr '\\0' a)", run.CauseOOM, "step 1 ran out of memory (exit code 137)"},
		{child + " || echo survived", "", killed},
		{child + " || exit 3", run.CauseStep, "step 1 exited with code 3; " + killed},
		{"kill -9 $$", run.CauseStep, "step 1 was killed by signal 9 (killed)"},
		{"exit 137", run.CauseStep, "step 1 exited with code 137"},
	} {
		h, err := d.Start(t.Context(), executor.Task{Definition: definition(n, tt.script), Launch: func() (int64, error) { return 1, nil }})
		require.NoError(t, err)
		var result *run.TaskResult
		for f, err := range h.Events(t.Context(), 1) {
			require.NoError(t, err)
			result = f.Result
		}
		require.NotNil(t, result)
		require.Equal(t, tt.cause, result.Cause, "%s: %s", tt.script, result.Reason)
		require.Equal(t, tt.reason, count.ReplaceAllString(result.Reason, "killed N"))
		require.NoError(t, h.Remove(t.Context()))
	}
}

// removeGroup removes a control group. The kernel refuses until the last shim in it has
// exited.
func removeGroup(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience(t)); ; {
		err := os.Remove(dir)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Log(err)
			return
		}
		<-time.After(10 * time.Millisecond) //nolint:forbidigo // before the next try, for which nothing fails
	}
}
