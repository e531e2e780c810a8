package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/run"
)

const executorColumns = `id, pool, driver, os, arch, labels, privileged, slots, slots_used, version, journal_id, draining, removed,
	registered_at, last_contact`

type executorRow struct {
	run.Executor
	labels     string
	draining   bool
	removed    bool
	registered int64
	contact    int64
}

func (e *executorRow) scan(row scanner) error {
	return row.Scan(&e.ID, &e.Pool, &e.Driver, &e.OS, &e.Arch, &e.labels, &e.Privileged, &e.Slots, &e.SlotsUsed, &e.Version,
		&e.JournalID, &e.draining, &e.removed, &e.registered, &e.contact)
}

// executor makes what clients see at the given time.
func (e *executorRow) executor(now int64) (run.Executor, error) {
	out := e.Executor
	out.RegisteredAt, out.LastContact = toTime(e.registered), toTime(e.contact)
	switch {
	case e.removed:
		out.State = run.ExecutorRemoved
	case !e.alive(now):
		out.State = run.ExecutorOffline
	case e.draining:
		out.State = run.ExecutorDraining
	default:
		out.State = run.ExecutorOnline
	}
	return out, unmarshal(e.labels, &out.Labels)
}

func (e *executorRow) alive(now int64) bool {
	return time.Duration(now-e.contact) <= run.ExecutorTimeout
}

// executorLocked reads an executor, nil if there is none.
func (t *tx) executorLocked(ctx context.Context, id string) (*executorRow, error) {
	var e executorRow
	err := e.scan(t.QueryRow(ctx, `SELECT `+executorColumns+` FROM executors WHERE id = ?`+t.dialect.ForUpdate, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &e, err
}

// mayHold returns why a process with the journal may not be the executor.
func (e *executorRow) mayHold(journal string, now int64) error {
	switch {
	case e.removed:
		return run.Errorf(run.CodeForbidden, "executor %s was removed", e.ID)
	case e.JournalID != journal && e.alive(now):
		return run.Errorf(run.CodeConflict, "executor %s is held by a process with another journal, last heard of at %s",
			e.ID, toTime(e.contact).Format(time.RFC3339))
	}
	return nil
}

// RegisterExecutor implements records.Store.
func (s *Store) RegisterExecutor(ctx context.Context, e run.Executor) error {
	labels, err := marshal(e.Labels)
	if err != nil {
		return s.wrap("registering an executor", err)
	}
	return s.write(ctx, "registering an executor", func(t *tx) error {
		known, err := t.executorLocked(ctx, e.ID)
		if err != nil {
			return err
		}
		if known != nil {
			if err := known.mayHold(e.JournalID, t.now); err != nil {
				return err
			}
		}
		if err := t.ensurePool(ctx, e, labels); err != nil {
			return err
		}
		_, err = t.Exec(ctx, `INSERT INTO executors (`+executorColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET pool = excluded.pool, driver = excluded.driver, os = excluded.os, arch = excluded.arch,
			labels = excluded.labels, privileged = excluded.privileged, slots = excluded.slots, slots_used = excluded.slots_used,
			version = excluded.version, journal_id = excluded.journal_id, draining = excluded.draining, last_contact = excluded.last_contact`,
			e.ID, e.Pool, e.Driver, e.OS, e.Arch, labels, e.Privileged, e.Slots, e.SlotsUsed, e.Version, e.JournalID,
			e.State == run.ExecutorDraining, false, t.now, t.now)
		return err
	})
}

// ensurePool makes the pool of an executor, or checks that they fit.
func (t *tx) ensurePool(ctx context.Context, e run.Executor, labels string) error {
	if _, err := t.Exec(ctx, `INSERT INTO pools (name, driver, os, arch, labels, privileged, is_default) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, e.Pool, e.Driver, e.OS, e.Arch, labels, e.Privileged, false); err != nil {
		return err
	}
	var p run.Pool
	if err := t.QueryRow(ctx, `SELECT driver, os, arch FROM pools WHERE name = ?`, e.Pool).Scan(&p.Driver, &p.OS, &p.Arch); err != nil {
		return err
	}
	var faults []run.Fault
	differ := func(what, executors, pools string) {
		if pools != "" && executors != pools {
			faults = append(faults, run.Fault{Path: what, Code: run.CodeInvalid, Detail: fmt.Sprintf("it is %s, and pool %s is for %s", executors, e.Pool, pools)})
		}
	}
	differ("driver", e.Driver, p.Driver)
	differ("os", e.OS, p.OS)
	differ("arch", e.Arch, p.Arch)
	if len(faults) > 0 {
		return run.InvalidError(fmt.Sprintf("executor %s does not fit pool %s: %s: %s", e.ID, e.Pool, faults[0].Path, faults[0].Detail), faults)
	}
	return nil
}

// RenewExecutor implements records.Store.
func (s *Store) RenewExecutor(ctx context.Context, r run.Renewal) error {
	return s.write(ctx, "renewing an executor", func(t *tx) error {
		known, err := t.executorLocked(ctx, r.Executor)
		if err != nil {
			return err
		}
		if known == nil {
			return run.Errorf(run.CodeNotFound, "executor %s is not registered", r.Executor)
		}
		if err := known.mayHold(r.JournalID, t.now); err != nil {
			return err
		}
		if known.JournalID != r.JournalID {
			return run.Errorf(run.CodeNotFound, "executor %s was registered with another journal", r.Executor)
		}
		_, err = t.Exec(ctx, `UPDATE executors SET slots_used = ?, draining = ?, last_contact = ? WHERE id = ?`,
			r.SlotsUsed, r.Draining, t.now, r.Executor)
		return err
	})
}

// ListExecutors implements records.Store.
func (s *Store) ListExecutors(ctx context.Context) ([]run.Executor, error) {
	var out []run.Executor
	err := s.read(ctx, "listing executors", func(q Querier) error {
		out = nil
		return eachExecutor(ctx, q, s.now().UnixNano(), func(e run.Executor) { out = append(out, e) })
	})
	return out, err
}

// eachExecutor calls fn for each executor that is not removed, by id.
func eachExecutor(ctx context.Context, q Querier, now int64, fn func(run.Executor)) error {
	return each(ctx, q, func(row scanner) error {
		var e executorRow
		if err := e.scan(row); err != nil {
			return err
		}
		executor, err := e.executor(now)
		if err == nil {
			fn(executor)
		}
		return err
	}, `SELECT `+executorColumns+` FROM executors WHERE NOT removed ORDER BY id`)
}

// ListPools implements records.Store.
func (s *Store) ListPools(ctx context.Context) ([]run.Pool, error) {
	var out []run.Pool
	err := s.read(ctx, "listing pools", func(q Querier) error {
		out = nil
		index := make(map[string]int)
		if err := each(ctx, q, func(row scanner) error {
			var p run.Pool
			var labels string
			if err := row.Scan(&p.Name, &p.Driver, &p.OS, &p.Arch, &labels, &p.Privileged, &p.Default); err != nil {
				return err
			}
			err := unmarshal(labels, &p.Labels)
			index[p.Name] = len(out)
			out = append(out, p)
			return err
		}, `SELECT name, driver, os, arch, labels, privileged, is_default FROM pools ORDER BY name`); err != nil {
			return err
		}
		if err := eachExecutor(ctx, q, s.now().UnixNano(), func(e run.Executor) {
			i, ok := index[e.Pool]
			if !ok || e.State == run.ExecutorOffline {
				return
			}
			out[i].SlotsUsed += e.SlotsUsed
			if e.State == run.ExecutorOnline {
				out[i].Online++
				out[i].Slots += e.Slots
			}
		}); err != nil {
			return err
		}
		return each(ctx, q, func(row scanner) error {
			var pool string
			var queued, running int
			var started float64
			if err := row.Scan(&pool, &queued, &running, &started); err != nil {
				return err
			}
			if i, ok := index[pool]; ok {
				out[i].Queued, out[i].Running = queued, running
				if started > 0 {
					out[i].MeanElapsed = max(0, time.Duration(s.now().UnixNano()-int64(started)))
				}
			}
			return nil
		}, `SELECT pool, count(CASE WHEN status = 'queued' THEN 1 END), count(CASE WHEN status = 'running' THEN 1 END),
			coalesce(CAST(avg(CASE WHEN status = 'running' AND started_at > 0 THEN started_at END) AS DOUBLE PRECISION), 0)
			FROM tasks WHERE status IN ('queued', 'running') GROUP BY pool`)
	})
	return out, err
}
