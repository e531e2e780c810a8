package clients

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestOutcome_in_Temporal: Temporal's own lists show how runs ended, and what to
// do about the failed one. A failed run is no error of the process.
func TestOutcome_in_Temporal(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	dev := harness.StartDev(t, nil, "--executor", "shell", "--temporal", address)
	submit := func(name, task string) string {
		return dev.Submit(fmt.Sprintf("name: %s\ngroup: /test/outcome\ntasks: {t: {%s}}\n", name, task)).ID
	}
	good := submit("good", "steps: [{run: 'true'}]")
	warned := submit("warned", "allow_failure: true, steps: [{run: 'exit 3'}]")
	bad := submit("bad", "steps: [{run: 'echo hunter2; exit 3'}]")
	stopped := submit("stopped", "steps: [{run: sleep 600}]")
	dev.Await(stopped, func(r api.Run) bool { return harness.Running(r) == 1 })
	dev.Post(stopped + "/stop")

	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	for id, want := range map[string]enumspb.WorkflowExecutionStatus{
		good: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, warned: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
		bad: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, stopped: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
	} {
		dev.AwaitPhase(id, "finished")
		testenv.Await(t, func() (bool, string) {
			d, err := c.DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run.ID(id)), "")
			require.NoError(t, err)
			status := d.GetWorkflowExecutionInfo().GetStatus()
			return status == want, fmt.Sprintf("the workflow of run %s is %s and not %s", id, status, want)
		})
	}
	awaitCount := func(query string, want int64) {
		t.Helper()
		query = "WorkflowType = '" + contract.RunWorkflow + "' AND " + query
		testenv.Await(t, func() (bool, string) {
			n, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: contract.Namespace, Query: query})
			return err == nil && n.GetCount() == want, fmt.Sprintf("%s: %d, %v", query, n.GetCount(), err)
		})
	}
	awaitCount("ExecutionStatus = 'Failed'", 1)
	awaitCount("ExecutionStatus = 'Canceled'", 1)
	awaitCount("ExecutionStatus = 'Completed'", 2)
	awaitCount("ExecutionStatus = 'Failed' AND DroverPhase = 'finished' AND DroverResult = 'failed'", 1)
	awaitCount("DroverPhase IN ('queued', 'running')", 0) // what the reconciler looks for

	answer, err := c.QueryWorkflow(t.Context(), contract.RunWorkflowID(run.ID(bad)), "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(t, answer.Get(&metadata))
	for _, part := range []string{"result **failed**", "| failed | 1 |", "drover runs explain " + bad, "drover runs restart " + bad + " --from failed"} {
		require.Contains(t, metadata.GetCurrentDetails(), part)
	}
	require.NotContains(t, metadata.GetCurrentDetails(), "hunter2")

	require.NotContains(t, dev.Output(), "level=ERROR")
}
