package engine

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Register implements run.ExecutorAPI.
func (e *Engine) Register(ctx context.Context, x run.Executor) (run.DesiredState, error) {
	return e.store.RegisterExecutor(ctx, x)
}

// Renew implements run.ExecutorAPI.
func (e *Engine) Renew(ctx context.Context, r run.Renewal) (run.DesiredState, error) {
	return e.store.RenewExecutor(ctx, r)
}

// Claim implements run.ExecutorAPI.
func (e *Engine) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	d, err := e.store.Claim(ctx, c)
	if err != nil {
		return run.Definition{}, err
	}
	d.LogLimit, d.ServiceLogs = e.limit, true
	return e.resolveSecrets(ctx, d)
}

// ClaimStates implements run.ExecutorAPI.
func (e *Engine) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	return e.store.ClaimStates(ctx, executor, keys)
}

// AppendFrames implements run.ExecutorAPI. It stores the bytes before the row that
// refers to them, so that a client that sees the row can read the bytes.
func (e *Engine) AppendFrames(ctx context.Context, b run.FrameBatch) error {
	if err := run.CheckFrames(b.Frames); err != nil {
		return err
	}
	b.Budget = run.LogBudget(e.limit)
	// The check comes before the bytes are stored, so that a rejected batch
	// leaves no object.
	known, err := e.store.CheckFrames(ctx, b)
	if err != nil || known {
		return err
	}
	b.Stored, err = e.logs.PutFrames(ctx, b)
	if run.CodeOf(err) == run.CodeConflict {
		b.Stored, err = e.putOtherFrames(ctx, b)
	}
	if err != nil {
		return err
	}
	return e.store.ApplyFrames(ctx, b)
}

// putOtherFrames stores a batch if another batch begins with the same frame. An
// executor whose host lost power may divide its log differently than before. If
// the records do not have the other batch, it was never acknowledged and is
// replaced. If they do, it stays, and ApplyFrames decides.
func (e *Engine) putOtherFrames(ctx context.Context, b run.FrameBatch) (int64, error) {
	first := b.Frames[0].N
	known, err := e.store.Batches(ctx, b.Key.Run, b.Key.Task, b.Key.Attempt, records.BatchRef{Key: b.Key, Last: first - 1})
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(known, func(k records.Batch) bool { return k.Key == b.Key }) {
		return 0, nil
	}
	if err := e.logs.DeleteFrames(ctx, b.Key, first); err != nil {
		return 0, err
	}
	return e.logs.PutFrames(ctx, b)
}
