package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A step is killed before its shim when memory runs out.
func TestExposeToOOM(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "cat")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	adjustment := func(pid string) int {
		text, err := os.ReadFile("/proc/" + pid + "/oom_score_adj")
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return n
	}
	exposeToOOM(cmd.Process.Pid)
	require.Equal(t, min(adjustment("self")+300, 1000), adjustment(strconv.Itoa(cmd.Process.Pid)))
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	exposeToOOM(cmd.Process.Pid) // it has ended: no effect
}
