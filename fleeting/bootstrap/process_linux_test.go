package bootstrap

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

// The command line of a process is empty for a moment during an exec. The script
// that starts the supervisor must not take that for the end of the supervisor:
// here the command line stays empty for a second.
func TestStartProcess_while_the_supervisor_executes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := hostPaths{dir: dir, config: filepath.Join(dir, "config.yaml"), drover: filepath.Join(dir, "drover")}
	require.NoError(t, os.WriteFile(p.drover, []byte("#!/bin/sh\nwhile sleep 1; do :; done\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "supervise"), []byte(supervise(p)), 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "setsid"))) // see TestMain
	setsid, err := exec.LookPath("setsid")
	require.NoError(t, err)
	sh := func(script string) string {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience(t)) // the cleanup uses it too
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "set -e\ncd '"+dir+"'\n"+script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DROVER_TEST_SETSID="+setsid)
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	t.Cleanup(func() { sh(stopProcess(p)) })
	script := strings.ReplaceAll(startProcess(p), "STAMP", "1")
	require.Contains(t, script, "pid=$!\n")
	out := sh(strings.Replace(script, "pid=$!\n", "pid=$!\nwhile [ -n \"$(tr -d '\\0' < /proc/$pid/cmdline)\" ]; do :; done\n", 1))
	require.Contains(t, out, startedOutput)
}
