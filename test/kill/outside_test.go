package kill

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestDeleted_from_outside deletes a run's workflow from Temporal. Drover still
// closes the run.
func TestDeleted_from_outside(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	dev := harness.StartDev(t, nil, "--executor", "shell", "--temporal", address)
	id := dev.Submit("name: t\ngroup: /test/outside\ntasks: {long: {steps: [{run: sleep 600}]}}\n").ID
	dev.Await(id, func(r api.Run) bool { return harness.Running(r) == 1 })
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: contract.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(run.ID(id))},
	})
	require.NoError(t, err)
	r := dev.AwaitPhase(id, "finished")
	require.Equal(t, "failed", string(r.Result))
	require.Regexp(t, "deleted|terminated", r.Reason, "Temporal terminates the workflow before it deletes it")
	requireNoTasks(t, dev)
}

// TestReset_from_outside resets the workflow of a run to its beginning while a
// task runs. The task continues, and its steps run once.
func TestReset_from_outside(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	dev := harness.StartDev(t, nil, "--executor", "shell", "--temporal", address)
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 3, Steps: 3, Pause: "2"}
	id := dev.Submit(graph.Spec("reset")).ID
	harness.AwaitBegun(t, graph.Dir, 1+3)
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: contract.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(run.ID(id))},
		Reason: "by hand", WorkflowTaskFinishEventId: 4, RequestId: "once",
	})
	require.NoError(t, err)
	r := dev.AwaitPhase(id, "finished")
	graph.Check(t, r, func(task, want string) { dev.AwaitLogs(id, task, want) })
	requireNoTasks(t, dev)
}

// requireNoTasks waits until the shell executor holds no environment.
func requireNoTasks(t *testing.T, dev *harness.Dev) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		left, err := filepath.Glob(filepath.Join(dev.Dir, "data", "executors", "shell", "tasks", "*"))
		return err == nil && len(left) == 0, "the environment is still there"
	})
}

// TestTerminated_from_outside terminates a run's workflow as an operator can in
// Temporal's own web UI. Drover closes the run with the reason, and stops and
// removes its environments.
func TestTerminated_from_outside(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	dev := harness.StartDev(t, nil, "--executor", "shell", "--temporal", address)
	id := dev.Submit("name: t\ngroup: /test/outside\ntasks:\n  long: {steps: [{run: sleep 600}]}\n  next: {depends: [long], steps: [{run: 'true'}]}\n").ID
	dev.Await(id, func(r api.Run) bool { return harness.Running(r) == 1 })
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.TerminateWorkflow(t.Context(), contract.RunWorkflowID(run.ID(id)), "", "by hand"))

	r := dev.AwaitPhase(id, "finished")
	require.Equal(t, "failed", string(r.Result))
	require.Equal(t, "failed", string(r.Tasks["long"].Status))
	require.Contains(t, r.Tasks["long"].Reason, "terminated")
	require.Equal(t, "skipped", string(r.Tasks["next"].Status))
	requireNoTasks(t, dev)
}

// TestWaiting_and_ended_from_outside terminates and resets the workflows of runs
// that wait for a change group, and terminates the workflow of the group itself.
// No slot is lost, and the waiting runs are admitted.
func TestWaiting_and_ended_from_outside(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	dev := harness.StartDev(t, nil, "--executor", "shell", "--temporal", address)
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	const path = "/api/v1/changegroups/deploy"
	status, text, err := dev.Do(t.Context(), http.MethodPut, path, "application/json", `{"max_running": 1}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	group := func() (g api.ChangeGroup) {
		status, text, err := dev.Do(t.Context(), http.MethodGet, path, "", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, text)
		require.NoError(t, json.Unmarshal([]byte(text), &g))
		return g
	}
	submit := func(step string) string {
		return dev.Submit("name: w\ngroup: /test/waiting\nchangegroups: [deploy]\ntasks: {t: {steps: [{run: '" + step + "'}]}}\n").ID
	}
	first := submit("sleep 600")
	dev.Await(first, func(r api.Run) bool { return harness.Running(r) == 1 })
	lost, reset, last := submit("true"), submit("true"), submit("true")
	// Wait until each workflow exists and is idle.
	for _, id := range []string{lost, reset, last} {
		testenv.Await(t, func() (bool, string) {
			d, err := c.DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run.ID(id)), "")
			return err == nil && d.GetPendingWorkflowTask() == nil && d.GetWorkflowExecutionInfo().GetHistoryLength() > 4, "its workflow does not wait"
		})
	}
	require.Equal(t, []string{lost, reset, last}, group().Queued)

	require.NoError(t, c.TerminateWorkflow(t.Context(), contract.RunWorkflowID(run.ID(lost)), "", "by hand"))
	r := dev.AwaitPhase(lost, "finished")
	require.Equal(t, "failed", string(r.Result))
	require.Contains(t, r.Reason, "terminated")
	require.Equal(t, "skipped", string(r.Tasks["t"].Status))
	require.Equal(t, []string{reset, last}, group().Queued)
	require.Equal(t, []string{first}, group().Running)

	_, err = c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: contract.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(run.ID(reset))},
		Reason: "by hand", WorkflowTaskFinishEventId: 4, RequestId: "once",
	})
	require.NoError(t, err)

	// Slots are still granted after the change-group workflow was terminated.
	changeGroupWorkflow := func() (execution string, open bool) {
		d, err := c.DescribeWorkflowExecution(t.Context(), contract.ChangeGroupWorkflowID("deploy"), "")
		if err != nil {
			return "", false
		}
		info := d.GetWorkflowExecutionInfo()
		return info.GetExecution().GetRunId(), info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	ended, open := changeGroupWorkflow()
	require.True(t, open, "the change-group workflow runs while runs wait")
	require.NoError(t, c.TerminateWorkflow(t.Context(), contract.ChangeGroupWorkflowID("deploy"), "", "by hand"))
	testenv.Await(t, func() (bool, string) {
		execution, open := changeGroupWorkflow()
		return open && execution != ended, "the change-group workflow was not started again"
	})

	dev.Post(first + "/stop")
	for _, id := range []string{reset, last} {
		require.Equal(t, "success", string(dev.AwaitPhase(id, "finished").Result))
	}
	require.Empty(t, group().Running)
	require.Empty(t, group().Queued)
}
