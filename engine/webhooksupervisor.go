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
	superviseRetry    = 5 * time.Second
	superviseInterval = time.Hour
)

// WebhookSupervisor makes sure that every enabled webhook has its workflow. The outbox
// starts the workflow, but it may have been terminated since.
type WebhookSupervisor struct {
	store   records.Store
	starter Starter
	logger  *slog.Logger
}

// NewWebhookSupervisor returns a WebhookSupervisor that does nothing until Run.
func NewWebhookSupervisor(deps Deps, starter Starter) *WebhookSupervisor {
	return &WebhookSupervisor{store: deps.Store, starter: starter, logger: deps.Logger}
}

// Run checks immediately, and then every hour until ctx ends.
func (k *WebhookSupervisor) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := superviseInterval
		if err := k.startAll(ctx); err != nil && ctx.Err() == nil {
			k.logger.WarnContext(ctx, "failed to start webhook workflows", "retry_in", superviseRetry, "error", err)
			next = superviseRetry
		}
		timer.Reset(next)
	}
}

func (k *WebhookSupervisor) startAll(ctx context.Context) error {
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
func (k *WebhookSupervisor) start(ctx context.Context, name string) error {
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
