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
func (s *RetentionSupervisor) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	do := s.configure
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		switch err := s.call(ctx, do); {
		case err == nil:
			do = s.ensure
			timer.Reset(superviseInterval)
		case ctx.Err() == nil:
			s.logger.WarnContext(ctx, "failed to supervise the retention workflow", "retry_in", superviseRetry, "error", err)
			timer.Reset(superviseRetry)
		}
	}
}

func (s *RetentionSupervisor) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, outbox.CallTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	return do(ctx)
}

// configure sends the settings to the workflow. It starts the workflow if it
// does not run.
func (s *RetentionSupervisor) configure(ctx context.Context) error {
	if s.retention.Off() {
		err := s.client.SignalWorkflow(ctx, contract.RetentionWorkflowID, "", contract.SignalRetention, s.retention)
		if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
			return nil
		}
		return err
	}
	_, err := s.client.SignalWithStartWorkflow(ctx, contract.RetentionWorkflowID, contract.SignalRetention, s.retention,
		retentionOptions(), contract.RetentionWorkflow, contract.RetentionInput{Retention: s.retention})
	return err
}

// ensure starts the workflow if it was terminated. It does not send the
// settings again: another process may have newer ones by now.
func (s *RetentionSupervisor) ensure(ctx context.Context) error {
	if s.retention.Off() {
		return nil
	}
	_, err := s.client.ExecuteWorkflow(ctx, retentionOptions(), contract.RetentionWorkflow, contract.RetentionInput{Retention: s.retention})
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
