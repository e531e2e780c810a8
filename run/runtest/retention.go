package runtest

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Retention is a run.RetentionAPI made of functions.
type Retention struct {
	StatusFunc  func() (run.RetentionStatus, error)
	PreviewFunc func(r run.Retention, n int) ([]run.RetentionDue, error)
}

var _ run.RetentionAPI = (*Retention)(nil)

// RetentionStatus implements run.RetentionAPI.
func (r *Retention) RetentionStatus(context.Context) (run.RetentionStatus, error) {
	if r.StatusFunc == nil {
		return run.RetentionStatus{}, unset("RetentionStatus")
	}
	return r.StatusFunc()
}

// RetentionPreview implements run.RetentionAPI.
func (r *Retention) RetentionPreview(_ context.Context, keep run.Retention, n int) ([]run.RetentionDue, error) {
	if r.PreviewFunc == nil {
		return nil, unset("RetentionPreview")
	}
	return r.PreviewFunc(keep, n)
}
