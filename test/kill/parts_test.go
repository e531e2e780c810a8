package kill

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestKill_each_part kills each part in turn while tasks run and the other parts
// continue.
func TestKill_each_part(t *testing.T) {
	t.Parallel()
	parts := harness.StartParts(t, "20", nil)
	graphs := map[string]harness.Tally{}
	for _, part := range []harness.Part{harness.Executor, harness.Control, harness.Gateway, harness.Temporal} {
		// A run for each kill, so that tasks run even if those of the runs before
		// have ended.
		graph := harness.Tally{Dir: t.TempDir(), Tasks: 15, Steps: 3, Pause: "1"}
		graphs[parts.Submit(graph.Spec("without-"+string(part))).ID] = graph
		harness.AwaitBegun(t, graph.Dir, 1+1+rand.IntN(graph.Tasks))
		t.Logf("killing %s", part)
		parts.Processes[part].Kill()
		parts.Launch(part).AwaitReady()
	}
	for id, graph := range graphs {
		r := parts.AwaitPhase(id, "finished")
		graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
	}
	for _, part := range []harness.Part{harness.Executor, harness.Control, harness.Gateway, harness.Temporal} {
		require.NoError(t, parts.Processes[part].Stop(), part)
	}
}
