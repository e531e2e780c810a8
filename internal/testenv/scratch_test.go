package testenv

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const holdVariable = "DROVER_TESTENV_HOLD"

// TestScratchDir_removed kills a process that uses the directory, and finds neither the
// directory nor one whose shell was killed too.
func TestScratchDir_removed(t *testing.T) {
	if os.Getenv(holdVariable) != "" { // the process that is killed
		fmt.Println(ScratchDir(t))
		<-time.After(time.Hour)
	}
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	temp := t.TempDir()
	hold := func() (*exec.Cmd, string) {
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), holdVariable+"=1", "TMPDIR="+temp)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		return cmd, strings.TrimSpace(line)
	}
	first, dir := hold()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), nil, 0o600))
	stale := filepath.Join(filepath.Dir(dir), "run-stale")
	require.NoError(t, os.Mkdir(stale, 0o700))

	_, second := hold()
	require.NoDirExists(t, stale)
	require.DirExists(t, dir, "its process runs")

	require.NoError(t, first.Process.Kill())
	Await(t, func() (bool, string) {
		_, err := os.Stat(dir)
		return os.IsNotExist(err), "the directory is still there"
	})
	require.DirExists(t, second)
}
