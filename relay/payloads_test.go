package relay_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-run/drover/contract"
)

// payload returns a payload with an encoding and more metadata.
func payload(encoding, data string) *commonpb.Payload {
	return &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte(encoding), "encryption-key-id": []byte("k1"), "messageType": []byte("x.Y")},
		Data:     []byte(data),
		ExternalPayloads: []*commonpb.Payload_ExternalPayloadDetails{
			{SizeBytes: 7},
		},
	}
}

func application(details *commonpb.Payloads, cause *failurepb.Failure) *failurepb.Failure {
	return &failurepb.Failure{Message: "m", Cause: cause, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "t", Details: details},
	}}
}

// TestRelay_admits_plain_payloads_only sends payloads of other encodings in
// each field that has payloads. No control worker could load a workflow whose
// history contains a payload that claims to be encrypted.
func TestRelay_admits_plain_payloads_only(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	token := w.taskOf(t, "a", "pool:linux")
	client := w.as(t, "a")
	w.temporal.takeCalls()
	failed := func(f *failurepb.Failure, last *commonpb.Payloads) error {
		_, err := client.RespondActivityTaskFailed(callContext(t), &workflowservice.RespondActivityTaskFailedRequest{
			TaskToken: token, Failure: f, LastHeartbeatDetails: last,
		})
		return err
	}
	fields := map[string]func(*commonpb.Payloads) error{
		"result": func(p *commonpb.Payloads) error {
			_, err := client.RespondActivityTaskCompleted(callContext(t), &workflowservice.RespondActivityTaskCompletedRequest{TaskToken: token, Result: p})
			return err
		},
		"heartbeat": func(p *commonpb.Payloads) error {
			_, err := client.RecordActivityTaskHeartbeat(callContext(t), &workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: token, Details: p})
			return err
		},
		"cancellation": func(p *commonpb.Payloads) error {
			_, err := client.RespondActivityTaskCanceled(callContext(t), &workflowservice.RespondActivityTaskCanceledRequest{TaskToken: token, Details: p})
			return err
		},
		"last heartbeat": func(p *commonpb.Payloads) error { return failed(application(nil, nil), p) },
		"failure":        func(p *commonpb.Payloads) error { return failed(application(p, nil), nil) },
		"cause":          func(p *commonpb.Payloads) error { return failed(application(nil, application(p, nil)), nil) },
		"deep cause": func(p *commonpb.Payloads) error {
			return failed(application(nil, application(nil, application(nil, application(p, nil)))), nil)
		},
	}
	for field, send := range fields {
		for _, encoding := range []string{"binary/encrypted", "binary/plain", "binary/null", "binary/protobuf", "json/protobuf", "binary/zlib", ""} {
			err := send(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload("json/plain", "1"), payload(encoding, "x")}})
			require.Error(t, err, "%s %s", field, encoding)
			requireCode(t, codes.InvalidArgument, err, field, encoding)
			require.Empty(t, w.temporal.takeCalls(), "%s %s", field, encoding)
		}
		require.NoError(t, send(payloads("1")), field)
		require.Len(t, w.temporal.takeCalls(), 1, field)
	}
	_, err := client.RespondActivityTaskCompleted(callContext(t), &workflowservice.RespondActivityTaskCompletedRequest{
		TaskToken: token, Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{payload("json/plain", "1")}},
	})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(payloads("1"), w.temporal.takeCalls()[0].request.(*workflowservice.RespondActivityTaskCompletedRequest).GetResult(),
		protocmp.Transform()), "only the encoding and the data pass")
}

// TestRelay_rebuilds_failures sends failures with every field that a client can
// set.
func TestRelay_rebuilds_failures(t *testing.T) {
	t.Parallel()
	w := newEnv(t, setup{})
	token := w.taskOf(t, "a", "pool:linux")
	client := w.as(t, "a")
	rebuilt := func(f *failurepb.Failure) *failurepb.Failure {
		w.temporal.takeCalls()
		_, err := client.RespondActivityTaskFailed(callContext(t), &workflowservice.RespondActivityTaskFailedRequest{TaskToken: token, Failure: f})
		require.NoError(t, err)
		return w.temporal.takeCalls()[0].request.(*workflowservice.RespondActivityTaskFailedRequest).GetFailure()
	}
	plain := application(nil, nil)
	for about, c := range map[string]*failurepb.Failure{
		"timeout": {Message: "m", FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{
			TimeoutType: enumspb.TIMEOUT_TYPE_HEARTBEAT, LastHeartbeatDetails: &commonpb.Payloads{Payloads: []*commonpb.Payload{payload("binary/encrypted", "x")}},
		}}},
		"canceled": {Message: "m", FailureInfo: &failurepb.Failure_CanceledFailureInfo{CanceledFailureInfo: &failurepb.CanceledFailureInfo{
			Details: &commonpb.Payloads{Payloads: []*commonpb.Payload{payload("binary/encrypted", "x")}},
		}}},
		"reset": {Message: "m", FailureInfo: &failurepb.Failure_ResetWorkflowFailureInfo{ResetWorkflowFailureInfo: &failurepb.ResetWorkflowFailureInfo{
			LastHeartbeatDetails: &commonpb.Payloads{Payloads: []*commonpb.Payload{payload("binary/encrypted", "x")}},
		}}},
		"encoded attributes": {Message: "m", EncodedAttributes: payload("binary/encrypted", "x")},
		"terminated":         {Message: "m", FailureInfo: &failurepb.Failure_TerminatedFailureInfo{}},
	} {
		got := rebuilt(application(nil, c))
		want := application(nil, application(nil, nil))
		want.GetCause().GetApplicationFailureInfo().Type = ""
		require.Empty(t, cmp.Diff(want, got, protocmp.Transform()), about)
	}
	plain.GetApplicationFailureInfo().NextRetryDelay = durationpb.New(time.Hour)
	require.Empty(t, cmp.Diff(application(nil, nil), rebuilt(plain), protocmp.Transform()), "no executor may delay a retry")

	deep := application(nil, nil)
	for range 1000 {
		deep = application(nil, deep)
	}
	depth := 0
	for f := rebuilt(deep); f != nil; f = f.GetCause() {
		depth++
	}
	require.Equal(t, 17, depth)

	back := contract.Requeue{Executor: "a", Reason: "r"}
	ours := sdktemporal.GetDefaultFailureConverter().ErrorToFailure(sdktemporal.NewApplicationErrorWithOptions("requeued", contract.ErrorRequeued,
		sdktemporal.ApplicationErrorOptions{
			NonRetryable: true, Category: sdktemporal.ApplicationErrorCategoryBenign, Details: []any{back}, Cause: sdktemporal.NewApplicationError("c", "d"),
		}))
	require.Empty(t, cmp.Diff(ours, rebuilt(ours), protocmp.Transform()), "failures of executors stay unchanged")
	var got contract.Requeue
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(rebuilt(ours).GetApplicationFailureInfo().GetDetails(), &got))
	require.Equal(t, back, got)
}
