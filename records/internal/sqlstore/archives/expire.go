package archives

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// expiredArchive is an archive to be removed.
type expiredArchive struct {
	run                     run.ID
	task, attempt, dispatch int
	step                    int
	taskName                string
	scope, name             string // of a cache; the name also of an artifact
	object                  string
	size                    int64
	since                   int64
}

// eachExpired yields up to n expired archives of a kind, those that expired first;
// all if n is 0.
func eachExpired(ctx context.Context, q sqldb.Querier, kind run.ArchiveKind, keep run.ArchiveRetention, now int64, n int, yield func(expiredArchive)) error {
	limit := ``
	if n > 0 {
		limit = ` LIMIT ` + strconv.Itoa(n)
	}
	scan := func(row sqldb.Scanner) error {
		var o expiredArchive
		err := row.Scan(&o.run, &o.task, &o.attempt, &o.dispatch, &o.step, &o.name, &o.object, &o.size, &o.since, &o.taskName)
		yield(o)
		return err
	}
	const columns, from = `SELECT a.run_id, a.task, a.attempt, a.dispatch, a.step, a.name, a.object, a.size, `,
		`, t.name FROM archives a JOIN tasks t ON t.run_id = a.run_id AND t.number = a.task `
	switch kind {
	case run.ArchiveArtifact:
		return sqldb.Each(ctx, q, scan, columns+`a.expires_at`+from+`WHERE a.kind = 'artifact' AND a.expires_at > 0 AND a.object <> ''
			AND a.expires_at <= ? ORDER BY a.expires_at`+limit, now)
	case run.ArchiveWorkspace:
		if keep.Workspaces == 0 {
			return nil
		}
		// A run saves nothing after its end, so the creation time narrows the
		// search.
		before := now - int64(keep.Workspaces)
		return sqldb.Each(ctx, q, scan, columns+`r.ended_at`+from+`JOIN runs r ON r.id = a.run_id WHERE a.kind = 'workspace' AND a.object <> ''
			AND a.created_at <= ? AND r.ended_at > 0 AND r.ended_at <= ? ORDER BY a.created_at`+limit, before, before)
	case run.ArchiveCache:
		return eachExpiredCache(ctx, q, keep, now, limit, yield)
	}
	return run.Errorf(run.CodeInvalid, "%q is no kind of archive", kind)
}

// eachExpiredCache is eachExpired for caches.
func eachExpiredCache(ctx context.Context, q sqldb.Querier, keep run.ArchiveRetention, now int64, limit string, yield func(expiredArchive)) error {
	if keep.CacheUnused == 0 && keep.CacheBytes == 0 {
		return nil
	}
	var total int64
	if err := q.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0) FROM caches`).Scan(&total); err != nil {
		return err
	}
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var o expiredArchive
		if err := row.Scan(&o.scope, &o.name, &o.object, &o.size, &o.since); err != nil {
			return err
		}
		if keep.CacheUnused > 0 && o.since <= now-int64(keep.CacheUnused) || keep.CacheBytes > 0 && total > keep.CacheBytes {
			total -= o.size
			yield(o)
		}
		return nil
	}, `SELECT scope, name, object, size, used_at FROM caches ORDER BY used_at, scope, name`+limit)
}

// ExpireArchives implements records.Store, in one transaction. Objects without
// references are garbage from then on.
func (s *Store) ExpireArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (records.Expired, error) {
	var out records.Expired
	err := s.db.Write(ctx, "remove archives", func(t *sqldb.Tx) error {
		var list []expiredArchive
		if err := eachExpired(ctx, t, kind, keep, t.Now, n, func(o expiredArchive) { list = append(list, o) }); err != nil {
			return err
		}
		out = records.Expired{More: len(list) == n}
		for _, o := range list {
			gone, err := removeArchive(ctx, t, kind, o)
			if err != nil {
				return err
			}
			if !gone {
				continue // another process removed it
			}
			out.Archives++
			out.Bytes += o.size
			if err := dropReference(ctx, t, o.object); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

func removeArchive(ctx context.Context, t *sqldb.Tx, kind run.ArchiveKind, o expiredArchive) (bool, error) {
	var done sql.Result
	var err error
	if kind == run.ArchiveCache {
		done, err = t.Exec(ctx, `DELETE FROM caches WHERE scope = ? AND name = ? AND object = ?`, o.scope, o.name, o.object)
	} else {
		done, err = t.Exec(ctx, `UPDATE archives SET object = '' WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND step = ? AND object = ?`,
			o.run, o.task, o.attempt, o.dispatch, o.step, o.object)
	}
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// DueArchives implements records.Due.
func (s *Store) DueArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (run.RetentionDue, error) {
	var out run.RetentionDue
	err := s.db.Read(ctx, "find expired archives", func(q sqldb.Querier) error {
		out = run.RetentionDue{Kind: kind.Retention()}
		return eachExpired(ctx, q, kind, keep, s.db.Now().UnixNano(), 0, func(o expiredArchive) {
			out.Count++
			out.Bytes += o.size
			item := run.RetentionItem{Run: o.run, Task: o.taskName, Scope: o.scope, Name: o.name, Bytes: o.size, Since: sqldb.ToTime(o.since)}
			if out.Oldest.IsZero() || item.Since.Before(out.Oldest) {
				out.Oldest = item.Since
			}
			i, _ := slices.BinarySearchFunc(out.First, item, func(a, b run.RetentionItem) int { return cmp.Or(a.Since.Compare(b.Since), -1) })
			if out.First = slices.Insert(out.First, i, item); len(out.First) > n {
				out.First = out.First[:n]
			}
		})
	})
	return out, err
}

// dropReference drops a reference to an object.
func dropReference(ctx context.Context, t *sqldb.Tx, object string) error {
	t.Commit.Garbage = true
	return dropReferenceAfter(ctx, t, object, 0)
}

// dropReferenceAfter drops a reference to an object, which can be read for a time.
func dropReferenceAfter(ctx context.Context, t *sqldb.Tx, object string, life time.Duration) error {
	until := t.Now + int64(life)
	_, err := t.Exec(ctx, `UPDATE archive_objects SET refs = refs - 1, due_at = ?, readable_until = ? WHERE object = ? AND refs > 0`, until, until, object)
	return err
}

// DiscardArchives drops the references of the archives of a run that is being
// deleted.
func DiscardArchives(ctx context.Context, t *sqldb.Tx, id run.ID) error {
	var objects []string
	if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var object string
		err := row.Scan(&object)
		objects = append(objects, object)
		return err
	}, `SELECT object FROM archives WHERE run_id = ? AND object <> '' ORDER BY object`, id); err != nil {
		return err
	}
	for _, object := range objects {
		if err := dropReference(ctx, t, object); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, `DELETE FROM archives WHERE run_id = ?`, id)
	return err
}

// KeepArchives copies the archives of kept tasks to a new run that restarts an
// old one.
func KeepArchives(ctx context.Context, t *sqldb.Tx, kept rows.KeptTasks) error {
	if t.Dialect.ForUpdate != "" { // none may be removed between the two statements
		if err := sqldb.InChunks(slices.Sorted(maps.Values(kept.Numbers)), func(tasks string, args []any) error {
			return sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
				var step int
				return row.Scan(&step)
			}, `SELECT step FROM archives WHERE run_id = ? AND task IN `+tasks+` ORDER BY task, step`+t.Dialect.ForUpdate, append([]any{kept.From}, args...)...)
		}); err != nil {
			return err
		}
	}
	if err := kept.Copy(ctx, t, `INSERT INTO archives (run_id, task, attempt, dispatch, step, kind, name, object, size, digest, tests, created_at, expires_at)
		SELECT kept.run_id, kept.task, a.attempt, a.dispatch, a.step, a.kind, a.name, a.object, a.size, a.digest, a.tests, a.created_at, a.expires_at
		FROM kept JOIN archives a ON a.run_id = kept.from_run AND a.task = kept.from_task`); err != nil {
		return err
	}
	return kept.Copy(ctx, t, `UPDATE archive_objects SET refs = refs + 1 WHERE object IN
		(SELECT a.object FROM kept JOIN archives a ON a.run_id = kept.from_run AND a.task = kept.from_task WHERE a.object <> '')`)
}

// TakeObjects implements records.Store.
func (s *Store) TakeObjects(ctx context.Context, n int, lease time.Duration) ([]string, error) {
	var objects []string
	err := s.db.Write(ctx, "take garbage objects", func(t *sqldb.Tx) error {
		objects = nil
		if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var object string
			err := row.Scan(&object)
			objects = append(objects, object)
			return err
		}, `SELECT object FROM archive_objects WHERE refs = 0 AND due_at <= ? ORDER BY due_at LIMIT ?`+t.Dialect.SkipLocked, t.Now, n); err != nil {
			return err
		}
		for _, object := range objects {
			if _, err := t.Exec(ctx, `UPDATE archive_objects SET deleting = TRUE, due_at = ? WHERE object = ?`, t.Now+int64(lease), object); err != nil {
				return err
			}
		}
		return nil
	})
	return objects, err
}

// CompleteObjects implements records.Store.
func (s *Store) CompleteObjects(ctx context.Context, objects []string) error {
	return s.db.Write(ctx, "delete collected objects", func(t *sqldb.Tx) error {
		for _, object := range objects {
			if _, err := t.Exec(ctx, `DELETE FROM archive_objects WHERE object = ? AND refs = 0 AND deleting`, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// ArchiveStats implements records.Store.
func (s *Store) ArchiveStats(ctx context.Context) (map[run.ArchiveKind]run.ArchiveStat, error) {
	var out map[run.ArchiveKind]run.ArchiveStat
	err := s.db.Read(ctx, "count archives", func(q sqldb.Querier) error {
		out = map[run.ArchiveKind]run.ArchiveStat{run.ArchiveWorkspace: {}, run.ArchiveArtifact: {}, run.ArchiveCache: {}}
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var kind run.ArchiveKind
			var stat run.ArchiveStat
			err := row.Scan(&kind, &stat.Archives, &stat.Bytes)
			out[kind] = stat
			return err
		}, `SELECT kind, COUNT(*), COALESCE(SUM(size), 0) FROM (SELECT DISTINCT kind, object, size FROM archives WHERE object <> '') a GROUP BY kind
			UNION ALL SELECT 'cache', COUNT(*), COALESCE(SUM(size), 0) FROM caches`)
	})
	return out, err
}

// ServiceKey implements records.Store.
func (s *Store) ServiceKey(ctx context.Context, name, first string) (string, error) {
	label, value := sqldb.ServiceLabel(name), ""
	err := s.db.Write(ctx, "read a key of the service", func(t *sqldb.Tx) error {
		stored := ""
		read := func() error {
			return t.QueryRow(ctx, `SELECT value FROM service_keys WHERE name = ?`, name).Scan(&stored)
		}
		err := read()
		if errors.Is(err, sql.ErrNoRows) {
			if _, err := t.Exec(ctx, `INSERT INTO service_keys (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING`,
				name, t.Keys.Seal(label, first)); err != nil {
				return err
			}
			err = read()
		}
		if err != nil {
			return err
		}
		if value, err = t.Keys.Open(label, stored); err != nil {
			return run.Errorf(run.CodeInternal, "the key %s of the service cannot be read: %w", name, err)
		}
		return nil
	})
	return value, err
}
