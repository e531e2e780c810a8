package relay_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/drover-run/drover/internal/tokens"
)

// admitted repeats the list of the relay on purpose: an additional call must be
// added in both places.
func admitted() []string {
	return []string{
		"DescribeNamespace", "GetSystemInfo", "PollActivityTaskQueue", "RecordActivityTaskHeartbeat", "RecordWorkerHeartbeat",
		"RespondActivityTaskCanceled", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "ShutdownWorker",
	}
}

// fill sets every text and message field, so that no request fails because a
// field is empty.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList() || f.IsMap() || f.ContainingOneof() != nil:
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("drover"))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte("token")))
		case f.Kind() == protoreflect.MessageKind && depth > 0:
			fill(m.Mutable(f).Message(), depth-1)
		}
	}
}

// TestRelay_admits_nothing_else makes every call of Temporal's API with the
// credential of an executor. Calls that executors do not need never reach
// Temporal.
func TestRelay_admits_nothing_else(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	conn := connect(t, w.listener, nil, "a")
	files := []protoreflect.FileDescriptor{
		workflowservice.File_temporal_api_workflowservice_v1_service_proto, operatorservice.File_temporal_api_operatorservice_v1_service_proto,
	}
	seen := map[string]bool{}
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				name := string(method.Name())
				seen[name] = true
				if slices.Contains(admitted(), name) && service.Name() == "WorkflowService" {
					continue
				}
				for _, depth := range []int{-1, 3} {
					request := dynamicpb.NewMessage(method.Input())
					if depth >= 0 {
						fill(request, depth)
					}
					err := conn.Invoke(callContext(t), "/"+string(service.FullName())+"/"+name, request, dynamicpb.NewMessage(method.Output()))
					requireCode(t, codes.PermissionDenied, err, name)
					require.Contains(t, status.Convert(err).Message(), "does not admit "+name)
				}
			}
		}
	}
	require.Greater(t, len(seen), 100)
	for _, name := range append(admitted(), "StartWorkflowExecution", "SignalWorkflowExecution", "TerminateWorkflowExecution", "QueryWorkflow",
		"ListWorkflowExecutions", "GetWorkflowExecutionHistory", "RespondActivityTaskCompletedById", "RecordActivityTaskHeartbeatById",
		"PollWorkflowTaskQueue", "DescribeTaskQueue") {
		require.True(t, seen[name], name)
	}
	require.Empty(t, w.temporal.takeCalls())
}

// TestRelay_unknown_services calls services that no file of Temporal's API
// describes.
func TestRelay_unknown_services(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	for token, code := range map[string]codes.Code{"a": codes.PermissionDenied, "": codes.Unauthenticated} {
		conn := connect(t, w.listener, nil, token)
		for _, method := range []string{
			"/temporal.api.workflowservice.v1.WorkflowService/Tomorrow", "/temporal.server.api.adminservice.v1.AdminService/DescribeHost",
			"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/x/PollActivityTaskQueue", "/x/y",
		} {
			err := conn.Invoke(callContext(t), method, &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
			requireCode(t, code, err, method)
		}
	}
	require.Empty(t, w.temporal.takeCalls())
}

func TestRelay_tokens(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	for token, code := range map[string]codes.Code{
		"": codes.Unauthenticated, "unknown": codes.Unauthenticated,
		"read": codes.PermissionDenied, "write": codes.PermissionDenied,
		"admin": codes.PermissionDenied, "executor": codes.PermissionDenied, // not bound
		"poolless": codes.PermissionDenied,
		"a":        codes.OK,
	} {
		_, err := w.as(t, token).GetSystemInfo(callContext(t), &workflowservice.GetSystemInfoRequest{})
		requireCode(t, code, err, token)
		_, err = w.as(t, token).TerminateWorkflowExecution(callContext(t), &workflowservice.TerminateWorkflowExecutionRequest{})
		if code == codes.OK {
			code = codes.PermissionDenied
		}
		requireCode(t, code, err, token)
	}
	require.Len(t, w.temporal.takeCalls(), 1)
}

func TestRelay_health_needs_no_token(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	client := healthpb.NewHealthClient(connect(t, w.listener, nil, ""))
	for _, service := range []string{"", workflowservice.WorkflowService_ServiceDesc.ServiceName} {
		answer, err := client.Check(callContext(t), &healthpb.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, answer.GetStatus())
	}
	stream, err := client.Watch(callContext(t), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	requireCode(t, codes.Unauthenticated, err, "a stream needs a token")
}

// TestRelay_polls_its_own_queues polls each queue with each credential.
func TestRelay_polls_its_own_queues(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	labels := "labels:" + strings.Repeat("0", 32) + ":linux"
	queues := []string{
		"pool:linux", "pool:gpu", "pool:", "executor:a", "executor:b", "executor:", "executor:s-1", "executor:s-9", "executor:s-", "set:s", "set:t", "set:",
		labels, "labels:" + strings.Repeat("0", 32) + ":gpu", "labels::linux", "labels:linux", "labels:x:linux", labels + "/1",
		"control", "fleet:x", "", "linux", "/_sys/pool:linux/1", "pool:linux/1", "executor:s-1/../b", "executor:a ",
	}
	for token, own := range map[string][]string{
		"a":   {"pool:linux", labels, "executor:a"},
		"b":   {"pool:gpu", "labels:" + strings.Repeat("0", 32) + ":gpu", "executor:b"},
		"s-1": {"pool:linux", labels, "executor:s-1", "set:s"},
		"s-2": {"pool:linux", labels, "executor:s-1", "executor:s-9", "set:s"}, // bound to s-*
	} {
		client := w.as(t, token)
		for _, queue := range queues {
			_, err := client.PollActivityTaskQueue(callContext(t), pollOf(queue))
			asked := w.temporal.takeCalls()
			shutdown := &workflowservice.ShutdownWorkerRequest{TaskQueue: queue, WorkerInstanceKey: "i"}
			_, shutdownErr := client.ShutdownWorker(callContext(t), shutdown)
			if slices.Contains(own, queue) {
				require.NoError(t, err, "%s %s", token, queue)
				require.NoError(t, shutdownErr)
				require.Len(t, asked, 1)
				require.Len(t, w.temporal.takeCalls(), 1)
				continue
			}
			requireCode(t, codes.PermissionDenied, err, token, queue)
			require.Empty(t, asked)
			require.Empty(t, w.temporal.takeCalls())
			require.True(t, queue == "" || status.Code(shutdownErr) == codes.PermissionDenied)
		}
	}
}

// TestRelay_task_tokens_belong_to_their_owner makes every call that
// has a task token, with every kind of token that was not issued to the caller.
func TestRelay_task_tokens_belong_to_their_owner(t *testing.T) {
	t.Parallel()
	keys := someKeys(t)
	w := newEnv(t, setup{keys: keys})
	token := w.taskOf(t, "a", "pool:linux")
	require.NotEqual(t, []byte("raw"), token)
	ofSet := w.taskOf(t, "s-1", "pool:linux")
	altered := slices.Clone(token)
	altered[len(altered)-1] ^= 1
	otherRelay := newEnv(t, setup{})
	w.temporal.takeCalls()

	forged, err := tokens.ParseKeys(tokens.NewKey())
	require.NoError(t, err)
	for about, c := range map[string]struct {
		as    string
		token []byte
		good  bool
	}{
		"its own":            {"a", token, true},
		"another executor's": {"b", token, false},
		"a set's":            {"a", ofSet, false},
		"of its set":         {"s-1", ofSet, true},
		"a sibling's":        {"s-2", ofSet, true},
		"another set's":      {"t-1", ofSet, false},
		"an executor's":      {"s-1", token, false},
		"altered":            {"a", altered, false},
		"cut":                {"a", token[:len(token)-1], false},
		"empty":              {"a", nil, false},
		"temporal's own":     {"a", []byte("raw"), false},
		"forged":             {"a", forged.Wrap("drover", "executor:a", []byte("raw")), false},
		"of other relays":    {"a", otherRelay.taskOf(t, "a", "pool:linux"), false},
		"another namespace":  {"a", keys.Wrap("default", "executor:a", []byte("raw")), false},
	} {
		client := w.as(t, c.as)
		for name, err := range answers(t, client, c.token) {
			asked := w.temporal.takeCalls()
			if !c.good {
				requireCode(t, codes.NotFound, err, about, name)
				require.Empty(t, asked)
				continue
			}
			require.NoError(t, err, "%s %s", about, name)
			require.Len(t, asked, 1)
			m := asked[0].request.(proto.Message).ProtoReflect()
			got := m.Get(m.Descriptor().Fields().ByName("task_token")).Bytes()
			require.Equal(t, "raw", string(got))
		}
	}
}

// answers makes every call that has a task token, one after the other.
func answers(t *testing.T, c workflowservice.WorkflowServiceClient, token []byte) func(yield func(string, error) bool) {
	t.Helper()
	return func(yield func(string, error) bool) {
		_, err := c.RecordActivityTaskHeartbeat(callContext(t), heartbeatOf(token))
		if !yield("heartbeat", err) {
			return
		}
		_, err = c.RespondActivityTaskCompleted(callContext(t), &workflowservice.RespondActivityTaskCompletedRequest{TaskToken: token})
		if !yield("completed", err) {
			return
		}
		_, err = c.RespondActivityTaskFailed(callContext(t), &workflowservice.RespondActivityTaskFailedRequest{TaskToken: token})
		if !yield("failed", err) {
			return
		}
		_, err = c.RespondActivityTaskCanceled(callContext(t), &workflowservice.RespondActivityTaskCanceledRequest{TaskToken: token})
		yield("canceled", err)
	}
}

func TestRelay_large_messages(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	token := w.taskOf(t, "a", "pool:linux")
	w.temporal.takeCalls()
	client := w.as(t, "a")
	huge := string(make([]byte, 2<<20))
	for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} { // the second is a decompression bomb
		_, err := client.RespondActivityTaskCompleted(callContext(t), &workflowservice.RespondActivityTaskCompletedRequest{
			TaskToken: token, Result: payloads(huge),
		}, opts...)
		requireCode(t, codes.ResourceExhausted, err)
	}
	heartbeat := heartbeatOf(token)
	heartbeat.Details = payloads(huge[:5<<10])
	_, err := client.RecordActivityTaskHeartbeat(callContext(t), heartbeat)
	requireCode(t, codes.InvalidArgument, err)
	require.Empty(t, w.temporal.takeCalls())
}
