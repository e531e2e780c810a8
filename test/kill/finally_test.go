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

// TestKill_in_the_middle_of_a_finally_task kills all of Drover while the finally task of
// a stopped run runs. Each step runs exactly once, and so does the finally task after it.
func TestKill_in_the_middle_of_a_finally_task(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := func(name string) int {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0
		}
		return strings.Count(string(text), "\n")
	}
	dev := harness.StartDev(t, nil, "--executor", "shell")
	id := dev.Submit(fmt.Sprintf(`
name: finally
group: /test/finally
tasks:
  work: {steps: [{run: 'echo x >> %[1]s/work; sleep 300'}]}
  never: {depends: [work], steps: [{run: 'echo x >> %[1]s/never'}]}
  first: {finally: true, steps: [{run: 'echo x >> %[1]s/first; sleep 6; echo first'}]}
  second: {finally: true, depends: [first], steps: [{run: 'echo x >> %[1]s/second; echo second'}]}
`, dir)).ID
	testenv.Await(t, func() (bool, string) { return lines("work") == 1, "the task has not begun" })
	dev.Post(id + "/stop")
	testenv.Await(t, func() (bool, string) { return lines("first") == 1, "the finally task has not begun" })
	dev.Kill()
	dev.Restart()
	r := dev.AwaitPhase(id, "finished")
	require.Equal(t, "stopped", string(r.Result), r.Reason)
	for name, status := range map[string]string{"work": "stopped", "never": "skipped", "first": "success", "second": "success"} {
		require.Equal(t, status, string(r.Tasks[name].Status), "%s: %s", name, r.Tasks[name].Reason)
	}
	dev.AwaitLogs(id, "first", "first\n")
	dev.AwaitLogs(id, "second", "second\n")
	require.Equal(t, []int{1, 0, 1, 1}, []int{lines("work"), lines("never"), lines("first"), lines("second")})
	require.NoError(t, dev.Stop())
}
