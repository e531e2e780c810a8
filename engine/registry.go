package engine

import (
	"context"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// Executors implements run.ExecutorRegistry.
func (e *Engine) Executors(ctx context.Context) ([]run.Executor, error) {
	return e.store.ListExecutors(ctx)
}

// Executor implements run.ExecutorRegistry.
func (e *Engine) Executor(ctx context.Context, id string) (run.Executor, error) {
	return e.store.GetExecutor(ctx, id)
}

// DrainExecutor implements run.ExecutorRegistry.
func (e *Engine) DrainExecutor(ctx context.Context, id, reason string) (run.Executor, error) {
	return e.store.DrainExecutor(ctx, id, true, reason)
}

// ResumeExecutor implements run.ExecutorRegistry.
func (e *Engine) ResumeExecutor(ctx context.Context, id string) (run.Executor, error) {
	return e.store.DrainExecutor(ctx, id, false, "")
}

// RemoveExecutor implements run.ExecutorRegistry.
func (e *Engine) RemoveExecutor(ctx context.Context, id string, why run.Removal) (run.Executor, error) {
	return e.store.RemoveExecutor(ctx, id, why)
}

// Pools implements run.ExecutorRegistry.
func (e *Engine) Pools(ctx context.Context) ([]run.Pool, error) {
	return e.store.ListPools(ctx)
}

// Pool implements run.ExecutorRegistry.
func (e *Engine) Pool(ctx context.Context, name string) (run.Pool, error) {
	return e.store.GetPool(ctx, name)
}

// PutPool implements run.ExecutorRegistry.
func (e *Engine) PutPool(ctx context.Context, p run.Pool) (_ run.Pool, created bool, _ error) {
	faults := spec.ValidatePool(p)
	if len(faults) == 0 {
		faults = checkPoolSecrets(e.secrets, p)
	}
	if len(faults) > 0 {
		return run.Pool{}, false, run.InvalidError("the pool is not valid", faults)
	}
	return e.store.PutPool(ctx, p)
}

// DeletePool implements run.ExecutorRegistry.
func (e *Engine) DeletePool(ctx context.Context, name string) error {
	return e.store.DeletePool(ctx, name)
}
