package fleets

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/executors"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ViewFleet implements records.Store.
func (s *Store) ViewFleet(ctx context.Context, name string) (v records.FleetView, err error) {
	err = s.db.Read(ctx, "view a fleet", func(q sqldb.Querier) error {
		f, err := rows.ExistingFleet(ctx, q, s.db.Keys, name, "")
		if err != nil {
			return err
		}
		v, err = s.viewFleet(ctx, q, f)
		return err
	})
	return v, err
}

// viewFleet reads all inputs of a scaling decision about one fleet.
func (s *Store) viewFleet(ctx context.Context, q sqldb.Querier, f *rows.Fleet) (records.FleetView, error) {
	v, err := s.fleetAlone(ctx, q, f)
	if err != nil {
		return v, err
	}
	now := s.db.Now().UnixNano()
	var others []*rows.Fleet
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		other, err := rows.ScanFleet(s.db.Keys, row)
		others = append(others, other)
		return err
	}, `SELECT `+rows.FleetColumns+` FROM fleets WHERE pool = ? AND mode <> ? AND name <> ? ORDER BY name`, f.Spec.Pool, run.FleetDeleted, f.Name); err != nil {
		return v, err
	}
	for _, other := range others {
		o, err := s.fleetAlone(ctx, q, other)
		if err != nil {
			return v, err
		}
		v.Pool = append(v.Pool, o)
	}
	return v, s.readDemand(ctx, q, now, append(others, f), &v)
}

// readDemand reads the queued tasks of the pool of a fleet, as many as the pool may still
// run, and the free slots of its executors that belong to no fleet. Tasks that no fleet
// of the pool can run do not count.
func (s *Store) readDemand(ctx context.Context, q sqldb.Querier, now int64, fleets []*rows.Fleet, v *records.FleetView) error {
	pool, room, err := readRoom(ctx, q, v.Fleet.Spec.Pool)
	if err != nil {
		return err
	}
	v.PoolLabels = pool.Labels
	queued, err := s.queuedTasks(ctx, q, v.Fleet.Spec.Pool, now)
	if err != nil {
		return err
	}
	for _, tasks := range queued {
		if len(tasks.Labels) > 0 && !slices.ContainsFunc(fleets, func(f *rows.Fleet) bool {
			return f.Mode == run.FleetActive && run.HasLabels(pool.WithLabels(f.Spec.ExecutorLabels(f.Name)), tasks.Labels)
		}) {
			continue
		}
		tasks.Queued = min(tasks.Queued, room)
		tasks.Overdue = min(tasks.Overdue, tasks.Queued)
		room -= tasks.Queued
		if tasks.Queued > 0 {
			v.Tasks = append(v.Tasks, tasks)
		}
	}
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var text string
		var free records.FreeSlots
		if err := row.Scan(&text, &free.Slots, &free.Free); err != nil {
			return err
		}
		var own map[string]string
		if err := sqldb.Unmarshal(text, &own); err != nil {
			return err
		}
		free.Labels = pool.WithLabels(own)
		v.FreeSlots = append(v.FreeSlots, free)
		return nil
	}, `SELECT e.labels, e.slots, sum(e.slots - coalesce(h.tasks, 0))
		FROM executors e LEFT JOIN (SELECT executor, count(*) AS tasks FROM tasks
			WHERE pool = ? AND status IN ('queued', 'running') AND status = 'running' GROUP BY executor) h ON h.executor = e.id
		WHERE e.pool = ? AND e.fleet = '' AND NOT e.removed AND NOT e.draining AND NOT e.drain_requested AND e.last_contact BETWEEN ? AND ?
			AND e.slots > coalesce(h.tasks, 0)
		GROUP BY e.labels, e.slots ORDER BY e.labels, e.slots`,
		v.Fleet.Spec.Pool, v.Fleet.Spec.Pool, now-int64(run.ExecutorTimeout), now+int64(run.ExecutorTimeout))
}

// queuedTasks counts the queued tasks of a pool by their labels. If there are many, its
// fleets share the counts, which may be a second old.
func (s *Store) queuedTasks(ctx context.Context, q sqldb.Querier, pool string, now int64) ([]records.QueuedTasks, error) {
	return s.queued.Of(ctx, pool, now, func([]records.QueuedTasks) (all []records.QueuedTasks, many bool, err error) {
		total := 0
		err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var text string
			var tasks records.QueuedTasks
			if err := row.Scan(&text, &tasks.Queued, &tasks.Overdue); err != nil {
				return err
			}
			total += tasks.Queued
			err := sqldb.Unmarshal(text, &tasks.Labels)
			all = append(all, tasks)
			return err
		}, `SELECT labels, count(*), count(CASE WHEN queued_at <= ? THEN 1 END) FROM tasks
			WHERE pool = ? AND status IN ('queued', 'running') AND status = 'queued' GROUP BY labels ORDER BY labels`,
			now-int64(run.SlotTimeout), pool)
		return all, total > executors.MaxCounted, err
	})
}

// readRoom reads the labels of a pool, and how many more tasks it may run.
func readRoom(ctx context.Context, q sqldb.Querier, name string) (pool run.Pool, room int, err error) {
	var text string
	err = q.QueryRow(ctx, `SELECT labels, max_running FROM pools WHERE name = ?`, name).Scan(&text, &pool.MaxRunning)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return pool, math.MaxInt32, nil
	case err != nil:
		return pool, 0, err
	}
	if err := sqldb.Unmarshal(text, &pool.Labels); err != nil || pool.MaxRunning == 0 {
		return pool, math.MaxInt32, err
	}
	var running int
	err = q.QueryRow(ctx, `SELECT count(*) FROM tasks WHERE pool = ? AND status IN ('queued', 'running') AND status = 'running'`, name).Scan(&running)
	return pool, max(0, pool.MaxRunning-running), err
}

// fleetAlone reads the inputs that belong to the fleet itself, and not to its
// pool.
func (s *Store) fleetAlone(ctx context.Context, q sqldb.Querier, f *rows.Fleet) (v records.FleetView, err error) {
	v.Fleet, v.PolicyState = f.Fleet, f.PolicyState
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		r, err := scanLedger(row)
		v.Instances = append(v.Instances, r)
		return err
	}, `SELECT `+ledgerColumns+` FROM fleet_instances WHERE fleet = ? AND state <> 'gone' ORDER BY number`, f.Name); err != nil {
		return v, err
	}
	if v.Executors, err = fleetExecutors(ctx, q, f, s.db.Now().UnixNano()); err != nil {
		return v, err
	}
	if f.Spec.Quota != nil {
		v.QuotaShares, err = s.quotaShares(ctx, q, f)
	}
	return v, err
}

// lockFleets keeps others from changing the fleets that share a fleet's quota
// or pool. It locks their rows in the same order for all.
func lockFleets(ctx context.Context, t *sqldb.Tx, name string) error {
	return sqldb.Each(ctx, t, func(row sqldb.Scanner) error { return row.Scan(new(string)) },
		`SELECT name FROM fleets WHERE quota <> '' AND quota = (SELECT quota FROM fleets WHERE name = ?)
			OR pool = (SELECT pool FROM fleets WHERE name = ?) ORDER BY name`+t.Dialect.ForUpdate, name, name)
}

// withinCapacity returns as many of the rows to add as the capacity allows.
func (s *Store) withinCapacity(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, c records.FleetChanges) ([]records.LedgerChange, error) {
	v, err := s.viewFleet(ctx, t, f)
	if err != nil {
		return nil, err
	}
	return c.Add[:min(len(c.Add), max(0, c.Capacity(v)))], nil
}
