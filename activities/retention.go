package activities

import (
	"context"
	"time"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// RunDeleter deletes runs, each in a transaction of its own.
type RunDeleter interface {
	DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error)
}

var _ RunDeleter = records.Store(nil)

// Retention holds the activity that deletes runs.
type Retention struct {
	deleter RunDeleter
	now     func() time.Time
}

// NewRetention returns the activity over the records. now is the clock; nil
// means time.Now.
func NewRetention(deleter RunDeleter, now func() time.Time) *Retention {
	if now == nil {
		now = time.Now
	}
	return &Retention{deleter: deleter, now: now}
}

// DeleteRuns is contract.ActivityDeleteRuns. Tried again it goes on where it
// was.
func (a *Retention) DeleteRuns(ctx context.Context, in contract.DeleteRunsInput) (contract.DeleteRunsResult, error) {
	q := run.DeleteQuery{Keep: in.Keep.Keep}
	if in.Keep.MaxAge > 0 {
		q.Before = a.now().Add(-in.Keep.MaxAge.Std())
	}
	if q.Keep <= 0 && q.Before.IsZero() {
		return contract.DeleteRunsResult{}, toTemporal(run.Errorf(run.CodeInvalid, "nothing says which runs to delete"))
	}
	out, err := a.deleter.DeleteRuns(ctx, q)
	return contract.DeleteRunsResult{Deleted: out.Runs, More: out.More}, toTemporal(err)
}
