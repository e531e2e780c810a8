package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// ScheduledRun is the workflow that fires a schedule once. It fails if the run
// cannot be created, and if the run fails. A cancellation stops the run, and
// the workflow ends as cancelled once the run has ended.
func ScheduledRun(ctx workflow.Context, in contract.ScheduledRunInput) (contract.ScheduledRunOutput, error) {
	// An operation that has begun completes, also when the workflow is
	// cancelled.
	detached, _ := workflow.NewDisconnectedContext(ctx)
	info := workflow.GetInfo(ctx)
	f := firing{schedule: in.Schedule}
	fired, err := f.fire(detached, contract.FireInput{
		Schedule:     in.Schedule,
		Key:          contract.FiringKey(info.WorkflowExecution.ID, info.FirstRunID),
		ScheduledFor: scheduledFor(ctx),
		Started:      info.WorkflowStartTime,
	})
	switch {
	case err != nil:
		return contract.ScheduledRunOutput{}, err
	case fired.Refused != "":
		return contract.ScheduledRunOutput{}, temporal.NewNonRetryableApplicationError(fired.Refused, contract.ErrorNotCreated, nil)
	case fired.Run == "":
		return contract.ScheduledRunOutput{}, nil
	}
	end, err := f.await(ctx, fired.Run)
	if ctx.Err() != nil {
		if err := f.end(detached, fired.Run); err != nil {
			return contract.ScheduledRunOutput{}, err
		}
		if _, err := f.await(detached, fired.Run); err != nil {
			return contract.ScheduledRunOutput{}, err
		}
		return contract.ScheduledRunOutput{}, ctx.Err()
	}
	if err != nil {
		return contract.ScheduledRunOutput{}, err
	}
	if end.Result == run.ResultFailed || end.Phase == run.PhaseSetupError {
		message := "run " + string(fired.Run) + " failed"
		if end.Reason != "" {
			message += ": " + end.Reason
		}
		return contract.ScheduledRunOutput{}, runFailed(message)
	}
	return contract.ScheduledRunOutput{Run: fired.Run, Phase: end.Phase, Result: end.Result}, nil
}

// scheduledFor returns the time that this execution was scheduled for.
func scheduledFor(ctx workflow.Context) time.Time {
	key := temporal.NewSearchAttributeKeyTime(contract.AttributeScheduledFor)
	if at, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(key); ok {
		return at
	}
	return workflow.GetInfo(ctx).WorkflowStartTime
}
