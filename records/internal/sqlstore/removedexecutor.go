package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/run"
)

// writeFor is Store.write for a call of the executor API. It refuses a removed
// executor in the transaction of the write, so that a removal either waits for
// the write or precedes it. Every such call uses writeFor or readFor, except
// registration and renewal, which lock the executor themselves: see
// checkJournal.
func (s *Store) writeFor(ctx context.Context, doing, executor string, fn func(t *tx) error) error {
	return s.write(ctx, doing, func(t *tx) error {
		if err := checkNotRemoved(ctx, t, executor, t.dialect.ForKeyShare); err != nil {
			return err
		}
		return fn(t)
	})
}

// readFor is Store.read for a call of the executor API.
func (s *Store) readFor(ctx context.Context, doing, executor string, fn func(q Querier) error) error {
	return s.read(ctx, doing, func(q Querier) error {
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
		return removedError(executor)
	}
	return nil
}

func removedError(executor string) error {
	return run.Errorf(run.CodeForbidden, "executor %s was removed", executor)
}
