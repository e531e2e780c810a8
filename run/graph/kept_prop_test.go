package graph_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// TestKept_is_closed checks Kept on random graphs. No task is kept that depends
// on a task that runs again because it was chosen or failed. All other tasks
// that ended are kept. Choosing more tasks never keeps more.
func TestKept_is_closed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawGraphCase(t)
		status := make([]run.Status, len(w.outcomes))
		for i := range status {
			status[i] = rapid.SampledFrom([]run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusFailed, run.StatusStopped, run.StatusSkipped}).Draw(t, "status")
		}
		name := func(i int) string { return "t" + strconv.Itoa(i) }
		var tasks []string
		from := run.RestartFailed
		if rapid.Bool().Draw(t, "choose") {
			from = ""
			for range rapid.IntRange(1, 3).Draw(t, "chosen") {
				tasks = append(tasks, name(rapid.IntRange(0, len(status)-1).Draw(t, "task")))
			}
		}
		keep, err := graph.Kept(w.nodes, status, restartTasks(len(status), name), from, tasks)
		if err != nil {
			require.Equal(t, run.CodeWrongPhase, run.CodeOf(err))
			require.NotContains(t, status, run.StatusFailed)
			require.NotContains(t, status, run.StatusStopped)
			return
		}
		rerun := func(i int) bool { // chosen, or failed
			if from == run.RestartFailed {
				return status[i] == run.StatusFailed || status[i] == run.StatusStopped
			}
			return slices.Contains(tasks, name(i))
		}
		node := func(i int) int {
			return slices.IndexFunc(w.nodes, func(n run.Node) bool { return i >= n.First && i < n.First+n.Width })
		}
		// depends computes the same as Kept, by recursion.
		var depends func(n int) bool
		depends = func(n int) bool {
			for _, e := range w.nodes[n].Depends {
				parent := w.nodes[e.Node]
				for i := parent.First; i < parent.First+parent.Width; i++ {
					if rerun(i) {
						return true
					}
				}
				if depends(e.Node) {
					return true
				}
			}
			return false
		}
		for i, k := range keep {
			want := status[i] != run.StatusSkipped && !rerun(i) && !depends(node(i)) && !w.nodes[node(i)].Finally
			require.Equal(t, want, k.Kept, "task %d, %s", i, status[i])
		}
		if from == "" {
			more, err := graph.Kept(w.nodes, status, restartTasks(len(status), name), "", append(tasks, name(0)))
			require.NoError(t, err)
			for i, k := range more {
				require.False(t, k.Kept && !keep[i].Kept, "choosing more tasks never keeps more")
			}
		}
	})
}

// restartTasks returns tasks without a reason to run.
func restartTasks(n int, name func(int) string) []run.RestartTask {
	tasks := make([]run.RestartTask, n)
	for i := range tasks {
		tasks[i].Name = name(i)
	}
	return tasks
}
