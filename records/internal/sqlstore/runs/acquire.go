package runs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// acquireLimit is how long a task of a pool may wait for an instance. The zero value
// is no limit.
type acquireLimit struct {
	timeout time.Duration
	fleets  []string // that serve the pool
}

// acquireLimits has the limits of pools that a transaction has read, by pool.
type acquireLimits map[string]acquireLimit

// of returns the limit of a pool. There is none if an executor that belongs to no
// fleet may take the task, if no fleet requests instances, or if one of those that
// do has no limit.
func (a acquireLimits) of(ctx context.Context, t *sqldb.Tx, pool string) (acquireLimit, error) {
	if limit, ok := a[pool]; ok {
		return limit, nil
	}
	limit, err := readAcquireLimit(ctx, t, pool)
	if err != nil {
		return limit, err
	}
	if limit.timeout > 0 {
		var others bool
		if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM executors WHERE pool = ? AND fleet = '' AND NOT removed AND NOT draining
			AND NOT drain_requested AND last_contact BETWEEN ? AND ?)`,
			pool, t.Now-int64(run.ExecutorTimeout), t.Now+int64(run.ExecutorTimeout)).Scan(&others); err != nil {
			return limit, err
		}
		if others {
			limit = acquireLimit{}
		}
	}
	a[pool] = limit
	return limit, nil
}

// readAcquireLimit returns the longest limit of the active fleets of a pool.
func readAcquireLimit(ctx context.Context, t *sqldb.Tx, pool string) (limit acquireLimit, err error) {
	unlimited := false
	err = sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var name, text string
		if err := row.Scan(&name, &text); err != nil {
			return err
		}
		var config struct {
			Timeout run.Duration `json:"instance_acquire_timeout"`
		}
		if err := sqldb.Unmarshal(text, &config); err != nil {
			return err
		}
		unlimited = unlimited || config.Timeout <= 0
		limit.timeout = max(limit.timeout, config.Timeout.Std())
		limit.fleets = append(limit.fleets, name)
		return nil
	}, `SELECT name, config FROM fleets WHERE pool = ? AND mode = ? ORDER BY name`, pool, run.FleetActive)
	if unlimited {
		limit = acquireLimit{}
	}
	return limit, err
}

// change returns the change of a task, which fails if no instance took its last
// dispatch in time. The settings of the fleets may have changed meanwhile; then the
// task waits on.
func (a acquireLimits) change(ctx context.Context, t *sqldb.Tx, x *rows.Task, c *run.TaskChange) (*run.TaskChange, error) {
	if !c.NotAcquired || c.Status != run.StatusQueued || x.Status != run.StatusQueued || c.Attempt != x.Attempt || c.Dispatch <= x.Dispatch {
		return c, nil
	}
	limit, err := a.of(ctx, t, x.Pool)
	if err != nil || limit.timeout == 0 {
		return c, err
	}
	reason := limit.reason(time.Duration(t.Now - x.Queued))
	return &run.TaskChange{
		Task: c.Task, Attempt: x.Attempt, Dispatch: x.Dispatch, Status: run.StatusFailed, Reason: reason,
		Result: &run.TaskResult{Status: run.StatusFailed, Cause: run.CauseAcquireTimeout, Reason: reason},
	}, nil
}

// maxFleetNames bounds the fleets that a reason names.
const maxFleetNames = 3

func (l acquireLimit) reason(waited time.Duration) string {
	of, more := "fleet ", ""
	if len(l.fleets) > 1 {
		of = "fleets "
	}
	if n := len(l.fleets) - maxFleetNames; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	unit := time.Second
	if waited < 10*time.Second {
		unit = 100 * time.Millisecond
	}
	return fmt.Sprintf("instance_acquire_timeout: no instance of %s%s%s took it within %s", of,
		strings.Join(l.fleets[:min(len(l.fleets), maxFleetNames)], ", "), more, waited.Round(unit))
}
