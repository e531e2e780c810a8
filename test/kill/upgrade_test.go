package kill

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestUpgrade_control replaces the control worker by one of another build while
// runs are running. All of them continue on the new worker.
func TestUpgrade_control(t *testing.T) {
	t.Parallel()
	build := func(id string) []string {
		return []string{"DROVER_CONTROL__DEPLOYMENT=drover", "DROVER_CONTROL__BUILD_ID=" + id, "DROVER_CONTROL__PROMOTE=true"}
	}
	parts := harness.StartParts(t, "8", map[harness.Part][]string{harness.Control: build("one"), harness.Control2: build("two")})
	c, err := client.Dial(client.Options{HostPort: parts.Temporal(), Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	awaitCurrent(t, c, "one")

	graphs := map[string]harness.Tally{}
	submit := func(i int) {
		graph := harness.Tally{Dir: t.TempDir(), Tasks: 4, Steps: 3, Pause: "0.5"}
		graphs[parts.Submit(graph.Spec(fmt.Sprintf("upgraded-%d", i))).ID] = graph
	}
	for i := range 5 {
		submit(i)
	}
	for id := range graphs {
		parts.Await(id, func(r api.Run) bool { return r.Phase != "queued" })
	}
	parts.Launch(harness.Control2).AwaitReady()
	awaitCurrent(t, c, "two")
	require.NoError(t, parts.Processes[harness.Control].Stop())
	submit(5)
	for id, graph := range graphs {
		graph.Check(t, parts.AwaitPhase(id, "finished"), func(task, want string) { parts.AwaitLogs(id, task, want) })
	}
}

func awaitCurrent(t *testing.T, c client.Client, build string) {
	t.Helper()
	handle := c.WorkerDeploymentClient().GetHandle("drover")
	testenv.Await(t, func() (bool, string) {
		d, err := handle.Describe(t.Context(), client.WorkerDeploymentDescribeOptions{})
		if err != nil {
			return false, err.Error()
		}
		current := d.Info.RoutingConfig.CurrentVersion
		return current != nil && current.BuildID == build, fmt.Sprintf("current is %+v", current)
	})
}

// TestUpgrade_executor stops an executor that has tasks, as an upgrade does, and
// starts a new one on the same state dir.
func TestUpgrade_executor(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"leaves_its_tasks":   nil,
		"finishes_its_tasks": {"DROVER_EXECUTOR__DRAIN_FINISH=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			graph := harness.Tally{Dir: t.TempDir(), Tasks: 6, Steps: 2, Pause: "4"}
			parts := harness.StartParts(t, "3", map[harness.Part][]string{harness.Executor: env})
			id := parts.Submit(graph.Spec("upgraded")).ID
			harness.AwaitBegun(t, graph.Dir, 1+3)
			old := parts.Processes[harness.Executor]
			require.NoError(t, old.Stop())
			want := 0 // the executor finished its tasks before it stopped
			if env == nil {
				want = 3 // the tasks continue without the executor
			}
			parts.Await(id, func(r api.Run) bool { // results may not be in the records yet
				n := 0
				for name, task := range r.Tasks {
					if strings.HasPrefix(name, "work") && task.Status == "running" {
						n++
					}
				}
				return n == want
			})
			parts.Launch(harness.Executor).AwaitReady()
			r := parts.AwaitPhase(id, "finished")
			graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
		})
	}
}
