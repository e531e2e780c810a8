package executors

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ExecutorColumns are the columns that ExecutorRow.Scan reads.
const ExecutorColumns = `id, pool, driver, os, arch, labels, privileged, slots, slots_used, version, journal_id, draining, removed,
	registered_at, last_contact, set_name, temporary, remove_after, drain_requested, drained, reason, removed_at,
	fleet, instance, uses, max_uses, suspect_since, features`

// ExecutorRow is a row of the table executors.
type ExecutorRow struct {
	run.Executor
	labels         string
	features       string
	draining       bool // the executor reports it
	drainRequested bool // a client requested a drain
	drained        bool // the executor reports it
	removed        bool
	registered     int64
	contact        int64
	removedAt      int64
	suspectSince   int64 // when its silence was first found to exceed the limit; 0: it was not
}

// Scan reads ExecutorColumns.
func (e *ExecutorRow) Scan(row sqldb.Scanner) error {
	return row.Scan(&e.ID, &e.Pool, &e.Driver, &e.OS, &e.Arch, &e.labels, &e.Privileged, &e.Slots, &e.SlotsUsed, &e.Version,
		&e.JournalID, &e.draining, &e.removed, &e.registered, &e.contact, &e.Set, &e.Temporary, &e.RemoveAfter, &e.drainRequested,
		&e.drained, &e.Reason, &e.removedAt, &e.Fleet, &e.Instance, &e.Uses, &e.MaxUses, &e.suspectSince, &e.features)
}

// Describe builds what clients see at the given time.
func (e *ExecutorRow) Describe(now int64) (run.Executor, error) {
	out := e.Executor
	out.RegisteredAt, out.LastContact, out.RemovedAt = sqldb.ToTime(e.registered), sqldb.ToTime(e.contact), sqldb.ToTime(e.removedAt)
	switch {
	case e.removed:
		out.State = run.ExecutorRemoved
	case !e.alive(now):
		out.State = run.ExecutorOffline
	case e.draining || e.drainRequested:
		out.State = run.ExecutorDraining
		out.Drained = e.drained
	default:
		out.State = run.ExecutorOnline
	}
	return out, errors.Join(sqldb.Unmarshal(e.labels, &out.Labels), sqldb.Unmarshal(e.features, &out.Features))
}

// alive reports whether the last contact is recent. A contact far in the future
// was recorded before the clock was set back, and proves nothing.
func (e *ExecutorRow) alive(now int64) bool {
	return time.Duration(now-e.contact).Abs() <= run.ExecutorTimeout
}

// readExecutor reads an executor, nil if there is none.
func readExecutor(ctx context.Context, q sqldb.Querier, id, lock string) (*ExecutorRow, error) {
	var e ExecutorRow
	err := e.Scan(q.QueryRow(ctx, `SELECT `+ExecutorColumns+` FROM executors WHERE id = ?`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &e, err
}

// executorLocked reads and locks an executor, nil if there is none.
func executorLocked(ctx context.Context, t *sqldb.Tx, id string) (*ExecutorRow, error) {
	return readExecutor(ctx, t, id, t.Dialect.ForUpdate)
}

// checkJournal returns why a process with the journal may not act as the executor.
func (e *ExecutorRow) checkJournal(journal string, now int64) error {
	switch {
	case e.removed:
		return sqldb.RemovedError(e.ID)
	case e.JournalID != journal && time.Duration(now-e.contact) <= run.ExecutorTimeout: // also if the clock was set back
		return run.Errorf(run.CodeConflict, "executor %s is registered by a process with another journal, last contact at %s",
			e.ID, sqldb.ToTime(e.contact).Format(time.RFC3339))
	}
	return nil
}

// RegisterExecutor implements records.Store.
func (s *Store) RegisterExecutor(ctx context.Context, e run.Executor) (run.DesiredState, error) {
	labels, err := sqldb.Marshal(e.Labels)
	features := ""
	if err == nil && e.Features != nil {
		features, err = sqldb.Marshal(e.Features)
	}
	if err != nil {
		return run.DesiredState{}, s.db.Wrap("register an executor", err)
	}
	var desired run.DesiredState
	err = s.db.Write(ctx, "register an executor", func(t *sqldb.Tx) error {
		known, err := executorLocked(ctx, t, e.ID)
		if err != nil {
			return err
		}
		desired = run.DesiredState{}
		if known != nil {
			if err := known.checkJournal(e.JournalID, t.Now); err != nil {
				return err
			}
			desired.Drain = known.drainRequested
		}
		if err := ensurePool(ctx, t, e); err != nil {
			return err
		}
		if err := bindFleet(ctx, t, &e, known); err != nil {
			return err
		}
		// A requested drain and the count of claimed tasks stay.
		if _, err = t.Exec(ctx, `INSERT INTO executors (`+ExecutorColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET pool = excluded.pool, driver = excluded.driver, os = excluded.os, arch = excluded.arch,
			labels = excluded.labels, privileged = excluded.privileged, slots = excluded.slots, slots_used = excluded.slots_used,
			version = excluded.version, journal_id = excluded.journal_id, draining = excluded.draining, last_contact = excluded.last_contact,
			set_name = excluded.set_name, temporary = excluded.temporary, remove_after = excluded.remove_after, drained = excluded.drained,
			fleet = excluded.fleet, instance = excluded.instance, max_uses = excluded.max_uses, suspect_since = excluded.suspect_since,
			features = excluded.features`,
			e.ID, e.Pool, e.Driver, e.OS, e.Arch, labels, e.Privileged, e.Slots, e.SlotsUsed, e.Version, e.JournalID,
			e.State == run.ExecutorDraining, false, t.Now, t.Now, e.Set, e.Temporary || e.Set != "", int64(e.RemoveAfter),
			false, false, "", 0, e.Fleet, e.Instance, 0, e.MaxUses, 0, features); err != nil {
			return err
		}
		return enqueueExecutor(ctx, t, e.ID)
	})
	return desired, err
}

// RenewExecutor implements records.Store.
func (s *Store) RenewExecutor(ctx context.Context, r run.Renewal) (run.DesiredState, error) {
	var desired run.DesiredState
	var known *ExecutorRow
	err := s.db.Write(ctx, "renew an executor", func(t *sqldb.Tx) (err error) {
		if known, err = executorLocked(ctx, t, r.Executor); err != nil {
			return err
		}
		if known == nil {
			return run.Errorf(run.CodeNotFound, "executor %s is not registered", r.Executor)
		}
		if err := known.checkJournal(r.JournalID, t.Now); err != nil {
			return err
		}
		if known.JournalID != r.JournalID {
			return run.Errorf(run.CodeNotFound, "executor %s was registered with another journal", r.Executor)
		}
		if desired, err = renewalReply(ctx, t, known, r); err != nil {
			return err
		}
		_, err = t.Exec(ctx, `UPDATE executors SET slots_used = ?, draining = ?, drained = ?, last_contact = ?, suspect_since = 0 WHERE id = ?`,
			r.SlotsUsed, r.Draining, r.Drained, t.Now, r.Executor)
		if known.Fleet != "" && r.Drained && !known.drained { // the fleet's worker waits for it
			t.MarkChanged(run.ID(sqldb.FleetKey + known.Fleet))
		}
		return err
	})
	if err != nil || r.Draining {
		return desired, err
	}
	// The contact is recorded however much waits, and this takes no writer of the database.
	err = s.db.Read(ctx, "read what waits for an executor", func(q sqldb.Querier) error {
		return s.setDemand(ctx, q, s.db.Now().UnixNano(), known, &desired)
	})
	return desired, err
}

// ListExecutors implements records.Store.
func (s *Store) ListExecutors(ctx context.Context) ([]run.Executor, error) {
	var out []run.Executor
	err := s.db.Read(ctx, "list executors", func(q sqldb.Querier) error {
		out = nil
		index := make(map[string]int)
		if err := eachExecutor(ctx, q, s.db.Now().UnixNano(), func(e run.Executor) {
			index[e.ID] = len(out)
			out = append(out, e)
		}); err != nil {
			return err
		}
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id string
			var tasks int
			err := row.Scan(&id, &tasks)
			if i, ok := index[id]; ok {
				out[i].Tasks = tasks
			}
			return err
		}, `SELECT t.executor, count(*) FROM `+tasksHeld+` GROUP BY t.executor`)
	})
	return out, err
}

// ServingExecutors implements records.Store.
func (s *Store) ServingExecutors(ctx context.Context) ([]run.Executor, error) {
	var out serving
	err := s.db.Read(ctx, "read the executors", func(q sqldb.Querier) (err error) {
		out, err = s.serving(ctx, q, s.db.Now().UnixNano())
		return err
	})
	return out.executors, err
}

// serving are the executors that are not removed.
type serving struct {
	executors []run.Executor // by id
	// pools has what pools have of them: the counts and the features.
	pools map[string]run.Pool
}

// serving returns the executors that are not removed, which callers share if they are many.
func (s *Store) serving(ctx context.Context, q sqldb.Querier, now int64) (serving, error) {
	return s.executors.Of(ctx, "", now, func(serving) (serving, bool, error) {
		out, err := readServing(ctx, q, now)
		return out, len(out.executors) > maxServing, err
	})
}

// readServing reads the executors that are not removed.
func readServing(ctx context.Context, q sqldb.Querier, now int64) (serving, error) {
	out := serving{pools: map[string]run.Pool{}}
	features := map[string][][]run.Feature{}
	err := eachExecutor(ctx, q, now, func(e run.Executor) {
		out.executors = append(out.executors, e)
		p := out.pools[e.Pool]
		p.Count(e)
		out.pools[e.Pool] = p
		features[e.Pool] = append(features[e.Pool], e.Features)
	})
	for name, p := range out.pools {
		p.AddFeatures(features[name])
		out.pools[name] = p
	}
	return out, err
}

// eachExecutor calls fn for each executor that is not removed, by id.
func eachExecutor(ctx context.Context, q sqldb.Querier, now int64, fn func(run.Executor)) error {
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var e ExecutorRow
		if err := e.Scan(row); err != nil {
			return err
		}
		executor, err := e.Describe(now)
		if err == nil {
			fn(executor)
		}
		return err
	}, `SELECT `+ExecutorColumns+` FROM executors WHERE NOT removed ORDER BY id`)
}

// GetExecutor implements records.Store.
func (s *Store) GetExecutor(ctx context.Context, id string) (out run.Executor, err error) {
	err = s.db.Read(ctx, "read an executor", func(q sqldb.Querier) error {
		e, err := readExecutor(ctx, q, id, "")
		if err != nil {
			return err
		}
		if e == nil {
			return executorNotFound(id)
		}
		out, err = e.view(ctx, q, s.db.Now().UnixNano())
		return err
	})
	return out, err
}

// view returns the client view of an executor.
func (e *ExecutorRow) view(ctx context.Context, q sqldb.Querier, now int64) (run.Executor, error) {
	out, err := e.Describe(now)
	if err != nil || e.removed {
		return out, err
	}
	err = q.QueryRow(ctx, `SELECT count(*) FROM `+tasksHeld+` WHERE t.executor = ?`, e.ID).Scan(&out.Tasks)
	if err != nil || out.Tasks == 0 {
		return out, err
	}
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var h run.HeldTask
		var started int64
		if err := row.Scan(&h.Key.Run, &h.Key.Task, &h.Key.Attempt, &h.Key.Dispatch, &h.Name, &h.Reason, &started); err != nil {
			return err
		}
		h.StartedAt = sqldb.ToTime(started)
		out.Held = append(out.Held, h)
		return nil
	}, `SELECT t.run_id, t.number, t.attempt, t.dispatch, t.name, t.reason, t.started_at FROM `+tasksHeld+`
		WHERE t.executor = ? ORDER BY t.started_at, t.run_id, t.number LIMIT ?`, e.ID, run.MaxHeldTasks)
	return out, err
}

func executorNotFound(id string) error {
	return run.Errorf(run.CodeNotFound, "there is no executor %s", id)
}
