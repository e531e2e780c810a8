package rows

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Claimant is the executor that has claimed a key; executor is "" if there is
// no claim.
type Claimant struct{ Executor, Set, Journal string }

// OwnedBy reports whether a claim is an executor's. Each member of a set shares the
// claims of the others.
func (c Claimant) OwnedBy(executor, set string) bool {
	return c.Executor == executor || c.Set != "" && c.Set == set
}

// ReleasedBy reports whether the claim's own journal released it. A release
// without a journal is the answer of an executor that was queried about its
// claim.
func (c Claimant) ReleasedBy(r run.Release) bool {
	if r.JournalID != "" {
		return r.JournalID == c.Journal
	}
	return r.Executor != "" && r.Executor == c.Executor || r.Set != "" && r.Set == c.Set
}

// ReadClaimant returns the claim of a key.
func ReadClaimant(ctx context.Context, t *sqldb.Tx, k run.Key) (c Claimant, err error) {
	err = t.QueryRow(ctx, `SELECT executor, set_name, journal_id FROM claims WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch).Scan(&c.Executor, &c.Set, &c.Journal)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return c, err
}

// SetOf returns the set of an executor, "" for none. It is the set with which
// the executor registered, which its credentials allow.
func SetOf(ctx context.Context, q sqldb.Querier, executor string) (set string, err error) {
	err = q.QueryRow(ctx, `SELECT set_name FROM executors WHERE id = ?`, executor).Scan(&set)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return set, err
}
