package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
)

// The WebhookSupervisor checks soon after a failure, and rarely otherwise.
const (
	keepRetry = 5 * time.Second
	keepEvery = time.Hour
)

// Keeper makes sure that every enabled webhook has its workflow. The outbox
// starts the workflow, but it may have been terminated since.
type Keeper struct {
	store   records.Store
	starter Starter
	logger  *slog.Logger
}

// NewKeeper returns a WebhookSupervisor that does nothing until Run.
func NewKeeper(deps Deps, starter Starter) *Keeper {
	return &Keeper{store: deps.Store, starter: starter, logger: deps.Logger}
}

// Run checks immediately, and then every hour until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := keepEvery
		if err := k.once(ctx); err != nil && ctx.Err() == nil {
			k.logger.WarnContext(ctx, "failed to start webhook workflows", "retry_in", keepRetry, "error", err)
			next = keepRetry
		}
		timer.Reset(next)
	}
}

func (k *Keeper) once(ctx context.Context) error {
	all, err := k.store.ListWebhooks(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if !w.Enabled {
			continue
		}
		if err := k.start(ctx, w.Name); err != nil {
			return err
		}
	}
	return nil
}

// start starts the workflow of a webhook if it does not run.
func (k *Keeper) start(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	_, err := k.starter.ExecuteWorkflow(ctx, webhookOptions(name), contract.WebhookWorkflow, contract.WebhookInput{Name: name})
	return err
}

// webhookOptions returns the options for every start of a webhook workflow.
func webhookOptions(name string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       contract.WebhookWorkflowID(name),
		TaskQueue:                contract.ControlQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "events to " + name,
	}
}
