package remote

import (
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// Retention tells what is kept, and what was removed.
func (c *Client) Retention(ctx context.Context) (Answer[api.Retention], error) {
	return call[api.Retention](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.api.GetRetention(ctx) })
}

// PreviewRetention tells what would be removed now.
func (c *Client) PreviewRetention(ctx context.Context, params *api.PreviewRetentionParams) (Answer[api.RetentionPreview], error) {
	return call[api.RetentionPreview](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.api.PreviewRetention(ctx, params) })
}
