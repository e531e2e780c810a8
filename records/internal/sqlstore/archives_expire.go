package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// old is an archive that is to be removed.
type old struct {
	run                     run.ID
	task, attempt, dispatch int
	step                    int
	scope, name             string // of a cache
	object                  string
	size                    int64
}

// ExpireArchives implements records.Store.
func (s *Store) ExpireArchives(ctx context.Context, q records.ExpireArchives, n int) (records.Expired, error) {
	var out records.Expired
	find := func(tx Querier, now int64) (list []old, err error) {
		scan := func(row scanner) error {
			var o old
			err := row.Scan(&o.run, &o.task, &o.attempt, &o.dispatch, &o.step, &o.object, &o.size)
			list = append(list, o)
			return err
		}
		const columns = `SELECT a.run_id, a.task, a.attempt, a.dispatch, a.step, a.object, a.size FROM archives a `
		if err := each(ctx, tx, scan, columns+`WHERE a.expires_at > 0 AND a.object <> '' AND a.expires_at <= ? ORDER BY a.expires_at LIMIT ?`, now, n); err != nil {
			return nil, err
		}
		if q.Workspaces == 0 || len(list) == n {
			return list, nil
		}
		// What was saved before then is looked at alone: nothing of a run is
		// saved after its end.
		before := now - int64(q.Workspaces)
		return list, each(ctx, tx, scan, columns+`JOIN runs r ON r.id = a.run_id WHERE a.kind = 'workspace' AND a.object <> ''
			AND a.created_at <= ? AND r.ended_at > 0 AND r.ended_at <= ? ORDER BY a.created_at LIMIT ?`, before, before, n-len(list))
	}
	err := s.expire(ctx, "removing archives", q.DryRun, &out, n, find, func(t *tx, o old) (sql.Result, error) {
		return t.Exec(ctx, `UPDATE archives SET object = '' WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND step = ? AND object = ?`,
			o.run, o.task, o.attempt, o.dispatch, o.step, o.object)
	})
	return out, err
}

// ExpireCaches implements records.Store.
func (s *Store) ExpireCaches(ctx context.Context, q records.ExpireCaches, n int) (records.Expired, error) {
	var out records.Expired
	find := func(tx Querier, now int64) (list []old, err error) {
		var total int64
		if err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0) FROM caches`).Scan(&total); err != nil {
			return nil, err
		}
		err = each(ctx, tx, func(row scanner) error {
			var o old
			var used int64
			if err := row.Scan(&o.scope, &o.name, &o.object, &o.size, &used); err != nil {
				return err
			}
			if q.Unused > 0 && used <= now-int64(q.Unused) || q.Bytes > 0 && total > q.Bytes {
				total -= o.size
				list = append(list, o)
			}
			return nil
		}, `SELECT scope, name, object, size, used_at FROM caches ORDER BY used_at, scope, name LIMIT ?`, n)
		return list, err
	}
	err := s.expire(ctx, "removing caches", q.DryRun, &out, n, find, func(t *tx, o old) (sql.Result, error) {
		return t.Exec(ctx, `DELETE FROM caches WHERE scope = ? AND name = ? AND object = ?`, o.scope, o.name, o.object)
	})
	return out, err
}

// expire removes what is found, in one transaction. Objects that nothing refers
// to any more are garbage from then on.
func (s *Store) expire(
	ctx context.Context, doing string, dry bool, out *records.Expired, n int,
	find func(tx Querier, now int64) ([]old, error), remove func(t *tx, o old) (sql.Result, error),
) error {
	if dry {
		return s.read(ctx, doing, func(q Querier) error {
			list, err := find(q, s.now().UnixNano())
			*out = records.Expired{Archives: len(list), More: len(list) == n}
			for _, o := range list {
				out.Bytes += o.size
			}
			return err
		})
	}
	return s.write(ctx, doing, func(t *tx) error {
		list, err := find(t, t.now)
		if err != nil {
			return err
		}
		*out = records.Expired{More: len(list) == n}
		for _, o := range list {
			done, err := remove(t, o)
			if err != nil {
				return err
			}
			if gone, err := done.RowsAffected(); err != nil || gone == 0 {
				if err != nil {
					return err
				}
				continue // somebody else was faster
			}
			out.Archives++
			out.Bytes += o.size
			if err := t.release(ctx, o.object); err != nil {
				return err
			}
		}
		return nil
	})
}

// release takes a reference off an object.
func (t *tx) release(ctx context.Context, object string) error {
	t.commit.Garbage = true
	_, err := t.Exec(ctx, `UPDATE archive_objects SET refs = refs - 1, due_at = ? WHERE object = ? AND refs > 0`, t.now, object)
	return err
}

// discardArchives releases what the archives of a run that is being deleted
// refer to.
func (t *tx) discardArchives(ctx context.Context, id run.ID) error {
	var objects []string
	if err := each(ctx, t, func(row scanner) error {
		var object string
		err := row.Scan(&object)
		objects = append(objects, object)
		return err
	}, `SELECT object FROM archives WHERE run_id = ? AND object <> '' ORDER BY object`, id); err != nil {
		return err
	}
	for _, object := range objects {
		if err := t.release(ctx, object); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, `DELETE FROM archives WHERE run_id = ?`, id)
	return err
}

// keepArchives gives a new run what kept tasks saved in the run that it was
// made of.
func (t *tx) keepArchives(ctx context.Context, tasks string, args []any) error {
	if t.dialect.ForUpdate != "" { // none may be removed between the two statements
		if err := each(ctx, t, func(row scanner) error {
			var step int
			return row.Scan(&step)
		}, `SELECT step FROM archives WHERE run_id = ? AND task IN `+tasks+` ORDER BY task, step`+t.dialect.ForUpdate, args[1:]...); err != nil {
			return err
		}
	}
	if _, err := t.Exec(ctx, `INSERT INTO archives (run_id, task, attempt, dispatch, step, kind, name, object, size, digest, tests, created_at, expires_at)
		SELECT ?, task, attempt, dispatch, step, kind, name, object, size, digest, tests, created_at, expires_at
		FROM archives WHERE run_id = ? AND task IN `+tasks, args...); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `UPDATE archive_objects SET refs = refs + 1 WHERE object IN
		(SELECT object FROM archives WHERE run_id = ? AND object <> '' AND task IN `+tasks+`)`, args[1:]...)
	return err
}

// TakeObjects implements records.Store.
func (s *Store) TakeObjects(ctx context.Context, n int, lease time.Duration) ([]string, error) {
	var objects []string
	err := s.write(ctx, "taking objects that are garbage", func(t *tx) error {
		objects = nil
		if err := each(ctx, t, func(row scanner) error {
			var object string
			err := row.Scan(&object)
			objects = append(objects, object)
			return err
		}, `SELECT object FROM archive_objects WHERE refs = 0 AND due_at <= ? ORDER BY due_at LIMIT ?`+t.dialect.SkipLocked, t.now, n); err != nil {
			return err
		}
		for _, object := range objects {
			if _, err := t.Exec(ctx, `UPDATE archive_objects SET taken = TRUE, due_at = ? WHERE object = ?`, t.now+int64(lease), object); err != nil {
				return err
			}
		}
		return nil
	})
	return objects, err
}

// DoneObjects implements records.Store.
func (s *Store) DoneObjects(ctx context.Context, objects []string) error {
	return s.write(ctx, "forgetting objects", func(t *tx) error {
		for _, object := range objects {
			if _, err := t.Exec(ctx, `DELETE FROM archive_objects WHERE object = ? AND refs = 0 AND taken`, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// ArchiveStats implements records.Store.
func (s *Store) ArchiveStats(ctx context.Context) (map[run.ArchiveKind]records.ArchiveStat, error) {
	var out map[run.ArchiveKind]records.ArchiveStat
	err := s.read(ctx, "counting archives", func(q Querier) error {
		out = map[run.ArchiveKind]records.ArchiveStat{run.ArchiveWorkspace: {}, run.ArchiveArtifact: {}, run.ArchiveCache: {}}
		return each(ctx, q, func(row scanner) error {
			var kind run.ArchiveKind
			var stat records.ArchiveStat
			err := row.Scan(&kind, &stat.Archives, &stat.Bytes)
			out[kind] = stat
			return err
		}, `SELECT kind, COUNT(*), COALESCE(SUM(size), 0) FROM archives WHERE object <> '' GROUP BY kind
			UNION ALL SELECT 'cache', COUNT(*), COALESCE(SUM(size), 0) FROM caches`)
	})
	return out, err
}

// ServiceKey implements records.Store.
func (s *Store) ServiceKey(ctx context.Context, name, first string) (string, error) {
	label, value := serviceLabel(name), ""
	err := s.write(ctx, "reading a key of the service", func(t *tx) error {
		stored := ""
		read := func() error {
			return t.QueryRow(ctx, `SELECT value FROM service_keys WHERE name = ?`, name).Scan(&stored)
		}
		err := read()
		if errors.Is(err, sql.ErrNoRows) {
			if _, err := t.Exec(ctx, `INSERT INTO service_keys (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING`,
				name, t.keys.Seal(label, first)); err != nil {
				return err
			}
			err = read()
		}
		if err != nil {
			return err
		}
		if value, err = t.keys.Open(label, stored); err != nil {
			return run.Errorf(run.CodeInternal, "the key %s of the service cannot be read: %w", name, err)
		}
		return nil
	})
	return value, err
}
