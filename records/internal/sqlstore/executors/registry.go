package executors

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/logs"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// tasksHeld selects the running tasks as t, by the index of open tasks. A task
// without a pool has no executor.
const tasksHeld = `pools p JOIN tasks t ON t.pool = p.name AND t.status IN ('queued', 'running') AND t.status = 'running'`

// DrainExecutor implements records.Store.
func (s *Store) DrainExecutor(ctx context.Context, id string, drain bool, reason string) (out run.Executor, err error) {
	err = s.db.Write(ctx, "drain an executor", func(t *sqldb.Tx) error {
		e, err := executorLocked(ctx, t, id)
		switch {
		case err != nil:
			return err
		case e == nil:
			return executorNotFound(id)
		case e.removed:
			return run.Errorf(run.CodeGone, "executor %s was removed", id)
		}
		if !drain {
			reason = ""
		}
		e.drainRequested, e.Reason = drain, sqldb.Clip(reason)
		if _, err := t.Exec(ctx, `UPDATE executors SET drain_requested = ?, reason = ? WHERE id = ?`, e.drainRequested, e.Reason, id); err != nil {
			return err
		}
		if out, err = e.view(ctx, t, t.Now); err != nil {
			return err
		}
		return enqueueExecutor(ctx, t, id)
	})
	return out, err
}

// RemoveExecutor implements records.Store.
func (s *Store) RemoveExecutor(ctx context.Context, id string, why run.Removal) (out run.Executor, err error) {
	err = s.db.Write(ctx, "remove an executor", func(t *sqldb.Tx) error {
		e, err := executorLocked(ctx, t, id)
		if err != nil {
			return err
		}
		if e == nil {
			return executorNotFound(id)
		}
		if out, err = e.view(ctx, t, t.Now); err != nil || e.removed {
			return err
		}
		if out.State != run.ExecutorOffline && out.Tasks > 0 && !why.Force {
			return run.Errorf(run.CodeConflict,
				"executor %s is in contact and has %d tasks: drain it and wait, stop its tasks, or force the removal", id, out.Tasks)
		}
		out, err = removeExecutor(ctx, t, e, why.Reason)
		return err
	})
	return out, err
}

// ExpireExecutor implements records.Store.
func (s *Store) ExpireExecutor(ctx context.Context, id string) (out run.Executor, recheck time.Duration, err error) {
	err = s.db.Write(ctx, "expire an executor", func(t *sqldb.Tx) error {
		recheck = 0
		e, err := executorLocked(ctx, t, id)
		if err != nil {
			return err
		}
		if e == nil {
			return executorNotFound(id)
		}
		if out, err = e.view(ctx, t, t.Now); err != nil || e.removed || !e.Temporary {
			return err
		}
		limit := e.RemoveAfter
		if limit == 0 {
			limit = run.TemporaryOffline
		}
		// It is offline from the moment at which its last contact expired.
		offline := time.Duration(t.Now-e.contact) - run.ExecutorTimeout
		if offline < limit {
			// Not later than for a contact at this moment: the clock may have
			// been set back.
			recheck = min(limit-offline, limit+run.ExecutorTimeout)
			return nil
		}
		keep, err := lastWithTasks(ctx, t, e)
		if keep || err != nil {
			recheck = limit
			return err
		}
		if recheck, err = suspect(ctx, t, e); recheck > 0 || err != nil {
			return err
		}
		out, err = removeExecutor(ctx, t, e, fmt.Sprintf("it was temporary, and offline since %s",
			sqldb.ToTime(e.contact).Add(run.ExecutorTimeout).Format(time.RFC3339)))
		return err
	})
	return out, recheck, err
}

// suspect returns how much longer a silent executor may renew before it is
// removed: its silence may be an effect of a clock that was set forwards.
func suspect(ctx context.Context, t *sqldb.Tx, e *ExecutorRow) (left time.Duration, err error) {
	since := time.Duration(t.Now - e.suspectSince)
	switch {
	case e.suspectSince == 0, since < 0: // the clock was set back
		_, err = t.Exec(ctx, `UPDATE executors SET suspect_since = ? WHERE id = ?`, t.Now, e.ID)
		return run.ExecutorTimeout, err
	case since < run.ExecutorTimeout:
		return run.ExecutorTimeout - since, nil
	}
	return 0, nil
}

// lastWithTasks reports whether an executor is the last member of a set that
// has tasks: a new member may adopt them.
func lastWithTasks(ctx context.Context, t *sqldb.Tx, e *ExecutorRow) (last bool, err error) {
	if e.Set == "" {
		return false, nil
	}
	siblings, err := hasSiblings(ctx, t, e)
	if err != nil || siblings {
		return false, err
	}
	err = t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+tasksHeld+` WHERE t.executor IN (SELECT id FROM executors WHERE set_name = ?))`,
		e.Set).Scan(&last)
	return last, err
}

// hasSiblings reports whether a set has other members that are not removed.
func hasSiblings(ctx context.Context, t *sqldb.Tx, e *ExecutorRow) (has bool, err error) {
	if e.Set == "" {
		return false, nil
	}
	err = t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM executors WHERE NOT removed AND set_name = ? AND id <> ?)`, e.Set, e.ID).Scan(&has)
	return has, err
}

// removeExecutor marks an executor as removed and notifies the runs that have
// tasks with it, or with the set of which it was the last member. It returns
// the executor with the tasks that it had.
func removeExecutor(ctx context.Context, t *sqldb.Tx, e *ExecutorRow, reason string) (run.Executor, error) {
	out, err := e.view(ctx, t, t.Now)
	if err != nil {
		return out, err
	}
	siblings, err := hasSiblings(ctx, t, e)
	if err != nil {
		return out, err
	}
	out.State, out.Reason, out.RemovedAt, out.SlotsUsed = run.ExecutorRemoved, sqldb.Clip(reason), sqldb.ToTime(t.Now), 0
	if _, err := t.Exec(ctx, `UPDATE executors SET removed = ?, removed_at = ?, reason = ?, slots_used = 0 WHERE id = ?`,
		true, t.Now, out.Reason, e.ID); err != nil {
		return out, err
	}
	if !siblings {
		if err := enqueueRemoval(ctx, t, e, out.Reason); err != nil {
			return out, err
		}
		if err := logs.PackRemoved(ctx, t, e.ID, e.Set); err != nil {
			return out, err
		}
	}
	return out, enqueueExecutor(ctx, t, e.ID)
}

// enqueueRemoval appends an outbox row for each run that has a task with the
// executor, or with its set.
func enqueueRemoval(ctx context.Context, t *sqldb.Tx, e *ExecutorRow, reason string) error {
	t.Commit.Outbox = true
	where, arg := `t.executor = ?`, e.ID
	if e.Set != "" {
		where, arg = `t.executor IN (SELECT id FROM executors WHERE set_name = ?)`, e.Set
	}
	_, err := t.Exec(ctx, `INSERT INTO outbox (run_id, kind, task, executor, reason, created_at, due_at)
		SELECT DISTINCT t.run_id, CAST(? AS TEXT), 0, t.executor, CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS BIGINT) FROM `+tasksHeld+` WHERE `+where,
		records.OutboxExecutorRemoved, reason, t.Now, t.Now, arg)
	return err
}

// enqueueExecutor notifies the workflow of an executor of a change.
func enqueueExecutor(ctx context.Context, t *sqldb.Tx, id string) error {
	return t.Enqueue(ctx, run.ID(sqldb.ExecutorKey+id), records.OutboxExecutor, 0)
}

// LostExecutors implements records.Store.
func (s *Store) LostExecutors(ctx context.Context, ids []string) (lost map[string]string, err error) {
	err = s.db.Read(ctx, "find removed executors", func(q sqldb.Querier) error {
		lost = make(map[string]string)
		for _, id := range ids {
			e, err := readExecutor(ctx, q, id, "")
			if err != nil {
				return err
			}
			if e == nil || !e.removed {
				continue
			}
			var siblings bool
			if e.Set != "" {
				if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM executors WHERE NOT removed AND set_name = ?)`, e.Set).Scan(&siblings); err != nil {
					return err
				}
			}
			if !siblings {
				lost[id] = e.Reason
			}
		}
		return nil
	})
	return lost, err
}
