package engine

import (
	"context"
	"errors"

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
	if err := checkBatch(b); err != nil {
		return err
	}
	states, err := e.store.ClaimStates(ctx, b.Executor, []run.Key{b.Key})
	if err != nil {
		return err
	}
	if s := states[b.Key]; s != run.ClaimOpen && s != run.ClaimClosed {
		return run.Errorf(run.CodeNotFound, "executor %s has no claim on task %s", b.Executor, b.Key)
	}
	if b.Stored, err = e.logs.PutFrames(ctx, b); err != nil {
		return err
	}
	return e.store.ApplyFrames(ctx, b)
}

func checkBatch(b run.FrameBatch) error {
	if len(b.Frames) == 0 {
		return run.Errorf(run.CodeInvalid, "the batch has no frames")
	}
	var errs []error
	for i, f := range b.Frames {
		switch {
		case f.Version < 1 || f.Version > run.FrameVersion:
			errs = append(errs, run.Errorf(run.CodeInvalid, "frame %d has version %d; this server reads versions up to %d", f.N, f.Version, run.FrameVersion))
		case f.N != b.Frames[0].N+int64(i) || f.N < 1:
			errs = append(errs, run.Errorf(run.CodeInvalid, "frame number %d does not follow %d", f.N, b.Frames[0].N+int64(i)-1))
		case len(f.Data) > run.MaxFrameData:
			errs = append(errs, run.Errorf(run.CodeTooLarge, "frame %d has more than %d bytes of output", f.N, run.MaxFrameData))
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
	return nil
}
