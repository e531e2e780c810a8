package relay

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// withTicket returns the input of a task with the ticket that claims its key at
// the gateway: an executor that is not trusted gets the definitions of tasks
// that were handed to it, whatever keys it can think of. What is not the input
// of a task to execute stays as it is.
func (s *service) withTicket(c caller, task *workflowservice.PollActivityTaskQueueResponse) *commonpb.Payloads {
	in := task.GetInput()
	if task.GetActivityType().GetName() != contract.ActivityExecuteTask || len(in.GetPayloads()) != 1 {
		return in
	}
	payload := in.GetPayloads()[0]
	if string(payload.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON {
		return in
	}
	// A workflow that is newer than this relay may say more than it knows of.
	var fields map[string]json.RawMessage
	var key run.Key
	if json.Unmarshal(payload.GetData(), &fields) != nil || json.Unmarshal(fields[contract.ExecuteInputKey], &key) != nil {
		return in
	}
	ticket, err := json.Marshal(s.keys.Ticket(c.owner(), key))
	if err != nil {
		return in
	}
	fields[contract.ExecuteInputTicket] = ticket
	data, err := json.Marshal(fields)
	if err != nil {
		return in
	}
	payload.Data = data
	return in
}
