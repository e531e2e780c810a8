package engine

import (
	"context"

	"github.com/drover-run/drover/run"
)

var _ run.Webhooks = (*Engine)(nil)

// Webhooks implements run.Webhooks.
func (e *Engine) Webhooks(ctx context.Context) ([]run.Webhook, error) {
	return e.store.ListWebhooks(ctx)
}

// Webhook implements run.Webhooks.
func (e *Engine) Webhook(ctx context.Context, name string) (run.Webhook, error) {
	return e.store.GetWebhook(ctx, name)
}

// PutWebhook implements run.Webhooks.
func (e *Engine) PutWebhook(ctx context.Context, w run.WebhookSpec) (_ run.Webhook, created bool, _ error) {
	if faults := run.ValidateWebhook(w); len(faults) > 0 {
		return run.Webhook{}, false, run.InvalidError("the webhook is not valid", faults)
	}
	return e.store.PutWebhook(ctx, w)
}

// DeleteWebhook implements run.Webhooks.
func (e *Engine) DeleteWebhook(ctx context.Context, name string) error {
	return e.store.DeleteWebhook(ctx, name)
}
