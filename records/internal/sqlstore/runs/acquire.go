package runs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// acquireLimit is how long a task may wait for an instance. The zero value
// is no limit.
type acquireLimit struct {
	timeout time.Duration
	fleets  []string // that may serve the task; none if no fleet of the pool has what it requires
}

// acquireLimits has what a transaction has read to limit waits, by pool.
type acquireLimits map[string]*acquirePool

// acquirePool is a pool, as far as it limits waits.
type acquirePool struct {
	fleets []acquireFleet          // by name, without those that are being deleted
	others []map[string]string     // labels of online executors outside of fleets
	limits map[string]acquireLimit // by the labels that a task requires
}

// acquireFleet is a fleet whose instances may take tasks.
type acquireFleet struct {
	name    string
	active  bool
	labels  map[string]string
	timeout time.Duration
}

// of returns the limit of a task. Only fleets and executors with the labels that the
// task requires count, unless no fleet has them. There is no limit if an executor that
// belongs to no fleet may take the task, if no fleet requests instances, or if a fleet
// that does has no limit.
func (a acquireLimits) of(ctx context.Context, t *sqldb.Tx, x *rows.Task) (acquireLimit, error) {
	pool := a[x.Pool]
	if pool == nil {
		var err error
		if pool, err = readAcquirePool(ctx, t, x.Pool); err != nil {
			return acquireLimit{}, err
		}
		a[x.Pool] = pool
	}
	if limit, ok := pool.limits[x.Labels]; ok {
		return limit, nil
	}
	var required map[string]string
	if err := sqldb.Unmarshal(x.Labels, &required); err != nil {
		return acquireLimit{}, err
	}
	limit := pool.limit(required)
	pool.limits[x.Labels] = limit
	return limit, nil
}

// limit returns the longest limit of the active fleets whose instances may take a task. If
// no fleet of the pool has what the task requires, as after a change of its labels, it is
// the longest of all active fleets.
func (p *acquirePool) limit(required map[string]string) (limit acquireLimit) {
	if slices.ContainsFunc(p.others, func(own map[string]string) bool { return run.HasLabels(own, required) }) {
		return acquireLimit{}
	}
	may := func(f acquireFleet) bool { return run.HasLabels(f.labels, required) }
	fits := slices.ContainsFunc(p.fleets, may)
	for _, f := range p.fleets {
		if !f.active || fits && !may(f) {
			continue
		}
		if f.timeout <= 0 {
			return acquireLimit{}
		}
		limit.timeout = max(limit.timeout, f.timeout)
		if fits {
			limit.fleets = append(limit.fleets, f.name)
		}
	}
	return limit
}

// readAcquirePool reads the fleets of a pool, and if one of them is active, the pool's
// other executors.
func readAcquirePool(ctx context.Context, t *sqldb.Tx, name string) (*acquirePool, error) {
	p := &acquirePool{limits: map[string]acquireLimit{}}
	var pool run.Pool
	var text string
	err := t.QueryRow(ctx, `SELECT labels FROM pools WHERE name = ?`, name).Scan(&text)
	if err == nil {
		err = sqldb.Unmarshal(text, &pool.Labels)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	active := false
	if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var name, text string
		var mode run.FleetMode
		if err := row.Scan(&name, &text, &mode); err != nil {
			return err
		}
		var spec struct {
			Labels    map[string]string `json:"labels"`
			Resources run.Resources     `json:"resources"`
			Timeout   run.Duration      `json:"instance_acquire_timeout"`
		}
		if err := sqldb.Unmarshal(text, &spec); err != nil {
			return err
		}
		labels := run.FleetSpec{Labels: spec.Labels, Resources: spec.Resources}.ExecutorLabels(name)
		f := acquireFleet{name: name, active: mode == run.FleetActive, labels: pool.WithLabels(labels), timeout: spec.Timeout.Std()}
		p.fleets, active = append(p.fleets, f), active || f.active
		return nil
	}, `SELECT name, config, mode FROM fleets WHERE pool = ? AND mode <> ? ORDER BY name`, name, run.FleetDeleting); err != nil || !active {
		return p, err
	}
	return p, sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var text string
		if err := row.Scan(&text); err != nil {
			return err
		}
		var own map[string]string
		if err := sqldb.Unmarshal(text, &own); err != nil {
			return err
		}
		p.others = append(p.others, pool.WithLabels(own))
		return nil
	}, `SELECT DISTINCT labels FROM executors WHERE pool = ? AND fleet = '' AND NOT removed AND NOT draining
		AND NOT drain_requested AND last_contact BETWEEN ? AND ?`, name, t.Now-int64(run.ExecutorTimeout), t.Now+int64(run.ExecutorTimeout))
}

// change returns the change of a task, which fails if no instance took its last
// dispatch in time. The settings of the fleets may have changed meanwhile; then the
// task waits on.
func (a acquireLimits) change(ctx context.Context, t *sqldb.Tx, x *rows.Task, c *run.TaskChange) (*run.TaskChange, error) {
	if !c.NotAcquired || c.Status != run.StatusQueued || x.Status != run.StatusQueued || c.Attempt != x.Attempt || c.Dispatch <= x.Dispatch {
		return c, nil
	}
	limit, err := a.of(ctx, t, x)
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
	unit := time.Second
	if waited < 10*time.Second {
		unit = 100 * time.Millisecond
	}
	if len(l.fleets) == 0 {
		return fmt.Sprintf("instance_acquire_timeout: no fleet of the pool has what it requires, and nothing took it within %s", waited.Round(unit))
	}
	of, more := "fleet ", ""
	if len(l.fleets) > 1 {
		of = "fleets "
	}
	if n := len(l.fleets) - maxFleetNames; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("instance_acquire_timeout: no instance of %s%s%s took it within %s", of,
		strings.Join(l.fleets[:min(len(l.fleets), maxFleetNames)], ", "), more, waited.Round(unit))
}
