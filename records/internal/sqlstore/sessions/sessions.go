package sessions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// gatewayLost is the end of a session whose lease expired.
const gatewayLost = "its gateway was lost"

// OpenSession implements records.Store.
func (s *Store) OpenSession(ctx context.Context, n records.NewSession) (out records.Session, err error) {
	err = s.db.Write(ctx, "open a session", func(t *sqldb.Tx) error {
		r, err := rows.LockRun(ctx, t, n.Run)
		if err != nil {
			return err
		}
		x, err := rows.TaskNamed(ctx, t, n.Run, n.Task)
		if err != nil {
			return err
		}
		if x.Status != run.StatusRunning || r.Phase.Final() {
			return run.Errorf(run.CodeConflict, "task %s is %s and does not run", x.Name, x.Status)
		}
		out = records.Session{ID: n.ID, Key: run.Key{Run: n.Run, Task: x.Number, Attempt: x.Attempt, Dispatch: x.Dispatch}}
		by, err := rows.ReadClaimant(ctx, t, out.Key)
		if err != nil {
			return err
		}
		if by.Executor == "" {
			return run.Errorf(run.CodeConflict, "task %s does not run on an executor", x.Name)
		}
		out.Executor, out.Set = by.Executor, by.Set
		if err := checkPolicy(ctx, t, x); err != nil {
			return err
		}
		if err := checkLimit(ctx, t, out, n.Limit); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `INSERT INTO exec_sessions (id, run_id, task, attempt, dispatch, executor, set_name, subject, created_at, lease_until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			n.ID, n.Run, x.Number, x.Attempt, x.Dispatch, out.Executor, out.Set, n.Subject, t.Now, t.Now+int64(n.Lease)); err != nil {
			return err
		}
		does := "runs " + n.Command + " in the task"
		if n.Command == "" {
			does = "releases the held task"
		}
		emit(t, r, x, fmt.Sprintf("%s %s (session %s)", n.Subject, does, n.ID))
		return nil
	})
	return out, err
}

// checkPolicy returns an error if the pool of a task forbids sessions. A pool that was
// deleted forbids nothing.
func checkPolicy(ctx context.Context, t *sqldb.Tx, x *rows.Task) error {
	var policy run.ExecPolicy
	err := t.QueryRow(ctx, `SELECT exec_policy FROM pools WHERE name = ?`, x.Pool).Scan(&policy)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case policy == run.ExecForbidden:
		return run.Errorf(run.CodeForbidden, "pool %s forbids commands in its tasks", x.Pool)
	}
	return nil
}

func checkLimit(ctx context.Context, t *sqldb.Tx, s records.Session, limit int) error {
	var open int
	if err := t.QueryRow(ctx, `SELECT count(*) FROM exec_sessions WHERE lease_until > ? AND (executor = ? OR set_name <> '' AND set_name = ?)`,
		t.Now, s.Executor, s.Set).Scan(&open); err != nil {
		return err
	}
	if open >= limit {
		return run.Errorf(run.CodeExhausted, "executor %s has %d sessions, which is the limit", s.Executor, open)
	}
	return nil
}

func emit(t *sqldb.Tx, r *rows.Run, x *rows.Task, text string) {
	e := x.Event(r, t.Now)
	e.Type, e.Reason = run.EventExec, sqldb.Clip(text)
	t.Emit(e)
}

// WaitingSessions implements records.Store.
func (s *Store) WaitingSessions(ctx context.Context) (out []records.Session, err error) {
	err = s.db.Read(ctx, "read waiting sessions", func(q sqldb.Querier) error {
		out = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var w records.Session
			err := row.Scan(&w.ID, &w.Key.Run, &w.Key.Task, &w.Key.Attempt, &w.Key.Dispatch, &w.Executor, &w.Set)
			out = append(out, w)
			return err
		}, `SELECT id, run_id, task, attempt, dispatch, executor, set_name FROM exec_sessions WHERE NOT joined AND lease_until > ? ORDER BY created_at, id`,
			s.db.Now().UnixNano())
	})
	return out, err
}

// OfferSession implements records.Store.
func (s *Store) OfferSession(ctx context.Context, id, executor, digest string, hold time.Duration) (ok bool, err error) {
	err = s.db.WriteFor(ctx, "offer a session", executor, func(t *sqldb.Tx) error {
		set, err := rows.SetOf(ctx, t, executor)
		if err != nil {
			return err
		}
		done, err := t.Exec(ctx, `UPDATE exec_sessions SET offered_to = ?, offered_until = ?, digest = ?
			WHERE id = ? AND NOT joined AND offered_until <= ? AND (executor = ? OR set_name <> '' AND set_name = ?)`,
			executor, t.Now+int64(hold), digest, id, t.Now, executor, set)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		ok = n > 0
		return err
	})
	return ok, err
}

// JoinSession implements records.Store.
func (s *Store) JoinSession(ctx context.Context, id, executor, digest string) error {
	return s.db.WriteFor(ctx, "join a session", executor, func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `UPDATE exec_sessions SET joined = TRUE, digest = ''
			WHERE id = ? AND NOT joined AND offered_to = ? AND offered_until > ? AND digest <> '' AND digest = ?`, id, executor, t.Now, digest)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err == nil && n == 0 {
			err = run.Errorf(run.CodeConflict, "the session is not offered to executor %s", executor)
		}
		return err
	})
}

// KeepSessions implements records.Store.
func (s *Store) KeepSessions(ctx context.Context, ids []string, lease time.Duration) error {
	if len(ids) == 0 {
		return nil
	}
	return s.db.Write(ctx, "renew the leases of sessions", func(t *sqldb.Tx) error {
		_, err := t.Exec(ctx, `UPDATE exec_sessions SET lease_until = ? WHERE id IN (`+sqldb.Tuples(`?`, len(ids))+`)`,
			append([]any{t.Now + int64(lease)}, sqldb.TextArgs(ids)...)...)
		return err
	})
}

// EndSession implements records.Store.
func (s *Store) EndSession(ctx context.Context, id, how string) error {
	return s.db.Write(ctx, "end a session", func(t *sqldb.Tx) error { return end(ctx, t, id, how) })
}

// end removes a session and appends its event, unless its run was deleted.
func end(ctx context.Context, t *sqldb.Tx, id, how string) error {
	var key run.Key
	var subject string
	err := t.QueryRow(ctx, `SELECT run_id, task, subject FROM exec_sessions WHERE id = ?`, id).Scan(&key.Run, &key.Task, &subject)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := rows.LockRun(ctx, t, key.Run) // before the deletion: two ends append one event
	if err != nil && run.CodeOf(err) != run.CodeNotFound {
		return err
	}
	done, deleteErr := t.Exec(ctx, `DELETE FROM exec_sessions WHERE id = ?`, id)
	if deleteErr != nil {
		return deleteErr
	}
	if n, deleteErr := done.RowsAffected(); deleteErr != nil || n == 0 || err != nil {
		return deleteErr
	}
	x, err := rows.TaskNumbered(ctx, t, key.Run, key.Task)
	if err != nil {
		return err
	}
	emit(t, r, x, fmt.Sprintf("session %s of %s ended: %s", id, subject, how))
	return nil
}

// ExpireSessions implements records.Store.
func (s *Store) ExpireSessions(ctx context.Context) (n int, err error) {
	var ids []string
	err = s.db.Read(ctx, "read expired sessions", func(q sqldb.Querier) error {
		ids = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id string
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		}, `SELECT id FROM exec_sessions WHERE lease_until <= ?`, s.db.Now().UnixNano())
	})
	for _, id := range ids {
		if err != nil {
			break
		}
		err = s.db.Write(ctx, "expire a session", func(t *sqldb.Tx) error {
			var until int64 // the gateway may have renewed the lease meanwhile
			err := t.QueryRow(ctx, `SELECT lease_until FROM exec_sessions WHERE id = ?`, id).Scan(&until)
			if errors.Is(err, sql.ErrNoRows) || err == nil && until > t.Now {
				return nil
			}
			if err != nil {
				return err
			}
			n++
			return end(ctx, t, id, gatewayLost)
		})
	}
	return n, err
}
