package engine

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Delete implements run.Service.
func (e *Engine) Delete(ctx context.Context, id run.ID) error { return e.store.DeleteRun(ctx, id) }

// DeleteRuns implements run.Service.
func (e *Engine) DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error) {
	return e.store.DeleteRuns(ctx, q)
}

// Groups implements run.Service.
func (e *Engine) Groups(ctx context.Context, q run.GroupQuery) (run.GroupPage, error) {
	return e.store.Groups(ctx, q)
}
