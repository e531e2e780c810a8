package engine

import (
	"context"
	"strings"

	"github.com/drover-run/drover/run"
)

// approvals implements the calls of run.Service that decide whether tasks run, and those
// that tell who may see a run.
type approvals struct{ engine *Engine }

// Approve implements run.Service.
func (a approvals) Approve(ctx context.Context, id run.ID, task, subject string, token run.Token) (run.Run, error) {
	return a.engine.change(ctx, id, token, run.Action{Kind: run.ActionApprove, Actor: subject, Task: task, Reason: run.CommentOf(ctx)},
		func(ctx context.Context, id run.ID, token run.Token) error {
			return a.engine.store.ApproveTask(ctx, id, task, subject, token)
		})
}

// Reject implements run.Service.
func (a approvals) Reject(ctx context.Context, id run.ID, task, subject, reason string, token run.Token) (run.Run, error) {
	if strings.TrimSpace(reason) == "" {
		return run.Run{}, fault("reason", run.FaultRequired, "the reason is missing: say why; people who follow the run see it")
	}
	return a.engine.change(ctx, id, token, run.Action{Kind: run.ActionReject, Actor: subject, Task: task, Reason: reason},
		func(ctx context.Context, id run.ID, token run.Token) error {
			return a.engine.store.RejectTask(ctx, id, task, subject, reason, token)
		})
}

// Approvals implements run.Service.
func (a approvals) Approvals(ctx context.Context, q run.ApprovalQuery) (run.ApprovalPage, error) {
	return a.engine.store.Approvals(ctx, q)
}

// GroupOf implements run.Service.
func (a approvals) GroupOf(ctx context.Context, id run.ID) (string, error) {
	r, err := a.engine.store.GetSummary(ctx, id)
	return r.Group, err
}
