package kill

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestRelay_kill runs a graph on an executor that reaches Temporal only through a
// relay, and kills the relay, the executor and Temporal while it runs.
func TestRelay_kill(t *testing.T) {
	t.Parallel()
	parts := harness.StartRelayed(t, "host-7", "shell", "15")
	graphs := map[string]harness.Tally{}
	for round, targets := range [][]harness.Part{
		{harness.Relay}, {harness.Executor}, {harness.Relay, harness.Executor}, {harness.Temporal}, {harness.Relay},
	} {
		// A run for each kill, so that tasks run even if those of the runs before
		// have ended.
		graph := harness.Tally{Dir: t.TempDir(), Tasks: 12, Steps: 3, Pause: "1"}
		graphs[parts.Submit(graph.Spec(fmt.Sprintf("through-a-relay-%d", round))).ID] = graph
		harness.AwaitBegun(t, graph.Dir, 1+5)
		for _, part := range targets {
			t.Logf("killing %s", part)
			parts.Processes[part].Kill()
		}
		for _, part := range targets {
			parts.Launch(part).AwaitReady()
		}
	}
	for id, graph := range graphs {
		r := parts.AwaitPhase(id, "finished")
		graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
	}

	r := parts.Submit("name: stopped\ngroup: /test/relay\ntasks: {a: {steps: [{run: 'sleep 300'}]}}\n")
	parts.Await(r.ID, func(r api.Run) bool { return harness.Running(r) == 1 })
	const delivered = `drover_relay_tasks_total{queue="executor"}`
	before := counted(t, parts, delivered)
	parts.Post(r.ID + "/stop")
	r = parts.AwaitPhase(r.ID, "finished")
	require.Equal(t, api.Result("stopped"), r.Result)
	require.Equal(t, before+1, counted(t, parts, delivered), "the stop request comes through the executor's own queue and not with a heartbeat")

	metrics := get(t, "http://"+parts.Telemetry+"/metrics")
	require.Positive(t, counted(t, parts, `drover_relay_tasks_total{queue="pool"}`))
	require.Contains(t, metrics, `code="OK"`)
	require.NotContains(t, metrics, `code="PermissionDenied"`, "the relay admits every call of an executor")
	require.Contains(t, metrics, "drover_relay_bad_task_tokens_total 0")
	for _, part := range []harness.Part{harness.Executor, harness.Relay, harness.Control, harness.Gateway, harness.Temporal} {
		require.NoError(t, parts.Processes[part].Stop(), part)
	}
}

// counted returns the value of one of the relay's counters, 0 if it has none yet.
func counted(t *testing.T, parts *harness.Relayed, series string) int {
	t.Helper()
	for line := range strings.Lines(get(t, "http://"+parts.Telemetry+"/metrics")) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			n, err := strconv.Atoi(text)
			require.NoError(t, err)
			return n
		}
	}
	return 0
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(testenv.Context(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := (&http.Client{}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// stolenCredential holds clients of the relay and of the gateway that use the stolen
// credential of another executor.
type stolenCredential struct {
	temporal client.Client
	gateway  *harness.Client
}

// bearer sends a token as the authorization header of each call.
type bearer string

func (b bearer) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func newStolenCredential(t *testing.T, parts *harness.Relayed, token string) stolenCredential {
	t.Helper()
	pem, err := os.ReadFile(parts.CA)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	th := stolenCredential{gateway: harness.NewClient(t, parts.Server, token)}
	// The relay and the gateway reload the token file periodically.
	testenv.Await(t, func() (bool, string) {
		c, err := client.DialContext(t.Context(), client.Options{
			HostPort: parts.Address, Namespace: contract.Namespace, HeadersProvider: bearer(token),
			ConnectionOptions: client.ConnectionOptions{TLS: &tls.Config{RootCAs: pool, ServerName: "relay.test", MinVersion: tls.VersionTLS12}},
		})
		th.temporal = c
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(th.temporal.Close)
	testenv.Await(t, func() (bool, string) {
		status, answer, err := th.gateway.Do(t.Context(), http.MethodGet, "/api/v1/runs", "", "")
		return err == nil && status == http.StatusForbidden, answer
	})
	return th
}

// TestRelay_stolen_credential attacks a task with the credentials of other
// executors, one of the same pool and one of another pool. Neither can read or
// change anything of the task.
func TestRelay_stolen_credential(t *testing.T) {
	t.Parallel()
	parts := harness.StartRelayed(t, "host-7", "shell", "2")
	r := parts.Submit(`{name: held, group: /test/relay, secrets: {TOKEN: hunter2}, tasks: {
		a: {steps: [{run: 'echo a-line; while [ ! -e ` + t.TempDir() + `/none ]; do sleep 1; done'}]},
		b: {depends: [a], approval: true, steps: [{run: 'echo b'}]}}}`)
	parts.Await(r.ID, func(r api.Run) bool { return harness.Running(r) == 1 })
	var taskToken []byte
	for _, journal := range parts.Journals() {
		if m := regexp.MustCompile(`"token":"([^"]+)"`).FindStringSubmatch(journal); m != nil {
			var err error
			taskToken, err = base64.StdEncoding.DecodeString(m[1])
			require.NoError(t, err)
		}
	}
	require.NotEmpty(t, taskToken)
	key := run.Key{Run: run.ID(r.ID), Task: 0, Attempt: 1, Dispatch: 1}
	for name, pool := range map[string]string{"same-pool": "shell", "other-pool": "gpu"} {
		token := parts.BoundToken(name, name, pool)
		th := newStolenCredential(t, parts, token)
		th.requireNoWorkflowAccess(t, r.ID)
		th.requireNoForeignPolls(t, pool)
		th.requireNoForeignTask(t, taskToken)
		th.requireNoGatewayAccess(t, name, key)
	}
	still := parts.Get(r.ID)
	require.Equal(t, []any{api.Phase("running"), api.Status("running"), "host-7", 1}, []any{
		still.Phase, still.Tasks["a"].Status, still.Tasks["a"].Executor, still.Tasks["a"].Attempt,
	})
	require.NotContains(t, parts.Logs(r.ID, "a"), "forged")
	parts.Post(r.ID + "/stop")
	require.Equal(t, api.Result("stopped"), parts.AwaitPhase(r.ID, "finished").Result)
}

func requireDenied(t *testing.T, err error, about string) {
	t.Helper()
	var no *serviceerror.PermissionDenied
	require.ErrorAs(t, err, &no, about)
}

func (th stolenCredential) requireNoWorkflowAccess(t *testing.T, id string) {
	t.Helper()
	ctx, workflow := t.Context(), contract.RunWorkflowID(run.ID(id))
	requireDenied(t, th.temporal.SignalWorkflow(ctx, workflow, "", contract.SignalStop, nil), "signal")
	requireDenied(t, th.temporal.TerminateWorkflow(ctx, workflow, "", "stolen"), "terminate")
	requireDenied(t, th.temporal.CancelWorkflow(ctx, workflow, ""), "cancel")
	_, err := th.temporal.QueryWorkflow(ctx, workflow, "", contract.QueryState)
	requireDenied(t, err, "query")
	_, err = th.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{})
	requireDenied(t, err, "list")
	_, err = th.temporal.DescribeWorkflowExecution(ctx, workflow, "")
	requireDenied(t, err, "describe")
	_, err = th.temporal.GetWorkflowHistory(ctx, workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	requireDenied(t, err, "history")
	_, err = th.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: contract.ControlQueue}, contract.RunWorkflow)
	requireDenied(t, err, "start")
	_, err = th.temporal.DescribeTaskQueue(ctx, "pool:shell", enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	requireDenied(t, err, "task queue")
	requireDenied(t, th.temporal.CompleteActivityByID(ctx, contract.Namespace, workflow, "", "1", nil, nil), "by id")
	requireDenied(t, th.temporal.RecordActivityHeartbeatByID(ctx, contract.Namespace, workflow, "", "1"), "by id")
}

// requireNoForeignPolls checks that the credential cannot poll the queues of others.
func (th stolenCredential) requireNoForeignPolls(t *testing.T, pool string) {
	t.Helper()
	for _, queue := range []string{contract.ControlQueue, "pool:shell", "executor:host-7", "set:s"} {
		if queue == "pool:"+pool {
			continue
		}
		other := &taskqueuepb.TaskQueue{Name: queue}
		_, err := th.temporal.WorkflowService().PollActivityTaskQueue(t.Context(), &workflowservice.PollActivityTaskQueueRequest{
			Namespace: contract.Namespace, TaskQueue: other,
		})
		requireDenied(t, err, queue)
		_, err = th.temporal.WorkflowService().PollWorkflowTaskQueue(t.Context(), &workflowservice.PollWorkflowTaskQueueRequest{
			Namespace: contract.Namespace, TaskQueue: other,
		})
		requireDenied(t, err, queue)
	}
}

// requireNoForeignTask checks that the credential cannot heartbeat or complete with the
// token of another executor's task.
func (th stolenCredential) requireNoForeignTask(t *testing.T, token []byte) {
	t.Helper()
	altered := append([]byte(nil), token...)
	altered[len(altered)-1] ^= 1
	for _, token := range [][]byte{token, altered, token[36:], []byte("invalid")} {
		var unknown *serviceerror.NotFound
		require.ErrorAs(t, th.temporal.RecordActivityHeartbeat(t.Context(), token), &unknown)
		result := contract.ExecuteResult{Ended: &run.TaskResult{Status: run.StatusSuccess}}
		require.ErrorAs(t, th.temporal.CompleteActivity(t.Context(), token, result, nil), &unknown)
	}
}

// requireNoGatewayAccess checks that the gateway refuses reads and writes of another
// executor's tasks.
func (th stolenCredential) requireNoGatewayAccess(t *testing.T, self string, key run.Key) {
	t.Helper()
	call := func(want int, method, path, body string) {
		t.Helper()
		status, answer, err := th.gateway.Do(t.Context(), method, "/api/v1"+path, "application/json", body)
		require.NoError(t, err)
		require.Equal(t, want, status, "%s %s: %s", method, path, answer)
		require.NotContains(t, answer, "hunter2")
		require.NotContains(t, answer, "a-line")
	}
	for _, path := range []string{"/runs", "/runs/" + string(key.Run), "/runs/" + string(key.Run) + "/tasks/a/logs", "/events", "/executors"} {
		call(http.StatusForbidden, http.MethodGet, path, "")
	}
	call(http.StatusForbidden, http.MethodPost, "/runs/"+string(key.Run)+"/stop", "{}")
	for _, task := range []int{0, 1} {
		for _, dispatch := range []int{1, 2, 99} {
			key.Task, key.Dispatch = task, dispatch
			text, err := json.Marshal(key)
			require.NoError(t, err)
			claim := `{"executor": %q, "journal_id": "j", "key": %s, "claim_proof": %q}`
			call(http.StatusForbidden, http.MethodPost, "/executor/claim", fmt.Sprintf(claim, "host-7", text, ""))
			call(http.StatusNotFound, http.MethodPost, "/executor/claim", fmt.Sprintf(claim, self, text, ""))
			call(http.StatusForbidden, http.MethodPost, "/executor/claim", fmt.Sprintf(claim, self, text, "forged"))
			frames := `{"executor": %q, "key": %s, "frames": [{"v": 1, "n": 1, "t": "2026-01-02T03:04:05Z", "k": "output", "d": "Zm9yZ2Vk"}]}`
			call(http.StatusForbidden, http.MethodPost, "/executor/frames", fmt.Sprintf(frames, "host-7", text))
			call(http.StatusNotFound, http.MethodPost, "/executor/frames", fmt.Sprintf(frames, self, text))
		}
	}
	call(http.StatusForbidden, http.MethodPost, "/executor/renew", `{"executor": "host-7", "journal_id": "j"}`)
	call(http.StatusForbidden, http.MethodPost, "/executor/register", `{"id": "host-7", "journal_id": "j", "pool": "shell", "driver": "shell", "slots": 1}`)
	call(http.StatusForbidden, http.MethodPost, "/executor/register", fmt.Sprintf(`{"id": %q, "journal_id": "j", "pool": "third", "driver": "shell", "slots": 1}`, self))
}
