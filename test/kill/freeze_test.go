package kill

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestFreeze stops an executor beyond the heartbeat timeout at every point of
// the protocol, and resumes it. Nothing is lost, and no step runs twice. A second
// executor of the pool is ready to take the tasks that are queued again.
func TestFreeze(t *testing.T) {
	t.Parallel()
	points := agent.Failpoints()
	if !harness.Soak() {
		// The points at which a second start would be most likely.
		points = []string{"delivered", "heartbeat", "granted", "launched", "ended"}
	}
	t.Run("at", func(t *testing.T) {
		for _, point := range points {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				freezeAt(t, point)
			})
		}
	})
}

func freezeAt(t *testing.T, point string) {
	t.Helper()
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 4, Steps: 2, Pause: "0.2"}
	parts := harness.StartParts(t, "2", map[harness.Part][]string{
		harness.Executor: {"DROVER_CHAOS_FREEZE=" + point, "DROVER_CHAOS_ONCE=" + filepath.Join(t.TempDir(), "frozen")},
	})
	id := parts.Submit(graph.Spec("frozen-at-" + point)).ID
	target := parts.Processes[harness.Executor]
	testenv.Await(t, func() (bool, string) { return target.Frozen(), "the executor is not frozen at " + point })
	parts.AddExecutor("second", "2").AwaitReady()
	frozen := time.Now()
	testenv.Await(t, func() (bool, string) {
		return time.Since(frozen) > harness.PastHeartbeat, "waiting past the heartbeat timeout"
	})
	checkFrozenTask(t, parts, id, point)
	require.True(t, target.Frozen(), "the executor must have been frozen all the time")
	target.Thaw()
	r := parts.AwaitPhase(id, "finished")
	graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
}

// checkFrozenTask checks the status and reason of the task of the frozen executor:
// prepare, the first task of the graph, on which all others depend.
func checkFrozenTask(t *testing.T, parts *harness.Parts, id, point string) {
	t.Helper()
	switch point {
	case "delivered":
		// The executor has not accepted the task, so any executor may take it.
	case "accepted", "answered", "removed":
		prepare := parts.Get(id).Tasks["prepare"]
		require.Equal(t, api.Status("success"), prepare.Status, "the completion was accepted before: %+v", prepare)
	default:
		// The executor holds the claim, so only it may report the result.
		parts.Await(id, func(r api.Run) bool {
			prepare := r.Tasks["prepare"]
			require.Contains(t, []api.Status{"queued", "running"}, prepare.Status, "the task of a frozen executor has ended: %+v", prepare)
			return prepare.Status == "running" && strings.Contains(prepare.Reason, "out of contact")
		})
	}
}
