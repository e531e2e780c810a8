package logs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// allTasks is the task number in expired_logs that stands for all tasks of a
// run.
const allTasks = -1

// expirePage is how many runs one snapshot reads.
const expirePage = 200

// ExpireLogs implements records.Logs.
func (s *Store) ExpireLogs(ctx context.Context, before time.Time, n int) (out records.ExpiredLogs, err error) {
	for after := run.ID(""); out.Runs < n; {
		ids, last, err := s.expirable(ctx, before, after)
		if err != nil {
			return out, err
		}
		for _, id := range ids {
			if out.Runs == n {
				return out, nil
			}
			exists, bytes, err := s.expireLogs(ctx, id)
			if run.CodeOf(err) == run.CodeNotFound || err == nil && !exists {
				continue // it was deleted, or all its logs were another run's
			}
			if err != nil {
				return out, err
			}
			out.Runs++
			out.Bytes += bytes
		}
		if last == "" {
			return out, nil
		}
		after = last
	}
	return out, nil
}

// expirable returns runs with logs that ended before a time, among those after
// an id. last is the last run that it read; "" means that there are no more.
func (s *Store) expirable(ctx context.Context, before time.Time, after run.ID) (ids []run.ID, last run.ID, err error) {
	err = s.db.Read(ctx, "find expired logs", func(q sqldb.Querier) error {
		ids, last = nil, after
		for range expirePage {
			var created, ended int64
			err := q.QueryRow(ctx, `SELECT id, created_at, ended_at FROM runs WHERE id = (SELECT run_id FROM log_batches WHERE run_id > ?
				ORDER BY run_id LIMIT 1)`, last).Scan(&last, &created, &ended)
			if errors.Is(err, sql.ErrNoRows) || err == nil && created >= before.UnixNano() {
				last = "" // those that follow were created later still
				return nil
			}
			if err != nil {
				return err
			}
			if ended > 0 && ended < before.UnixNano() {
				ids = append(ids, last)
			}
		}
		return nil
	})
	return ids, last, err
}

// expireLogs removes the logs of a final run, also from the tasks of other runs
// that keep them. It returns whether there were any, and how many bytes they
// had.
func (s *Store) expireLogs(ctx context.Context, id run.ID) (exists bool, bytes int64, err error) {
	err = s.db.Write(ctx, "remove the logs of a run", func(t *sqldb.Tx) error {
		r, err := rows.LockRun(ctx, t, id)
		if err != nil {
			return err
		}
		if !r.Phase.Final() {
			return rows.WrongPhase(r, "only the logs of a run that is final expire")
		}
		if err := LockSharing(ctx, t); err != nil {
			return err
		}
		if err := t.QueryRow(ctx, `SELECT COUNT(*) > 0, COALESCE(SUM(CASE WHEN source_run = '' THEN bytes ELSE 0 END), 0) FROM log_batches WHERE run_id = ?`,
			id).Scan(&exists, &bytes); err != nil || !exists {
			return err
		}
		if err := ForgetPacking(ctx, t, id); err != nil {
			return err
		}
		for _, statement := range []string{
			`INSERT INTO expired_logs (run_id, task) SELECT DISTINCT run_id, task FROM log_batches WHERE source_run = ? AND source_run <> '' ON CONFLICT DO NOTHING`,
			`DELETE FROM log_batches WHERE source_run = ? AND source_run <> ''`,
		} {
			if _, err := t.Exec(ctx, statement, id); err != nil {
				return err
			}
		}
		if err := DiscardLogs(ctx, t, id); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM log_batches WHERE run_id = ?`, id); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `INSERT INTO expired_logs (run_id, task) VALUES (?, ?) ON CONFLICT DO NOTHING`, id, allTasks); err != nil {
			return err
		}
		t.MarkChanged(id)
		return nil
	})
	return exists, bytes, err
}

// Expired reports whether the logs of a task were removed.
func Expired(ctx context.Context, q sqldb.Querier, id run.ID, task int) (expired bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM expired_logs WHERE run_id = ? AND task IN (?, ?))`, id, allTasks, task).Scan(&expired)
	return expired, err
}

// KeepExpired copies to a new run which of its kept tasks have expired logs. kept has the numbers of
// these tasks in the old run, by those in the new one.
func KeepExpired(ctx context.Context, t *sqldb.Tx, id, from run.ID, kept map[int]int) error {
	for _, task := range slices.Sorted(maps.Keys(kept)) {
		expired, err := Expired(ctx, t, from, kept[task])
		if err != nil {
			return err
		}
		if !expired {
			continue
		}
		if _, err := t.Exec(ctx, `INSERT INTO expired_logs (run_id, task) VALUES (?, ?) ON CONFLICT DO NOTHING`, id, task); err != nil {
			return err
		}
	}
	return nil
}

// DueLogs implements records.Due. A run counts with its own logs and with those
// it kept from deleted runs. Logs that it kept from an existing run count for
// that run, which is due as well.
func (s *Store) DueLogs(ctx context.Context, before time.Time, n int) (run.RetentionDue, error) {
	out := run.RetentionDue{Kind: run.RetentionLogs}
	err := s.db.Read(ctx, "find expired logs", func(q sqldb.Querier) error {
		const due = ` FROM log_batches b JOIN runs r ON r.id = b.run_id WHERE r.ended_at > 0 AND r.ended_at < ?
			AND (b.source_run = '' OR NOT EXISTS (SELECT 1 FROM runs s WHERE s.id = b.source_run))`
		const own = `COALESCE(SUM(CASE WHEN b.source_run = '' THEN b.bytes ELSE 0 END), 0)`
		var oldest int64
		out.First = nil
		if err := q.QueryRow(ctx, `SELECT COUNT(DISTINCT b.run_id), `+own+`, COALESCE(MIN(r.ended_at), 0)`+due, before.UnixNano()).
			Scan(&out.Count, &out.Bytes, &oldest); err != nil {
			return err
		}
		out.Oldest = sqldb.ToTime(oldest)
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var i run.RetentionItem
			var ended int64
			err := row.Scan(&i.Run, &ended, &i.Bytes)
			i.Since = sqldb.ToTime(ended)
			out.First = append(out.First, i)
			return err
		}, `SELECT r.id, r.ended_at, `+own+due+` GROUP BY r.id, r.ended_at ORDER BY r.ended_at, r.id LIMIT ?`, before.UnixNano(), n)
	})
	return out, err
}
