package test

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// workflowState is the state of a run's workflow in Temporal.
type workflowState struct {
	open   bool
	idle   bool
	events int // the length of its history, 0 if it was never started
}

// workflowOf returns the state of the workflow of a run.
func workflowOf(ctx context.Context, c client.Client, id string) (workflowState, error) {
	d, err := c.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run.ID(id)), "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return workflowState{}, nil
	}
	if err != nil {
		return workflowState{}, fmt.Errorf("describe the workflow of run %s: %w", id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	return workflowState{
		open:   info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		idle:   d.GetPendingWorkflowTask() == nil && len(d.GetPendingActivities()) == 0,
		events: int(info.GetHistoryLength()),
	}, nil
}
