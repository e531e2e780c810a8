package kill

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestKill_dev kills all of Drover at a random moment while 200 tasks run, and
// starts it again on the same data dir. No task or log is lost, and no step runs
// twice.
func TestKill_dev(t *testing.T) {
	t.Parallel()
	rounds := 2
	if harness.Soak() {
		rounds = 10
	}
	for round := range rounds {
		t.Run(fmt.Sprintf("round_%d", round), func(t *testing.T) {
			// The steps are long enough for most of the 200 to run at once.
			graph := harness.Tally{Dir: t.TempDir(), Tasks: 200, Steps: 2, Pause: "4"}
			dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=200"}, "--executor", "shell")
			id := dev.Submit(graph.Spec("killed")).ID
			// At any moment from the first start until all have begun.
			harness.AwaitBegun(t, graph.Dir, 2+rand.IntN(graph.Tasks))
			r := dev.Get(id)
			t.Logf("killing while %d tasks run", harness.Running(r))
			dev.Kill()
			dev.Restart()
			r = dev.AwaitPhase(id, "finished")
			graph.Check(t, r, func(task, want string) { dev.AwaitLogs(id, task, want) })
			require.NoError(t, dev.Stop())
		})
	}
}

// TestRestart_gracefully stops Drover with SIGTERM instead. The tasks continue
// under their shims, and the restarted executor adopts them.
func TestRestart_gracefully(t *testing.T) {
	t.Parallel()
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 20, Steps: 2, Pause: "2"}
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=20"}, "--executor", "shell")
	id := dev.Submit(graph.Spec("restarted")).ID
	harness.AwaitBegun(t, graph.Dir, 1+graph.Tasks)
	require.NoError(t, dev.Stop())
	dev.Restart()
	graph.Check(t, dev.AwaitPhase(id, "finished"), func(task, want string) { dev.AwaitLogs(id, task, want) })
	require.NoError(t, dev.Stop())
}
