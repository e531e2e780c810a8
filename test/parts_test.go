package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestKill_each_part kills every part in turn while tasks run, with the other
// parts going on.
func TestKill_each_part(t *testing.T) {
	t.Parallel()
	graph := tally{dir: t.TempDir(), tasks: 60, steps: 3, pause: "1"}
	parts := harness.StartParts(t, "20", nil)
	id := parts.Submit(graph.spec("in-parts")).ID
	for _, part := range []harness.Part{harness.Executor, harness.Control, harness.Gateway, harness.Temporal} {
		parts.Await(id, time.Minute, func(r api.Run) bool { return running(r) >= 10 })
		t.Logf("killing %s", part)
		parts.Processes[part].Kill()
		parts.Launch(part).AwaitReady()
	}
	r := parts.AwaitPhase(id, "finished", 5*time.Minute)
	graph.check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
	for _, part := range []harness.Part{harness.Executor, harness.Control, harness.Gateway, harness.Temporal} {
		require.NoError(t, parts.Processes[part].Stop(), part)
	}
}
