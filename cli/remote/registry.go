package remote

import (
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// registryCalls are the calls on executors and pools.
type registryCalls struct{ *caller }

// Executors lists the executors.
func (c registryCalls) Executors(ctx context.Context) (Answer[api.ExecutorList], error) {
	return call[api.ExecutorList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListExecutors(ctx)
	})
}

// Executor returns an executor.
func (c registryCalls) Executor(ctx context.Context, id string) (Answer[api.Executor], error) {
	return call[api.Executor](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetExecutor(ctx, id)
	})
}

// DrainExecutor begins or ends the drain of an executor.
func (c registryCalls) DrainExecutor(ctx context.Context, id string, d api.Drain) (Answer[api.Executor], error) {
	return call[api.Executor](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DrainExecutor(ctx, id, d)
	})
}

// RemoveExecutor removes an executor permanently.
func (c registryCalls) RemoveExecutor(ctx context.Context, id string, params api.RemoveExecutorParams) (Answer[api.Executor], error) {
	return call[api.Executor](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.RemoveExecutor(ctx, id, &params, api.RemoveExecutorJSONRequestBody{})
	})
}

// Pools lists the pools.
func (c registryCalls) Pools(ctx context.Context) (Answer[api.PoolList], error) {
	return call[api.PoolList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListPools(ctx)
	})
}

// Pool returns a pool.
func (c registryCalls) Pool(ctx context.Context, name string) (Answer[api.Pool], error) {
	return call[api.Pool](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetPool(ctx, name)
	})
}

// PutPool creates or updates a pool.
func (c registryCalls) PutPool(ctx context.Context, name string, p api.PoolSpec) (Answer[api.Pool], error) {
	return call[api.Pool](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutPool(ctx, name, p)
	})
}

// DeletePool deletes a pool.
func (c registryCalls) DeletePool(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeletePool(ctx, name, api.DeletePoolJSONRequestBody{})
	})
	return err
}
