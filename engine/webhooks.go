package engine

import (
	"context"

	"github.com/drover-run/drover/contract"
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

// signalWebhook signals the webhook workflow. It starts the workflow if it does
// not run. The workflow ends by itself when no delivery is due.
func (p *Dispatcher) signalWebhook(ctx context.Context, name string) error {
	_, err := p.starter.SignalWithStartWorkflow(ctx, contract.WebhookWorkflowID(name), contract.SignalWebhook, nil,
		webhookOptions(name), contract.WebhookWorkflow, contract.WebhookInput{Name: name})
	return err
}
