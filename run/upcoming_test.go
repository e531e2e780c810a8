package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestUpcoming(t *testing.T) {
	t.Parallel()
	plan := run.Plan{Pools: []string{"linux", "mac"}, Nodes: []run.Node{
		{Name: "build", First: 0, Width: 1},
		{Name: "test", First: 1, Width: 3, Depends: []run.Edge{{Node: 0}}},
		{Name: "mac", First: 4, Width: 1, Pool: 1, Depends: []run.Edge{{Node: 0}}},
		{Name: "deploy", First: 5, Width: 1, Depends: []run.Edge{{Node: 1}}},
		{Name: "approved", First: 6, Width: 1, Approvers: 1, Depends: []run.Edge{{Node: 0}}},
		{Name: "skipped", First: 7, Width: 1, Skip: true, Depends: []run.Edge{{Node: 0}}},
	}}
	count := func(pool string, statuses ...run.Status) int {
		return run.Upcoming(plan, pool, func(task int) run.Status {
			if task < len(statuses) {
				return statuses[task]
			}
			return run.StatusNotStarted
		})
	}
	require.Zero(t, count("linux"), "nothing runs")
	require.Zero(t, count("linux", run.StatusQueued))
	require.Equal(t, 3, count("linux", run.StatusRunning))
	require.Equal(t, 1, count("mac", run.StatusRunning))
	require.Zero(t, count("none", run.StatusRunning))
	require.Equal(t, 2, count("linux", run.StatusSuccess, run.StatusRunning), "tasks that have not begun although others of the node run")
	require.Equal(t, 1, count("linux", run.StatusSuccess, run.StatusRunning, run.StatusRunning, run.StatusSuccess))

	plan.Nodes[1].MaxParallel = 2
	require.Equal(t, 2, count("linux", run.StatusRunning))
	require.Equal(t, 1, count("linux", run.StatusSuccess, run.StatusRunning), "one beside the one that runs")
	require.Zero(t, count("linux", run.StatusSuccess, run.StatusRunning, run.StatusQueued), "the next one takes the slot of one of these")
	require.Equal(t, 1, count("linux", run.StatusSuccess, run.StatusSuccess, run.StatusRunning))
}
