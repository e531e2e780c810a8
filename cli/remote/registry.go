package remote

import (
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// Executors lists the executors.
func (c *Client) Executors(ctx context.Context) (Answer[api.ExecutorList], error) {
	return call[api.ExecutorList](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListExecutors(ctx)
	})
}

// Executor returns an executor.
func (c *Client) Executor(ctx context.Context, id string) (Answer[api.Executor], error) {
	return call[api.Executor](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetExecutor(ctx, id)
	})
}

// DrainExecutor begins or ends the drain of an executor.
func (c *Client) DrainExecutor(ctx context.Context, id string, d api.Drain) (Answer[api.Executor], error) {
	return call[api.Executor](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.DrainExecutor(ctx, id, d)
	})
}

// RemoveExecutor removes an executor permanently.
func (c *Client) RemoveExecutor(ctx context.Context, id string, params api.RemoveExecutorParams) (Answer[api.Executor], error) {
	return call[api.Executor](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.RemoveExecutor(ctx, id, &params, api.RemoveExecutorJSONRequestBody{})
	})
}

// Pools lists the pools.
func (c *Client) Pools(ctx context.Context) (Answer[api.PoolList], error) {
	return call[api.PoolList](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListPools(ctx)
	})
}

// Pool returns a pool.
func (c *Client) Pool(ctx context.Context, name string) (Answer[api.Pool], error) {
	return call[api.Pool](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetPool(ctx, name)
	})
}

// PutPool creates or updates a pool.
func (c *Client) PutPool(ctx context.Context, name string, p api.PoolSpec) (Answer[api.Pool], error) {
	return call[api.Pool](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutPool(ctx, name, p)
	})
}

// DeletePool deletes a pool.
func (c *Client) DeletePool(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeletePool(ctx, name, api.DeletePoolJSONRequestBody{})
	})
	return err
}
