package activities

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// RetentionStore removes data that is no longer kept. If a call fails, what it
// has removed stays removed.
type RetentionStore interface {
	// ExpireLogs and DeleteRuns take a transaction for each run.
	ExpireLogs(ctx context.Context, before time.Time, n int) (records.ExpiredLogs, error)
	DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error)
	ExpireArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (records.Expired, error)
	RemoveEvents(ctx context.Context, keep records.KeepEvents, n int) (removed int, err error)
}

var _ RetentionStore = records.Store(nil)

// The limits of one call of the records: a write of some milliseconds, which
// delays no other write noticeably. Each run takes a transaction of its own.
const (
	runsAtOnce     = 10
	archivesAtOnce = 50
	eventsAtOnce   = 10 // in hundreds
	hundred        = 100
)

// Retention holds the activities that remove data under the retention settings.
// Each of them runs for a bounded time, at a given rate, and continues where it
// was when it is retried. Errors are those of errcode.ToTemporal.
type Retention struct {
	store   RetentionStore
	metrics *RetentionMetrics
	now     func() time.Time
}

// NewRetention returns the activities over the records. If metrics is nil, an
// unregistered set is used. now is the clock; nil means time.Now.
func NewRetention(store RetentionStore, metrics *RetentionMetrics, now func() time.Time) *Retention {
	if metrics == nil {
		metrics = NewRetentionMetrics()
	}
	if now == nil {
		now = time.Now
	}
	return &Retention{store: store, metrics: metrics, now: now}
}

// ExpireLogs is contract.ActivityExpireLogs.
func (a *Retention) ExpireLogs(ctx context.Context, in contract.ExpireLogsInput) (out contract.ExpireLogsResult, err error) {
	if in.Keep.MaxAge <= 0 {
		return out, errcode.ToTemporal(run.Errorf(run.CodeInvalid, "the request selects no logs to remove"))
	}
	before := a.now().Add(-in.Keep.MaxAge.Std())
	out.More, err = runPaced(ctx, func(ctx context.Context) error {
		return newPace(a.now, in.PerSecond, runsAtOnce).repeat(ctx, func(n int) (bool, error) {
			done, err := a.store.ExpireLogs(ctx, before, n)
			a.metrics.record(ctx, run.RetentionLogs, done.Runs, done.Bytes, err)
			out.Runs += done.Runs
			out.Bytes += done.Bytes
			return done.Runs == n, err
		})
	})
	return out, err
}

// ExpireArchives is contract.ActivityExpireArchives.
func (a *Retention) ExpireArchives(ctx context.Context, in contract.ExpireArchivesInput) (out contract.ExpireArchivesResult, err error) {
	out.More, err = runPaced(ctx, func(ctx context.Context) error {
		return newPace(a.now, in.PerSecond, archivesAtOnce).repeat(ctx, func(n int) (bool, error) {
			done, err := a.store.ExpireArchives(ctx, in.Kind, in.Keep, n)
			a.metrics.record(ctx, in.Kind.Retention(), done.Archives, done.Bytes, err)
			out.Archives += done.Archives
			out.Bytes += done.Bytes
			return done.More, err
		})
	})
	return out, err
}

// DeleteRuns is contract.ActivityDeleteRuns.
func (a *Retention) DeleteRuns(ctx context.Context, in contract.DeleteRunsInput) (out contract.DeleteRunsResult, err error) {
	q := run.DeleteQuery{Keep: in.Keep.Keep}
	if in.Keep.MaxAge > 0 {
		q.Before = a.now().Add(-in.Keep.MaxAge.Std())
	}
	if q.Keep <= 0 && q.Before.IsZero() {
		return out, errcode.ToTemporal(run.Errorf(run.CodeInvalid, "the request selects no runs to delete"))
	}
	// Finding the runs may take longer than deleting them, so both are one
	// call.
	p := newPace(a.now, in.PerSecond, runsAtOnce)
	q.Throttle = func(ctx context.Context) error { return p.wait(ctx, 1) }
	var more bool
	out.More, err = runPaced(ctx, func(ctx context.Context) error {
		done, err := a.store.DeleteRuns(ctx, q)
		if errors.Is(err, errTimeOver) {
			done.More, err = true, nil
		}
		a.metrics.record(ctx, run.RetentionRuns, done.Runs, 0, err)
		out.Deleted, more = done.Runs, done.More
		return err
	})
	out.More = out.More || more
	return out, err
}

// RemoveEvents is contract.ActivityRemoveEvents.
func (a *Retention) RemoveEvents(ctx context.Context, in contract.RemoveEventsInput) (out contract.RemoveEventsResult, err error) {
	keep := records.KeepEvents{Newest: in.Newest}
	if in.MaxAge > 0 {
		keep.Since = a.now().Add(-in.MaxAge.Std())
	}
	out.More, err = runPaced(ctx, func(ctx context.Context) error {
		return newPace(a.now, in.PerSecond, eventsAtOnce).repeat(ctx, func(n int) (bool, error) {
			removed, err := a.store.RemoveEvents(ctx, keep, n*hundred)
			a.metrics.record(ctx, run.RetentionEvents, removed, 0, err)
			out.Removed += removed
			return removed == n*hundred, err
		})
	})
	return out, err
}
