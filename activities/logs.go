package activities

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// LogExpirer removes logs that have expired, of each run in a transaction of its
// own.
type LogExpirer interface {
	ExpireLogs(ctx context.Context, before time.Time, n int) (records.ExpiredLogs, error)
}

var _ LogExpirer = records.Store(nil)

const (
	// expireAtOnce is of how many runs logs are removed in one call.
	expireAtOnce = 10
	// expireFor is how long the activity goes on before it comes back, so that
	// the workflow can heed what it was told.
	expireFor = 10 * time.Second
)

// Logs holds the activity that removes expired logs.
type Logs struct {
	expirer LogExpirer
	now     func() time.Time
}

// NewLogs returns the activity over the records. now is the clock; nil means
// time.Now.
func NewLogs(expirer LogExpirer, now func() time.Time) *Logs {
	if now == nil {
		now = time.Now
	}
	return &Logs{expirer: expirer, now: now}
}

// ExpireLogs is contract.ActivityExpireLogs. Tried again it goes on where it
// was.
func (a *Logs) ExpireLogs(ctx context.Context, in contract.ExpireLogsInput) (out contract.ExpireLogsResult, err error) {
	if in.Keep.MaxAge <= 0 {
		return out, toTemporal(run.Errorf(run.CodeInvalid, "nothing says which logs to remove"))
	}
	limit, most := rate.Inf, expireAtOnce
	if in.Keep.PerSecond > 0 {
		limit, most = rate.Limit(in.Keep.PerSecond), min(expireAtOnce, in.Keep.PerSecond)
	}
	pace := rate.NewLimiter(limit, most)
	began := a.now()
	before := began.Add(-in.Keep.MaxAge.Std())
	for a.now().Sub(began) < expireFor {
		if err := pace.WaitN(ctx, most); err != nil {
			return out, toTemporal(err)
		}
		done, err := a.expirer.ExpireLogs(ctx, before, most)
		out.Runs += done.Runs
		out.Bytes += done.Bytes
		if err != nil || done.Runs < most {
			return out, toTemporal(err)
		}
	}
	out.More = true
	return out, nil
}
