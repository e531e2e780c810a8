package archives

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// claimedTask returns the task of a step for which an executor has an open claim.
func claimedTask(ctx context.Context, q sqldb.Querier, c records.ArchiveClaim) (*rows.Task, error) {
	k := c.Key
	var executor, set string
	err := q.QueryRow(ctx, `SELECT executor, set_name FROM claims WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch).Scan(&executor, &set)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	own := ""
	if err == nil && set != "" {
		if own, err = rows.SetOf(ctx, q, c.Executor); err != nil {
			return nil, err
		}
	}
	if executor == "" || executor != c.Executor && (set == "" || set != own) {
		return nil, run.Errorf(run.CodeNotFound, "executor %s has no claim on task %s", c.Executor, k)
	}
	x, err := rows.TaskNumbered(ctx, q, k.Run, k.Task)
	switch {
	case err != nil:
		return nil, err
	case x.Status.Final():
		return nil, run.Errorf(run.CodeConflict, "task %s of run %s is %s", x.Name, k.Run, x.Status)
	case x.Attempt != k.Attempt || x.Dispatch != k.Dispatch:
		return nil, run.Errorf(run.CodeConflict, "task %s of run %s was dispatched again since %s", x.Name, k.Run, k)
	}
	return x, nil
}

// ArchiveContext implements records.Store.
func (s *Store) ArchiveContext(ctx context.Context, c records.ArchiveClaim) (records.ArchiveContext, error) {
	var out records.ArchiveContext
	err := s.db.ReadFor(ctx, "read the archives of a step", c.Executor, func(q sqldb.Querier) error {
		x, err := claimedTask(ctx, q, c)
		if err != nil {
			return err
		}
		spec, err := rows.TaskSpec(ctx, q, c.Key.Run, x.Node)
		if err != nil {
			return err
		}
		if c.Step < 0 || c.Step >= len(spec.Steps) {
			return run.Errorf(run.CodeNotFound, "task %s has no step %d", x.Name, c.Step)
		}
		var header run.Spec
		var text string
		if err := q.QueryRow(ctx, `SELECT header FROM run_details WHERE run_id = ?`, c.Key.Run).Scan(&text); err != nil {
			return err
		}
		if err := sqldb.Unmarshal(text, &header); err != nil {
			return err
		}
		out = records.ArchiveContext{Step: spec.Steps[c.Step].ArchiveStep, Task: x.Name, Group: header.Group, Untrusted: header.Untrusted}
		return nil
	})
	return out, err
}

// ClaimSecrets implements records.Store.
func (s *Store) ClaimSecrets(ctx context.Context, c records.ArchiveClaim) (*run.Spec, error) {
	spec := new(run.Spec)
	err := s.db.Read(ctx, "read the secrets of a run", func(q sqldb.Querier) error {
		*spec = run.Spec{}
		if _, err := claimedTask(ctx, q, c); err != nil {
			return err
		}
		var header string
		var hidden sql.NullString
		if err := q.QueryRow(ctx, `SELECT d.header, x.secrets FROM run_details d LEFT JOIN run_secrets x ON x.run_id = d.run_id WHERE d.run_id = ?`, c.Key.Run).
			Scan(&header, &hidden); err != nil {
			return err
		}
		return errors.Join(sqldb.Unmarshal(header, spec), sqldb.OpenSecrets(s.db.Keys, sqldb.RunLabel(c.Key.Run), hidden.String, &spec.Secrets))
	})
	return spec, err
}

const (
	archiveColumns = `a.kind, a.run_id, a.step, a.name, a.object, a.size, a.digest, a.tests, a.created_at, a.expires_at`
	cacheColumns   = `scope, name, object, size, digest, created_at`
)

func scanArchive(row sqldb.Scanner, a *records.Archive, more ...any) error {
	var tests string
	var created, expires int64
	*a = records.Archive{}
	dest := append([]any{&a.Kind, &a.Run, &a.Step, &a.Name, &a.Object, &a.Size, &a.Digest, &tests, &created, &expires}, more...)
	if err := row.Scan(dest...); err != nil {
		return err
	}
	a.Created, a.Expires = sqldb.ToTime(created), sqldb.ToTime(expires)
	return sqldb.Unmarshal(tests, &a.Tests)
}

func scanCache(row sqldb.Scanner, a *records.Archive) error {
	var created int64
	*a = records.Archive{Kind: run.ArchiveCache}
	err := row.Scan(&a.Scope, &a.Name, &a.Object, &a.Size, &a.Digest, &created)
	a.Created = sqldb.ToTime(created)
	return err
}

// SavedArchive implements records.Store.
func (s *Store) SavedArchive(ctx context.Context, c records.ArchiveClaim, scope, name string) (*records.Archive, error) {
	var out *records.Archive
	err := s.db.ReadFor(ctx, "find a saved archive", c.Executor, func(q sqldb.Querier) error {
		x, err := claimedTask(ctx, q, c)
		if err != nil {
			return err
		}
		out, err = savedArchive(ctx, q, c, x, scope, name)
		return err
	})
	return out, err
}

func savedArchive(ctx context.Context, q sqldb.Querier, c records.ArchiveClaim, x *rows.Task, scope, name string) (*records.Archive, error) {
	var a records.Archive
	var err error
	if scope != "" {
		err = scanCache(q.QueryRow(ctx, `SELECT `+cacheColumns+` FROM caches WHERE scope = ? AND name = ?`, scope, name), &a)
	} else {
		k := c.Key
		err = scanArchive(q.QueryRow(ctx, `SELECT `+archiveColumns+` FROM archives a WHERE a.run_id = ? AND a.task = ? AND a.attempt = ?
			AND a.dispatch = ? AND a.step = ?`, k.Run, k.Task, k.Attempt, k.Dispatch, c.Step), &a)
		a.Task = x.Name
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return &a, err
}

// PutObject implements records.Store.
func (s *Store) PutObject(ctx context.Context, object string, lease time.Duration) error {
	return s.db.Write(ctx, "record an object", func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `INSERT INTO archive_objects (object, refs, deleting, due_at) VALUES (?, 0, FALSE, ?)
			ON CONFLICT (object) DO UPDATE SET due_at = excluded.due_at WHERE archive_objects.refs = 0 AND NOT archive_objects.deleting`,
			object, t.Now+int64(lease))
		return requireRow(done, err, object)
	})
}

// requireRow returns CodeGone if a statement changed no row: the object was removed.
func requireRow(done sql.Result, err error, object string) error {
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		err = run.Errorf(run.CodeGone, "object %s was removed: it was not completed in time", object)
	}
	return err
}

// CommitArchive implements records.Store.
func (s *Store) CommitArchive(ctx context.Context, c records.ArchiveClaim, a records.Archive) (records.Archive, error) {
	out := a
	err := s.db.WriteFor(ctx, "save an archive", c.Executor, func(t *sqldb.Tx) error {
		out = a
		out.Run, out.Step, out.Created = c.Key.Run, c.Step, sqldb.ToTime(t.Now)
		// Closing a claim and deleting a run take this lock too.
		prev, err := rows.LockRun(ctx, t, c.Key.Run)
		if err != nil {
			return err
		}
		x, err := claimedTask(ctx, t, c)
		if err != nil {
			return err
		}
		out.Task = x.Name
		inserted, err := insertArchive(ctx, t, c, out)
		for err == nil && !inserted && a.Replace {
			if err = takeCache(ctx, t, a.Scope, a.Name); err == nil {
				inserted, err = insertArchive(ctx, t, c, out) // another transaction may have been faster
			}
		}
		if err != nil {
			return err
		}
		if !inserted {
			saved, err := savedArchive(ctx, t, c, x, a.Scope, a.Name)
			if err != nil || saved == nil {
				return errors.Join(err, run.Errorf(run.CodeConflict, "the archive that was saved before was removed; save again"))
			}
			out = *saved
			_, err = t.Exec(ctx, `UPDATE archive_objects SET due_at = ? WHERE object = ? AND refs = 0`, t.Now, a.Object)
			return err
		}
		done, err := t.Exec(ctx, `UPDATE archive_objects SET refs = 1, due_at = 0 WHERE object = ? AND refs = 0 AND NOT deleting`, a.Object)
		if err := requireRow(done, err, a.Object); err != nil {
			return err
		}
		if a.Tests != nil { // readers of the run see the tests
			return rows.SaveRun(ctx, t, prev, prev.Clone())
		}
		return nil
	})
	return out, err
}

// takeCache removes the cache of a scope and name, and keeps its object for those who
// read it.
func takeCache(ctx context.Context, t *sqldb.Tx, scope, name string) error {
	var object string
	err := t.QueryRow(ctx, `DELETE FROM caches WHERE scope = ? AND name = ? RETURNING object`, scope, name).Scan(&object)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return dropReferenceAfter(ctx, t, object, records.ReplacedLease)
}

// insertArchive reports whether it inserted the archive; false means that there
// was one.
func insertArchive(ctx context.Context, t *sqldb.Tx, c records.ArchiveClaim, a records.Archive) (bool, error) {
	var done sql.Result
	var err error
	if a.Kind == run.ArchiveCache {
		done, err = t.Exec(ctx, `INSERT INTO caches (scope, name, object, size, digest, created_at, used_at) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, a.Scope, a.Name, a.Object, a.Size, a.Digest, t.Now, t.Now)
	} else {
		tests := ""
		if a.Tests != nil {
			if tests, err = sqldb.Marshal(a.Tests); err != nil {
				return false, err
			}
		}
		k := c.Key
		done, err = t.Exec(ctx, `INSERT INTO archives (run_id, task, attempt, dispatch, step, kind, name, object, size, digest, tests, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			k.Run, k.Task, k.Attempt, k.Dispatch, c.Step, a.Kind, a.Name, a.Object, a.Size, a.Digest, tests, t.Now, sqldb.FromTime(a.Expires))
	}
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// FindCache implements records.Store.
func (s *Store) FindCache(ctx context.Context, c records.ArchiveClaim, scopes, keys []string) (*records.Archive, error) {
	var out *records.Archive
	err := s.db.WriteFor(ctx, "find a cache", c.Executor, func(t *sqldb.Tx) error {
		out = nil
		if _, err := claimedTask(ctx, t, c); err != nil {
			return err
		}
		found, err := findCache(ctx, t, scopes, keys)
		if err != nil || found == nil {
			return err
		}
		out = found
		_, err = t.Exec(ctx, `UPDATE caches SET used_at = ? WHERE scope = ? AND name = ?`, t.Now, found.Scope, found.Name)
		return err
	})
	return out, err
}

func findCache(ctx context.Context, t *sqldb.Tx, scopes, keys []string) (*records.Archive, error) {
	for _, key := range keys {
		for _, where := range []string{`name = ?`, `name >= ? AND substr(name, 1, ?) = ?`} {
			args := []any{key}
			if where != `name = ?` {
				args = []any{key, len([]rune(key)), key}
			}
			for _, scope := range scopes {
				var a records.Archive
				err := scanCache(t.QueryRow(ctx, `SELECT `+cacheColumns+` FROM caches WHERE scope = ? AND `+where+`
					ORDER BY created_at DESC, name LIMIT 1`, append([]any{scope}, args...)...), &a)
				if err == nil {
					return &a, nil
				}
				if !errors.Is(err, sql.ErrNoRows) {
					return nil, err
				}
			}
		}
	}
	return nil, nil //nolint:nilnil // none is an answer
}

// CheckObjectAccess implements records.Store.
func (s *Store) CheckObjectAccess(ctx context.Context, c records.ArchiveClaim, object string) error {
	return s.db.ReadFor(ctx, "find an object", c.Executor, func(q sqldb.Querier) error {
		if _, err := claimedTask(ctx, q, c); err != nil {
			return err
		}
		var exists bool
		if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM archive_objects WHERE object = ? AND (refs > 0 OR NOT deleting AND readable_until > ?))`,
			object, s.db.Now().UnixNano()).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			return run.Errorf(run.CodeGone, "the archive was removed")
		}
		return nil
	})
}

// Artifacts implements records.Store.
func (s *Store) Artifacts(ctx context.Context, id run.ID) ([]records.Archive, error) {
	var out []records.Archive
	err := s.db.Read(ctx, "list artifacts", func(q sqldb.Querier) error {
		out = nil
		var exists bool
		if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?)`, id).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			return rows.RunNotFound(id)
		}
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var a records.Archive
			var task string
			err := scanArchive(row, &a, &task)
			a.Task = task
			out = append(out, a)
			return err
		}, `SELECT `+archiveColumns+`, t.name FROM archives a JOIN tasks t
			ON t.run_id = a.run_id AND t.number = a.task AND t.attempt = a.attempt AND t.dispatch = a.dispatch
			WHERE a.run_id = ? AND a.kind = 'artifact' ORDER BY t.name, a.name`, id)
	})
	return out, err
}

// TestsOf sums up the test reports of a run; nil if there are none.
func TestsOf(ctx context.Context, q sqldb.Querier, id run.ID) (*run.TestSummary, error) {
	var out *run.TestSummary
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var text string
		if err := row.Scan(&text); err != nil {
			return err
		}
		var tests run.TestSummary
		if err := sqldb.Unmarshal(text, &tests); err != nil {
			return err
		}
		if out == nil {
			out = new(run.TestSummary)
		}
		out.Add(tests)
		return nil
	}, `SELECT a.tests FROM archives a JOIN tasks t ON t.run_id = a.run_id AND t.number = a.task AND t.attempt = a.attempt AND t.dispatch = a.dispatch
		WHERE a.run_id = ? AND a.tests <> '' ORDER BY t.number, a.step`, id)
	return out, err
}
