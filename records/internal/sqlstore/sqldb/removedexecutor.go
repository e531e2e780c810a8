package sqldb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/run"
)

// WriteFor is Write for a call of the executor API. It refuses a removed
// executor in the transaction of the write, so that a removal either waits for
// the write or precedes it. Every such call uses WriteFor or ReadFor, except
// registration and renewal, which lock the executor themselves: see
// executors.checkJournal.
func (db *DB) WriteFor(ctx context.Context, doing, executor string, fn func(t *Tx) error) error {
	return db.Write(ctx, doing, func(t *Tx) error {
		if err := checkNotRemoved(ctx, t, executor, t.Dialect.ForKeyShare); err != nil {
			return err
		}
		return fn(t)
	})
}

// ReadFor is Read for a call of the executor API.
func (db *DB) ReadFor(ctx context.Context, doing, executor string, fn func(q Querier) error) error {
	return db.Read(ctx, doing, func(q Querier) error {
		if err := checkNotRemoved(ctx, q, executor, ""); err != nil {
			return err
		}
		return fn(q)
	})
}

// checkNotRemoved returns CodeForbidden for an executor that was removed.
func checkNotRemoved(ctx context.Context, q Querier, executor, lock string) error {
	var removed bool
	err := q.QueryRow(ctx, `SELECT removed FROM executors WHERE id = ?`+lock, executor).Scan(&removed)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case removed:
		return RemovedError(executor)
	}
	return nil
}

// RemovedError is the error of a call of an executor that was removed.
func RemovedError(executor string) error {
	return run.Errorf(run.CodeForbidden, "executor %s was removed", executor)
}
