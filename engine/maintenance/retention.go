package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine/outbox"
	"github.com/drover-run/drover/run"
)

// RetentionClient is the part of a Temporal client that a RetentionSupervisor
// uses.
type RetentionClient interface {
	outbox.Starter
	SignalWorkflow(ctx context.Context, workflowID, runID, signal string, arg any) error
}

// RetentionSupervisor sends this process's retention settings to the retention
// workflow, and makes sure that the workflow runs. If everything is kept, there
// is no workflow: one that runs is signalled once, and ends.
type RetentionSupervisor struct {
	retention run.Retention
	client    RetentionClient
	logger    *slog.Logger
}

// NewRetentionSupervisor returns a RetentionSupervisor that does nothing until Run.
func NewRetentionSupervisor(c RetentionClient, r run.Retention, logger *slog.Logger) *RetentionSupervisor {
	return &RetentionSupervisor{retention: r, client: c, logger: logger}
}

// Run signals the workflow immediately, and then checks every hour that it
// runs, until ctx ends.
func (k *RetentionSupervisor) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	do := k.configure
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		switch err := k.call(ctx, do); {
		case err == nil:
			do = k.ensure
			timer.Reset(superviseInterval)
		case ctx.Err() == nil:
			k.logger.WarnContext(ctx, "failed to supervise the retention workflow", "retry_in", superviseRetry, "error", err)
			timer.Reset(superviseRetry)
		}
	}
}

func (k *RetentionSupervisor) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, outbox.CallTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	return do(ctx)
}

// configure sends the settings to the workflow. It starts the workflow if it
// does not run.
func (k *RetentionSupervisor) configure(ctx context.Context) error {
	if k.retention.Off() {
		err := k.client.SignalWorkflow(ctx, contract.RetentionWorkflowID, "", contract.SignalRetention, k.retention)
		if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
			return nil
		}
		return err
	}
	_, err := k.client.SignalWithStartWorkflow(ctx, contract.RetentionWorkflowID, contract.SignalRetention, k.retention,
		retentionOptions(), contract.RetentionWorkflow, contract.RetentionInput{Retention: k.retention})
	return err
}

// ensure starts the workflow if it was terminated. It does not send the
// settings again: another process may have newer ones by now.
func (k *RetentionSupervisor) ensure(ctx context.Context) error {
	if k.retention.Off() {
		return nil
	}
	_, err := k.client.ExecuteWorkflow(ctx, retentionOptions(), contract.RetentionWorkflow, contract.RetentionInput{Retention: k.retention})
	return err
}

func retentionOptions() client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       contract.RetentionWorkflowID,
		TaskQueue:                contract.ControlQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "removal of expired data",
	}
}
