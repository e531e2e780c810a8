package engine

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Register implements run.Desk.
func (e *Engine) Register(ctx context.Context, x run.Executor) (run.Wanted, error) {
	return e.store.RegisterExecutor(ctx, x)
}

// Renew implements run.Desk.
func (e *Engine) Renew(ctx context.Context, r run.Renewal) (run.Wanted, error) {
	return e.store.RenewExecutor(ctx, r)
}

// Claim implements run.Desk.
func (e *Engine) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	d, err := e.store.Claim(ctx, c)
	if err != nil {
		return run.Definition{}, err
	}
	d.LogLimit = e.limit
	return e.supply(ctx, d)
}

// ClaimStates implements run.Desk.
func (e *Engine) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	return e.store.ClaimStates(ctx, executor, keys)
}

// Ship implements run.Desk. The bytes are stored before the row that tells of
// them, so that whoever sees the row can read them.
func (e *Engine) Ship(ctx context.Context, b run.FrameBatch) error {
	if err := run.CheckFrames(b.Frames); err != nil {
		return err
	}
	b.Budget = run.LogBudget(e.limit)
	// Before the bytes: what is refused leaves none.
	known, err := e.store.CheckFrames(ctx, b)
	if err != nil || known {
		return err
	}
	if b.Stored, err = e.logs.PutFrames(ctx, b); err != nil {
		return err
	}
	return e.store.ApplyFrames(ctx, b)
}
