package engine

import (
	"context"

	"github.com/drover-run/drover/run"
)

// ChangeGroups implements run.Service.
func (e *Engine) ChangeGroups(ctx context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
	return e.store.ChangeGroups(ctx, q)
}

// PutChangeGroup implements run.Service.
func (e *Engine) PutChangeGroup(ctx context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error) {
	return e.store.PutChangeGroup(ctx, g, token)
}
