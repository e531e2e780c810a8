package engine

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
)

// signalExecutor makes the executor workflow check an executor. It starts the
// workflow if it does not run.
func signalExecutor(ctx context.Context, starter Starter, id string) error {
	options := client.StartWorkflowOptions{
		ID:                       contract.ExecutorWorkflowID(id),
		TaskQueue:                contract.ControlQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "looks after executor " + id,
	}
	_, err := starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalExecutor, nil, options,
		contract.ExecutorWorkflow, contract.ExecutorInput{Executor: id})
	return err
}
