package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/engine/outbox"
	"github.com/drover-run/drover/run"
)

// The WebhookSupervisor checks soon after a failure, and rarely otherwise.
const (
	superviseRetry    = 5 * time.Second
	superviseInterval = time.Hour
)

// WebhookLister is the part of the records that a WebhookSupervisor uses.
type WebhookLister interface {
	ListWebhooks(ctx context.Context) ([]run.Webhook, error)
}

// WebhookSupervisor makes sure that every enabled webhook has its workflow. The outbox
// starts the workflow, but it may have been terminated since.
type WebhookSupervisor struct {
	store   WebhookLister
	starter outbox.Starter
	logger  *slog.Logger
}

// NewWebhookSupervisor returns a WebhookSupervisor that does nothing until Run.
func NewWebhookSupervisor(store WebhookLister, starter outbox.Starter, logger *slog.Logger) *WebhookSupervisor {
	return &WebhookSupervisor{store: store, starter: starter, logger: logger}
}

// Run checks immediately, and then every hour until ctx ends.
func (s *WebhookSupervisor) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := superviseInterval
		if err := s.startAll(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "failed to start webhook workflows", "retry_in", superviseRetry, "error", err)
			next = superviseRetry
		}
		timer.Reset(next)
	}
}

func (s *WebhookSupervisor) startAll(ctx context.Context) error {
	all, err := s.store.ListWebhooks(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if !w.Enabled {
			continue
		}
		if err := s.start(ctx, w.Name); err != nil {
			return err
		}
	}
	return nil
}

// start starts the workflow of a webhook if it does not run.
func (s *WebhookSupervisor) start(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, outbox.CallTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	return outbox.StartWebhook(ctx, s.starter, name)
}
