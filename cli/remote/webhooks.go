package remote

import (
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// Webhooks lists the webhooks.
func (c *Client) Webhooks(ctx context.Context) (Answer[api.WebhookList], error) {
	return call[api.WebhookList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListWebhooks(ctx)
	})
}

// Webhook returns a webhook.
func (c *Client) Webhook(ctx context.Context, name string) (Answer[api.Webhook], error) {
	return call[api.Webhook](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetWebhook(ctx, name)
	})
}

// PutWebhook creates or updates a webhook.
func (c *Client) PutWebhook(ctx context.Context, name string, w api.WebhookSpec) (Answer[api.Webhook], error) {
	return call[api.Webhook](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutWebhook(ctx, name, w)
	})
}

// DeleteWebhook deletes a webhook.
func (c *Client) DeleteWebhook(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteWebhook(ctx, name, api.DeleteWebhookJSONRequestBody{})
	})
	return err
}

// TestWebhook requests a sample for the receiver of a webhook.
func (c *Client) TestWebhook(ctx context.Context, name string) (Answer[api.Webhook], error) {
	return call[api.Webhook](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.TestWebhook(ctx, name, api.TestWebhookJSONRequestBody{})
	})
}
