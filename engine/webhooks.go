package engine

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// Webhooks implements run.Webhooks. It is safe for concurrent use.
type Webhooks struct{ store records.Webhooks }

var _ run.Webhooks = (*Webhooks)(nil)

// NewWebhooks returns Webhooks. It does no I/O.
func NewWebhooks(store records.Webhooks) *Webhooks { return &Webhooks{store: store} }

// Webhooks implements run.Webhooks.
func (w *Webhooks) Webhooks(ctx context.Context) ([]run.Webhook, error) {
	return w.store.ListWebhooks(ctx)
}

// Webhook implements run.Webhooks.
func (w *Webhooks) Webhook(ctx context.Context, name string) (run.Webhook, error) {
	return w.store.GetWebhook(ctx, name)
}

// PutWebhook implements run.Webhooks.
func (w *Webhooks) PutWebhook(ctx context.Context, hook run.WebhookSpec) (_ run.Webhook, created bool, _ error) {
	if faults := spec.ValidateWebhook(hook); len(faults) > 0 {
		return run.Webhook{}, false, run.InvalidError("the webhook is not valid", faults)
	}
	return w.store.PutWebhook(ctx, hook)
}

// DeleteWebhook implements run.Webhooks.
func (w *Webhooks) DeleteWebhook(ctx context.Context, name string) error {
	return w.store.DeleteWebhook(ctx, name)
}

// TestWebhook implements run.Webhooks.
func (w *Webhooks) TestWebhook(ctx context.Context, name string) (run.Webhook, error) {
	return w.store.TestWebhook(ctx, name)
}
