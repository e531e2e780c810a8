package relay

import (
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxCauses bounds the chain of causes of a failure. The message of a failure
// already contains the messages of its causes.
const maxCauses = 16

// plainPayloads returns payloads rebuilt from their data. It admits JSON only,
// which is all that an executor sends: a payload that claims to be encrypted
// would make each control worker that loads its workflow fail, and a payload of
// another encoding is decoded by code that no executor needs.
func plainPayloads(in *commonpb.Payloads) (*commonpb.Payloads, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // no payloads are valid
	}
	out := &commonpb.Payloads{Payloads: make([]*commonpb.Payload, 0, len(in.GetPayloads()))}
	for _, p := range in.GetPayloads() {
		if encoding := string(p.GetMetadata()[converter.MetadataEncoding]); encoding != converter.MetadataEncodingJSON {
			return nil, status.Errorf(codes.InvalidArgument, "the relay admits payloads of the encoding %s only, not %.40q",
				converter.MetadataEncodingJSON, encoding)
		}
		out.Payloads = append(out.Payloads, &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)},
			Data:     p.GetData(),
		})
	}
	return out, nil
}

// plainFailure returns a failure rebuilt from its message, its stack trace, and
// the type and details of an application failure. An executor returns no other
// kind: only the server decides that an activity timed out or was canceled, so
// any other kind becomes an application failure with the same message.
func plainFailure(in *failurepb.Failure) (*failurepb.Failure, error) {
	return plainCause(in, maxCauses)
}

func plainCause(in *failurepb.Failure, causes int) (*failurepb.Failure, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // no failure is valid
	}
	out := &failurepb.Failure{Message: in.GetMessage(), Source: in.GetSource(), StackTrace: in.GetStackTrace()}
	info := in.GetApplicationFailureInfo()
	details, err := plainPayloads(info.GetDetails())
	if err != nil {
		return nil, err
	}
	out.FailureInfo = &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
		Type: info.GetType(), NonRetryable: info.GetNonRetryable(), Category: info.GetCategory(), Details: details,
	}}
	if causes > 0 {
		if out.Cause, err = plainCause(in.GetCause(), causes-1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// heartbeat returns the details of a heartbeat, rebuilt and bounded in size.
func heartbeat(details *commonpb.Payloads) (*commonpb.Payloads, error) {
	if size := proto.Size(details); size > maxHeartbeat {
		return nil, status.Errorf(codes.InvalidArgument, "the details of the heartbeat have %d bytes; %d are allowed", size, maxHeartbeat)
	}
	return plainPayloads(details)
}
