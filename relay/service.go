package relay

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/drover-run/drover/internal/tokens"
)

// maxHeartbeat bounds the details of a heartbeat. Those of Drover have at most
// 512 bytes, and Temporal keeps the last ones.
const maxHeartbeat = 4 << 10

// service forwards admitted calls. It rebuilds each request from the fields
// that an executor needs, so no other field of a client reaches Temporal.
// Otherwise a poll could set a rate limit on a queue for all pollers, or name a
// worker version that does not exist.
type service struct {
	workflowservice.UnimplementedWorkflowServiceServer

	temporal  workflowservice.WorkflowServiceClient
	keys      *tokens.Keys
	admission *admission
	namespace string
	metrics   *metrics
}

// GetSystemInfo implements workflowservice.WorkflowServiceServer.
func (s *service) GetSystemInfo(
	ctx context.Context, _ *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	out, err := s.temporal.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return &workflowservice.GetSystemInfoResponse{Capabilities: out.GetCapabilities()}, nil
}

// DescribeNamespace implements workflowservice.WorkflowServiceServer. It
// returns only those capabilities of the namespace that the relay supports.
func (s *service) DescribeNamespace(
	ctx context.Context, _ *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	out, err := s.temporal.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.namespace})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	info := out.GetNamespaceInfo()
	return &workflowservice.DescribeNamespaceResponse{NamespaceInfo: &namespacepb.NamespaceInfo{
		Name: s.namespace, State: info.GetState(), Limits: info.GetLimits(),
		Capabilities: &namespacepb.NamespaceInfo_Capabilities{
			WorkerPollCompleteOnShutdown: info.GetCapabilities().GetWorkerPollCompleteOnShutdown(),
		},
	}}, nil
}

// PollActivityTaskQueue implements workflowservice.WorkflowServiceServer.
func (s *service) PollActivityTaskQueue(
	ctx context.Context, in *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	c := callerOf(ctx)
	name := in.GetTaskQueue().GetName()
	kind, ok := c.queue(name)
	if !ok {
		return nil, status.Errorf(codes.PermissionDenied, "token %[2]s may not use queue %[1]q", name, c.name)
	}
	out, err := s.temporal.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
		Namespace: s.namespace,
		TaskQueue: &taskqueuepb.TaskQueue{Name: name, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Identity:  c.identity(in.GetIdentity()), WorkerInstanceKey: c.instance(in.GetWorkerInstanceKey()),
	})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if len(out.GetTaskToken()) == 0 {
		return &workflowservice.PollActivityTaskQueueResponse{}, nil
	}
	s.metrics.tasks.WithLabelValues(kind).Inc()
	task, _ := proto.Clone(out).(*workflowservice.PollActivityTaskQueueResponse)
	task.TaskToken = s.keys.Wrap(s.namespace, c.owner(), out.GetTaskToken())
	task.Input = s.withClaimProof(c, task)
	// How Temporal distributes polls concerns only the relay.
	task.PollerScalingDecision, task.PollerGroupsInfo = nil, nil
	task.PollerGroupInfos = nil //nolint:staticcheck // deprecated, but still sent
	return task, nil
}

// RecordActivityTaskHeartbeat implements workflowservice.WorkflowServiceServer.
func (s *service) RecordActivityTaskHeartbeat(
	ctx context.Context, in *workflowservice.RecordActivityTaskHeartbeatRequest,
) (*workflowservice.RecordActivityTaskHeartbeatResponse, error) {
	token, err := s.token(ctx, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	details, err := heartbeat(in.GetDetails())
	if err != nil {
		return nil, s.badPayload(ctx, err)
	}
	out, err := s.temporal.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: s.namespace, TaskToken: token, Details: details, Identity: callerOf(ctx).identity(in.GetIdentity()),
	})
	return out, s.failed(ctx, err)
}

// RespondActivityTaskCompleted implements workflowservice.WorkflowServiceServer.
func (s *service) RespondActivityTaskCompleted(
	ctx context.Context, in *workflowservice.RespondActivityTaskCompletedRequest,
) (*workflowservice.RespondActivityTaskCompletedResponse, error) {
	token, err := s.token(ctx, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	result, err := plainPayloads(in.GetResult())
	if err != nil {
		return nil, s.badPayload(ctx, err)
	}
	out, err := s.temporal.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: s.namespace, TaskToken: token, Result: result, Identity: callerOf(ctx).identity(in.GetIdentity()),
	})
	return out, s.failed(ctx, err)
}

// RespondActivityTaskFailed implements workflowservice.WorkflowServiceServer.
func (s *service) RespondActivityTaskFailed(
	ctx context.Context, in *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	token, err := s.token(ctx, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	last, err := heartbeat(in.GetLastHeartbeatDetails())
	if err != nil {
		return nil, s.badPayload(ctx, err)
	}
	failure, err := plainFailure(in.GetFailure())
	if err != nil {
		return nil, s.badPayload(ctx, err)
	}
	out, err := s.temporal.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: s.namespace, TaskToken: token, Failure: failure, LastHeartbeatDetails: last,
		Identity: callerOf(ctx).identity(in.GetIdentity()),
	})
	return out, s.failed(ctx, err)
}

// RespondActivityTaskCanceled implements workflowservice.WorkflowServiceServer.
func (s *service) RespondActivityTaskCanceled(
	ctx context.Context, in *workflowservice.RespondActivityTaskCanceledRequest,
) (*workflowservice.RespondActivityTaskCanceledResponse, error) {
	token, err := s.token(ctx, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	details, err := plainPayloads(in.GetDetails())
	if err != nil {
		return nil, s.badPayload(ctx, err)
	}
	out, err := s.temporal.RespondActivityTaskCanceled(ctx, &workflowservice.RespondActivityTaskCanceledRequest{
		Namespace: s.namespace, TaskToken: token, Details: details, Identity: callerOf(ctx).identity(in.GetIdentity()),
	})
	return out, s.failed(ctx, err)
}

// ShutdownWorker implements workflowservice.WorkflowServiceServer. It ends the
// polls of a stopping process without losing a task.
func (s *service) ShutdownWorker(
	ctx context.Context, in *workflowservice.ShutdownWorkerRequest,
) (*workflowservice.ShutdownWorkerResponse, error) {
	c := callerOf(ctx)
	if in.GetTaskQueue() == "" || in.GetWorkerInstanceKey() == "" {
		return &workflowservice.ShutdownWorkerResponse{}, nil // no executor's poll to end
	}
	if _, ok := c.queue(in.GetTaskQueue()); !ok {
		return nil, status.Errorf(codes.PermissionDenied, "token %[2]s may not use queue %[1]q", in.GetTaskQueue(), c.name)
	}
	_, err := s.temporal.ShutdownWorker(ctx, &workflowservice.ShutdownWorkerRequest{
		Namespace: s.namespace, Identity: c.identity(in.GetIdentity()), Reason: "the executor stops",
		WorkerInstanceKey: c.instance(in.GetWorkerInstanceKey()),
		TaskQueue:         in.GetTaskQueue(), TaskQueueTypes: []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_ACTIVITY},
	})
	return &workflowservice.ShutdownWorkerResponse{}, s.failed(ctx, err)
}

// RecordWorkerHeartbeat implements workflowservice.WorkflowServiceServer. It
// drops the heartbeat, since an executor could send one for another process.
func (s *service) RecordWorkerHeartbeat(
	context.Context, *workflowservice.RecordWorkerHeartbeatRequest,
) (*workflowservice.RecordWorkerHeartbeatResponse, error) {
	return &workflowservice.RecordWorkerHeartbeatResponse{}, nil
}

// token unwraps a task token that a relay issued to the caller. For every other
// token it returns NotFound, like Temporal: the executor then waits until the
// workflow asks about the task again.
func (s *service) token(ctx context.Context, from []byte) ([]byte, error) {
	c := callerOf(ctx)
	token, err := s.keys.Unwrap(s.namespace, c.owner(), from)
	if err != nil {
		s.metrics.badTokens.Inc()
		err := status.Errorf(codes.NotFound, "the task token was not handed to %s by a relay", c.owner())
		s.admission.logRefusal(ctx, "a task token", c, err)
		return nil, err
	}
	return token, nil
}

// badPayload logs the refusal of a payload, and returns it.
func (s *service) badPayload(ctx context.Context, err error) error {
	s.admission.logRefusal(ctx, "a payload", callerOf(ctx), err)
	return err
}

// failed converts an error of Temporal into a gRPC status.
func (s *service) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopping):
		return status.Error(codes.Unavailable, errStopping.Error())
	case errors.Is(cause, errRevoked):
		return status.Error(codes.Unauthenticated, errRevoked.Error())
	}
	st := serviceerror.ToStatus(err)
	if st.Code() == codes.Unauthenticated || st.Code() == codes.PermissionDenied {
		// Temporal refused the relay's credential, not the executor's.
		return status.Error(codes.Unavailable, "temporal refused the relay's credential")
	}
	return st.Err()
}
