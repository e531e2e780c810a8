package relay_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/relay"
	"github.com/drover-run/drover/run"
)

// TestRelay_rebuilds_requests sends requests with every field that a client
// can set, and checks which fields reach Temporal.
func TestRelay_rebuilds_requests(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	client := w.as(t, "a")
	out, err := client.PollActivityTaskQueue(callContext(t), &workflowservice.PollActivityTaskQueueRequest{
		Namespace: "other", Identity: "executor:b", WorkerInstanceKey: "key", WorkerControlTaskQueue: "control", PollerGroupId: "g",
		TaskQueue:         &taskqueuepb.TaskQueue{Name: "pool:linux", Kind: enumspb.TASK_QUEUE_KIND_STICKY, NormalName: "pool:gpu"},
		TaskQueueMetadata: &taskqueuepb.TaskQueueMetadata{MaxTasksPerSecond: wrapperspb.Double(0.001)},
		//nolint:staticcheck // deprecated, but still used
		WorkerVersionCapabilities: &commonpb.WorkerVersionCapabilities{BuildId: "b", UseVersioning: true},
		DeploymentOptions:         &deploymentpb.WorkerDeploymentOptions{DeploymentName: "d", BuildId: "b"},
	}, grpc.UseCompressor("gzip"))
	require.NoError(t, err)
	require.Empty(t, out.GetPollerGroupInfos()) //nolint:staticcheck // deprecated, but still sent
	token := out.GetTaskToken()
	poll := w.temporal.takeCalls()[0]
	require.Empty(t, poll.headers.Get("authorization"), "the executor's credential does not reach Temporal")
	got := poll.request.(*workflowservice.PollActivityTaskQueueRequest)
	instance := got.GetWorkerInstanceKey()
	require.NotEmpty(t, instance)
	require.NotContains(t, instance, "key")
	require.Empty(t, cmp.Diff(&workflowservice.PollActivityTaskQueueRequest{
		Namespace: "drover", TaskQueue: &taskqueuepb.TaskQueue{Name: "pool:linux", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Identity: "executor:a", WorkerInstanceKey: instance,
	}, got, protocmp.Transform()))

	answer, err := client.RecordActivityTaskHeartbeat(callContext(t), &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: "other", TaskToken: token, Details: payloads(`{"e":"a"}`), Identity: "root", ResourceId: "workflow:x",
	})
	require.NoError(t, err)
	require.True(t, answer.GetCancelRequested())
	_, err = client.RespondActivityTaskCompleted(callContext(t), &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: "other", TaskToken: token, Result: payloads(`1`), Identity: "root", ResourceId: "workflow:x",
		DeploymentOptions: &deploymentpb.WorkerDeploymentOptions{DeploymentName: "d"},
	})
	require.NoError(t, err)
	_, err = client.RespondActivityTaskFailed(callContext(t), &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: "other", TaskToken: token, Failure: &failurepb.Failure{Message: "m"}, LastHeartbeatDetails: payloads(`2`), Identity: "root",
	})
	require.NoError(t, err)
	_, err = client.RespondActivityTaskCanceled(callContext(t), &workflowservice.RespondActivityTaskCanceledRequest{
		Namespace: "other", TaskToken: token, Details: payloads(`3`), Identity: "root",
	})
	require.NoError(t, err)
	_, err = client.ShutdownWorker(callContext(t), &workflowservice.ShutdownWorkerRequest{
		Namespace: "other", TaskQueue: "executor:a", StickyTaskQueue: "sticky", WorkerInstanceKey: "key", Identity: "root",
		TaskQueueTypes: []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW},
	})
	require.NoError(t, err)
	_, err = client.RecordWorkerHeartbeat(callContext(t), &workflowservice.RecordWorkerHeartbeatRequest{Namespace: "other"})
	require.NoError(t, err)
	rebuilt := &failurepb.Failure{Message: "m", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{},
	}}
	var requests []any
	for _, c := range w.temporal.takeCalls() {
		requests = append(requests, c.request)
	}
	require.Empty(t, cmp.Diff([]any{
		&workflowservice.RecordActivityTaskHeartbeatRequest{
			Namespace: "drover", TaskToken: []byte("raw"), Details: payloads(`{"e":"a"}`), Identity: "executor:a",
		},
		&workflowservice.RespondActivityTaskCompletedRequest{Namespace: "drover", TaskToken: []byte("raw"), Result: payloads(`1`), Identity: "executor:a"},
		&workflowservice.RespondActivityTaskFailedRequest{
			Namespace: "drover", TaskToken: []byte("raw"), Failure: rebuilt, LastHeartbeatDetails: payloads(`2`), Identity: "executor:a",
		},
		&workflowservice.RespondActivityTaskCanceledRequest{Namespace: "drover", TaskToken: []byte("raw"), Details: payloads(`3`), Identity: "executor:a"},
		&workflowservice.ShutdownWorkerRequest{
			Namespace: "drover", Identity: "executor:a", Reason: "the executor stops", WorkerInstanceKey: instance, TaskQueue: "executor:a",
			TaskQueueTypes: []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_ACTIVITY},
		},
	}, requests, protocmp.Transform()))
}

func TestRelay_answers_are_trimmed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	info, err := w.as(t, "a").GetSystemInfo(callContext(t), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
	require.True(t, info.GetCapabilities().GetSdkMetadata())
	require.Empty(t, info.GetServerVersion())
	namespace, err := w.as(t, "a").DescribeNamespace(callContext(t), &workflowservice.DescribeNamespaceRequest{Namespace: "other", Id: "x"})
	require.NoError(t, err)
	require.Equal(t, "drover", namespace.GetNamespaceInfo().GetName())
	require.Empty(t, namespace.GetNamespaceInfo().GetOwnerEmail()+namespace.GetNamespaceInfo().GetId())
	require.Empty(t, namespace.GetNamespaceInfo().GetData())
	require.Zero(t, namespace.GetFailoverVersion())
	can := namespace.GetNamespaceInfo().GetCapabilities()
	require.True(t, can.GetWorkerPollCompleteOnShutdown())
	require.False(t, can.GetWorkerCommands() || can.GetWorkerHeartbeats(), "the relay does not admit them")
}

// TestRelay_identity checks that Temporal gets the identity of the token if the
// client claims another one.
func TestRelay_identity(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	for _, c := range []struct{ token, says, want string }{
		{"a", "executor:a", "executor:a"},
		{"a", "executor:b", "executor:a"},
		{"a", "", "executor:a"},
		{"s-2", "executor:s-7", "executor:s-7"},
		{"s-2", "executor:a", "set:s"},
		{"s-2", "executor:s-7\nx", "set:s"},
	} {
		poll := pollOf("pool:linux")
		poll.Identity = c.says
		_, err := w.as(t, c.token).PollActivityTaskQueue(callContext(t), poll)
		require.NoError(t, err)
		require.Equal(t, c.want, w.temporal.takeCalls()[0].request.(*workflowservice.PollActivityTaskQueueRequest).GetIdentity())
	}
}

// TestRelay_claim_proofs checks that tasks of a pool get a claim proof, and that all
// other input stays unchanged.
func TestRelay_claim_proofs(t *testing.T) {
	t.Parallel()
	keys := someKeys(t)
	key := run.Key{Run: "01jd0000000000000000000000", Task: 3, Attempt: 1, Dispatch: 2}
	in, err := json.Marshal(contract.ExecuteInput{Key: key, Name: "n", ClaimProof: "forged"})
	require.NoError(t, err)
	newer := `{"key":` + string(mustMarshal(t, key)) + `,"name":"n","tomorrow":{"a":[1]}}`
	for about, c := range map[string]struct {
		activity, in string
		proof        bool
	}{
		"a task":            {contract.ActivityExecuteTask, string(in), true},
		"a newer task":      {contract.ActivityExecuteTask, newer, true},
		"an adoption":       {contract.ActivityAdoptTask, newer, false},
		"not an object":     {contract.ActivityExecuteTask, `[1]`, false},
		"without a key":     {contract.ActivityExecuteTask, `{"a":1}`, false},
		"with another key":  {contract.ActivityExecuteTask, `{"key":7}`, false},
		"not even JSON":     {contract.ActivityExecuteTask, `{`, false},
		"an order to stop":  {contract.ActivityStopTask, newer, false},
		"an empty document": {contract.ActivityExecuteTask, ``, false},
	} {
		w := newEnv(t, setup{keys: keys})
		w.temporal.task = &workflowservice.PollActivityTaskQueueResponse{
			TaskToken: []byte("raw"), ActivityType: &commonpb.ActivityType{Name: c.activity}, Input: payloads(c.in),
		}
		out, err := w.as(t, "s-1").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
		require.NoError(t, err)
		data := out.GetInput().GetPayloads()[0].GetData()
		if !c.proof {
			require.Equal(t, c.in, string(data), about)
			continue
		}
		var got contract.ExecuteInput
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, key, got.Key)
		require.Equal(t, "n", got.Name)
		require.True(t, keys.CheckClaimProof("set:s", key, got.ClaimProof), about)
		if about == "a newer task" {
			require.Contains(t, string(data), `"tomorrow":{"a":[1]}`)
		}
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// TestRelay_another_relay_accepts_tokens uses task tokens of a relay that is gone, and of
// a relay with an older key.
func TestRelay_another_relay_accepts_tokens(t *testing.T) {
	t.Parallel()
	first, second := tokens.NewKey(), tokens.NewKey()
	parse := func(text string) *tokens.Keys {
		keys, err := tokens.ParseKeys(text)
		require.NoError(t, err)
		return keys
	}
	gone := newEnv(t, setup{keys: parse(first)})
	token := gone.taskOf(t, "a", "pool:linux")
	gone.stop()
	for _, keys := range []string{first, second + "\n" + first} {
		w := newEnv(t, setup{keys: parse(keys)})
		_, err := w.as(t, "a").RecordActivityTaskHeartbeat(callContext(t), heartbeatOf(token))
		require.NoError(t, err)
		_, err = w.as(t, "b").RecordActivityTaskHeartbeat(callContext(t), heartbeatOf(token))
		requireCode(t, codes.NotFound, err)
	}
	w := newEnv(t, setup{keys: parse(second)})
	_, err := w.as(t, "a").RecordActivityTaskHeartbeat(callContext(t), heartbeatOf(token))
	requireCode(t, codes.NotFound, err)
}

func TestRelay_empty_polls(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	w.temporal.task = &workflowservice.PollActivityTaskQueueResponse{}
	out, err := w.as(t, "a").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
	require.NoError(t, err)
	require.Empty(t, out.GetTaskToken())
}

// TestRelay_errors checks that Temporal's errors are forwarded, except those
// about the relay's own credential.
func TestRelay_errors(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	token := w.taskOf(t, "a", "pool:linux")
	for says, want := range map[codes.Code]codes.Code{
		codes.NotFound: codes.NotFound, codes.ResourceExhausted: codes.ResourceExhausted, codes.Unavailable: codes.Unavailable,
		codes.InvalidArgument: codes.InvalidArgument, codes.Unauthenticated: codes.Unavailable, codes.PermissionDenied: codes.Unavailable,
	} {
		w.temporal.fail(status.Error(says, "no"))
		_, err := w.as(t, "a").RecordActivityTaskHeartbeat(callContext(t), heartbeatOf(token))
		requireCode(t, want, err, says)
		_, err = w.as(t, "a").PollActivityTaskQueue(callContext(t), pollOf("pool:linux"))
		requireCode(t, want, err, says)
	}
}

func TestRelay_TLS(t *testing.T) {
	t.Parallel()
	cert, authority := certificate(t)
	w := newEnv(t, setup{options: relay.Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}})
	dial := func(config *tls.Config) error {
		client := workflowservice.NewWorkflowServiceClient(connect(t, w.listener, config, "a"))
		_, err := client.GetSystemInfo(testenv.Context(t), &workflowservice.GetSystemInfoRequest{})
		return err
	}
	require.NoError(t, dial(&tls.Config{RootCAs: authority, ServerName: "relay.test", MinVersion: tls.VersionTLS12}))
	require.Error(t, dial(&tls.Config{RootCAs: authority, ServerName: "other.test", MinVersion: tls.VersionTLS12}))
	require.Error(t, dial(&tls.Config{RootCAs: x509.NewCertPool(), ServerName: "relay.test", MinVersion: tls.VersionTLS12}))
	require.Error(t, dial(nil))
}

// otherListener is a listener whose address is not loopback.
type otherListener struct{ net.Listener }

func (otherListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func TestRelay_refuses_to_serve_tokens_in_the_clear(t *testing.T) {
	t.Parallel()
	deps := relay.Deps{
		Temporal: workflowservice.NewWorkflowServiceClient(connect(t, listen(), nil, "")), Auth: someTokens(t), Keys: someKeys(t),
		Logger: slog.New(slog.DiscardHandler),
	}
	r, err := relay.New(deps, relay.Options{Namespace: "drover"})
	require.NoError(t, err)
	require.ErrorContains(t, r.Run(t.Context(), otherListener{listen()}), "without TLS")
	_, err = relay.New(relay.Deps{}, relay.Options{})
	require.ErrorContains(t, err, "required")
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestRelay_logs_refusals_without_secrets(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	w := newEnv(t, setup{logger: slog.New(slog.NewTextHandler(&out, nil))})
	_, err := w.as(t, "a").TerminateWorkflowExecution(callContext(t), &workflowservice.TerminateWorkflowExecutionRequest{Reason: "hunter2"})
	requireCode(t, codes.PermissionDenied, err)
	_, err = w.as(t, "hunter2").GetSystemInfo(callContext(t), &workflowservice.GetSystemInfoRequest{})
	requireCode(t, codes.Unauthenticated, err)
	require.Contains(t, out.String(), "call=TerminateWorkflowExecution token=a")
	require.NotContains(t, out.String(), "hunter2")
	expect := `# HELP drover_relay_calls_total Calls answered, by their name and the code of gRPC.
# TYPE drover_relay_calls_total counter
drover_relay_calls_total{call="GetSystemInfo",code="Unauthenticated"} 1
drover_relay_calls_total{call="other",code="PermissionDenied"} 1
`
	require.NoError(t, testutil.GatherAndCompare(w.registry, bytes.NewBufferString(expect), "drover_relay_calls_total"))
}
