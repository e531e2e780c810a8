package kill

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestKill_in_the_middle_of_a_cleanup kills Drover while tasks clean up after a stop
// and after a timeout. Each cleanup step runs exactly once, and the runs end.
func TestKill_in_the_middle_of_a_cleanup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := func(name string) int {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0
		}
		return strings.Count(string(text), "\n")
	}
	submit := func(dev *harness.Dev, name, timeout string) string {
		return dev.Submit(fmt.Sprintf(`
name: %[1]s
group: /test/cleanup
tasks:
  t:
    timeout: %[2]s
    steps:
      - {run: 'echo x >> %[3]s/%[1]s-begun; sleep 300'}
      - {run: 'echo x >> %[3]s/%[1]s-always; sleep 6; echo cleaned', when: always}
      - {run: 'echo x >> %[3]s/%[1]s-stop', when: on_stop}
`, name, timeout, dir)).ID
	}
	dev := harness.StartDev(t, nil, "--executor", "shell")
	stopped, timedOut := submit(dev, "stopped", "1h"), submit(dev, "timed-out", "2s")
	testenv.Await(t, func() (bool, string) { return lines("stopped-begun") == 1, "the task has not begun" })
	dev.Post(stopped + "/stop")
	testenv.Await(t, func() (bool, string) {
		return lines("stopped-always") == 1 && lines("timed-out-always") == 1, "the cleanups have not begun"
	})
	dev.Kill()
	dev.Restart()
	r := dev.AwaitPhase(stopped, "finished")
	require.Equal(t, "stopped", string(r.Result), r.Reason)
	dev.AwaitLogs(stopped, "t", "cleaned\n")
	r = dev.AwaitPhase(timedOut, "finished")
	require.Equal(t, "failed", string(r.Result), r.Reason)
	require.True(t, r.Tasks["t"].TimedOut)
	dev.AwaitLogs(timedOut, "t", "cleaned\n")
	for _, name := range []string{"stopped", "timed-out"} {
		for _, step := range []string{"begun", "always", "stop"} {
			require.Equal(t, 1, lines(name+"-"+step), "%s of %s", step, name)
		}
	}
	require.NoError(t, dev.Stop())
}
