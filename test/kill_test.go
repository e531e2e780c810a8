package test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// running returns the number of running tasks of a run.
func running(r api.Run) int {
	n := 0
	for _, task := range r.Tasks {
		if task.Status == "running" {
			n++
		}
	}
	return n
}

// TestKill_dev kills all of Drover at a random moment while 200 tasks run, and
// starts it again on the same data dir. No task or log is lost, and no step runs
// twice.
func TestKill_dev(t *testing.T) {
	t.Parallel()
	rounds := 2
	if soak() {
		rounds = 10
	}
	for round := range rounds {
		// The steps are long enough for most of the 200 to run at once.
		graph := tally{dir: t.TempDir(), tasks: 200, steps: 2, pause: "4"}
		dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=200"}, "--executor", "shell")
		id := dev.Submit(graph.spec("killed")).ID
		// At any moment from the first start until all have begun.
		awaitBegun(t, graph.dir, 2+rand.IntN(graph.tasks))
		r := dev.Get(id)
		t.Logf("round %d: killing while %d tasks run", round, running(r))
		dev.Kill()
		dev.Restart()
		r = dev.AwaitPhase(id, "finished", 3*time.Minute)
		graph.check(t, r, func(task, want string) { dev.AwaitLogs(id, task, want) })
		require.NoError(t, dev.Stop())
	}
}

// TestRestart_gracefully stops Drover with SIGTERM instead. The tasks continue
// under their shims, and the restarted executor adopts them.
func TestRestart_gracefully(t *testing.T) {
	t.Parallel()
	graph := tally{dir: t.TempDir(), tasks: 20, steps: 2, pause: "2"}
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=20"}, "--executor", "shell")
	id := dev.Submit(graph.spec("restarted")).ID
	awaitBegun(t, graph.dir, 1+graph.tasks)
	require.NoError(t, dev.Stop())
	dev.Restart()
	graph.check(t, dev.AwaitPhase(id, "finished", 2*time.Minute), func(task, want string) { dev.AwaitLogs(id, task, want) })
	require.NoError(t, dev.Stop())
}
