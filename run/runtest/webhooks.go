package runtest

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Webhooks is a run.Webhooks made of functions.
type Webhooks struct {
	WebhooksFunc      func() ([]run.Webhook, error)
	WebhookFunc       func(name string) (run.Webhook, error)
	PutWebhookFunc    func(run.WebhookSpec) (_ run.Webhook, created bool, _ error)
	DeleteWebhookFunc func(name string) error
	TestWebhookFunc   func(name string) (run.Webhook, error)
}

var _ run.Webhooks = (*Webhooks)(nil)

// Webhooks implements run.Webhooks.
func (w *Webhooks) Webhooks(context.Context) ([]run.Webhook, error) {
	if w.WebhooksFunc == nil {
		return nil, unset("Webhooks")
	}
	return w.WebhooksFunc()
}

// Webhook implements run.Webhooks.
func (w *Webhooks) Webhook(_ context.Context, name string) (run.Webhook, error) {
	if w.WebhookFunc == nil {
		return run.Webhook{}, unset("Webhook")
	}
	return w.WebhookFunc(name)
}

// PutWebhook implements run.Webhooks.
func (w *Webhooks) PutWebhook(_ context.Context, spec run.WebhookSpec) (_ run.Webhook, created bool, _ error) {
	if w.PutWebhookFunc == nil {
		return run.Webhook{}, false, unset("PutWebhook")
	}
	return w.PutWebhookFunc(spec)
}

// DeleteWebhook implements run.Webhooks.
func (w *Webhooks) DeleteWebhook(_ context.Context, name string) error {
	if w.DeleteWebhookFunc == nil {
		return unset("DeleteWebhook")
	}
	return w.DeleteWebhookFunc(name)
}

// TestWebhook implements run.Webhooks.
func (w *Webhooks) TestWebhook(_ context.Context, name string) (run.Webhook, error) {
	if w.TestWebhookFunc == nil {
		return run.Webhook{}, unset("TestWebhook")
	}
	return w.TestWebhookFunc(name)
}
