package outbox

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
)

// SignalChangeGroup makes the change-group workflow grant slots. It starts the
// workflow if it does not run.
func SignalChangeGroup(ctx context.Context, starter Starter, name string) error {
	options := singleton(contract.ChangeGroupWorkflowID(name), "change group "+name)
	_, err := starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalGrant, nil, options,
		contract.ChangeGroupWorkflow, contract.ChangeGroupInput{Name: name})
	return err
}

// SignalExecutor makes the executor workflow check an executor. It starts the
// workflow if it does not run.
func SignalExecutor(ctx context.Context, starter Starter, id string) error {
	options := singleton(contract.ExecutorWorkflowID(id), "executor "+id)
	_, err := starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalExecutor, nil, options,
		contract.ExecutorWorkflow, contract.ExecutorInput{Executor: id})
	return err
}

// SignalFleet signals the fleet workflow. It starts the workflow if it does not
// run.
func SignalFleet(ctx context.Context, starter Starter, name string) error {
	options := singleton(contract.FleetWorkflowID(name), "fleet "+name)
	_, err := starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalFleet, nil, options,
		contract.FleetWorkflow, contract.FleetInput{Fleet: name})
	return err
}

// signalWebhook signals the webhook workflow. It starts the workflow if it does
// not run. The workflow ends by itself when no delivery is due.
func signalWebhook(ctx context.Context, starter Starter, name string) error {
	_, err := starter.SignalWithStartWorkflow(ctx, contract.WebhookWorkflowID(name), contract.SignalWebhook, nil,
		webhookOptions(name), contract.WebhookWorkflow, contract.WebhookInput{Name: name})
	return err
}

// StartWebhook starts the webhook workflow if it does not run.
func StartWebhook(ctx context.Context, starter Starter, name string) error {
	_, err := starter.ExecuteWorkflow(ctx, webhookOptions(name), contract.WebhookWorkflow, contract.WebhookInput{Name: name})
	return err
}

// webhookOptions returns the options for every start of a webhook workflow.
func webhookOptions(name string) client.StartWorkflowOptions {
	return singleton(contract.WebhookWorkflowID(name), "webhook "+name)
}

// singleton returns the options for every start of a workflow of which at most
// one runs, and which starts again after it has ended.
func singleton(id, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                contract.ControlQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            summary,
	}
}
