package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// gpuLabels identifies labels that tasks require of their executor.
var gpuLabels = run.LabelsID(run.LabelsText(map[string]string{"gpu": "a100"}))

// labelled makes the executors of a node's tasks need labels.
func labelled(n run.Node) run.Node {
	n.Labels = gpuLabels
	return n
}

// TestRun_labels checks that a task with labels stays on the queue of its labels, also
// when it is delivered to a worker that has stopped, requeued, retried, or passed to a
// batch.
func TestRun_labels(t *testing.T) {
	t.Parallel()
	queue := "labels:" + gpuLabels + ":linux"
	require.Equal(t, queue, contract.LabelsQueue("linux", gpuLabels))
	pool, _, ok := contract.ParseLabelsQueue(queue)
	require.Equal(t, []any{"linux", true}, []any{pool, ok})
	for name, limits := range map[string]*contract.Limits{"inline": nil, "batches": {InlineTasks: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(labelled(retrying("a", run.Retry{MaxAttempts: 2})), node("b", 0)))
			w.limits = limits
			lost := func(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
				return contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError()
			}
			w.on("a", lost, requeueTask, failStep, succeed)
			require.Equal(t, run.ResultSuccess, w.run().Result)
			require.Equal(t, []string{
				"execute a 1.1 on " + queue, "execute a 1.2 on " + queue, "execute a 1.3 on " + queue, "execute a 2.1 on " + queue, "execute b 1.1 on pool:linux",
			}, w.requests())
		})
	}
	for _, other := range []string{"pool:linux", "labels::linux", "labels:" + strings.Repeat("g", 32) + ":linux", "labels:" + gpuLabels} {
		_, _, ok := contract.ParseLabelsQueue(other)
		require.False(t, ok, other)
	}
}
