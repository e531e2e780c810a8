package relay

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// withClaimProof returns the input of a task with the claim proof, which the
// executor needs to claim the key at the gateway. An untrusted executor thus
// gets only definitions of tasks that were handed to it, even if it guesses
// keys. Input of other activities stays unchanged.
func (s *service) withClaimProof(c caller, task *workflowservice.PollActivityTaskQueueResponse) *commonpb.Payloads {
	in := task.GetInput()
	if task.GetActivityType().GetName() != contract.ActivityExecuteTask || len(in.GetPayloads()) != 1 {
		return in
	}
	payload := in.GetPayloads()[0]
	if string(payload.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON {
		return in
	}
	// The input of a newer workflow may have more fields than this relay knows.
	var fields map[string]json.RawMessage
	var key run.Key
	if json.Unmarshal(payload.GetData(), &fields) != nil || json.Unmarshal(fields[contract.ExecuteInputKey], &key) != nil {
		return in
	}
	proof, err := json.Marshal(s.keys.ClaimProof(c.owner(), key))
	if err != nil {
		return in
	}
	fields[contract.ExecuteInputClaimProof] = proof
	data, err := json.Marshal(fields)
	if err != nil {
		return in
	}
	payload.Data = data
	return in
}
