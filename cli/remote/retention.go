package remote

import (
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// Retention returns the retention status: the settings, and what was removed.
func (c *Client) Retention(ctx context.Context) (Answer[api.Retention], error) {
	return call[api.Retention](ctx, c.caller, func(ctx context.Context) (*http.Response, error) { return c.api.GetRetention(ctx) })
}

// PreviewRetention returns what would be removed now.
func (c *Client) PreviewRetention(ctx context.Context, params *api.PreviewRetentionParams) (Answer[api.RetentionPreview], error) {
	return call[api.RetentionPreview](ctx, c.caller, func(ctx context.Context) (*http.Response, error) { return c.api.PreviewRetention(ctx, params) })
}
