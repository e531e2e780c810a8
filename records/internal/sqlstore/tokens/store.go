// Package tokens stores the last uses and the revocations of bearer tokens.
package tokens

import (
	"cmp"
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Store is the part of a records.Store that concerns bearer tokens.
type Store struct{ db *sqldb.DB }

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db} }

// TokenRecords implements records.Store.
func (s *Store) TokenRecords(ctx context.Context, revoked bool) (out []run.TokenRecord, err error) {
	err = s.db.Read(ctx, "read the records of tokens", func(q sqldb.Querier) error {
		out = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var r run.TokenRecord
			var used, revokedAt, expires int64
			var entry string
			if err := row.Scan(&r.Hash, &r.Name, &used, &revokedAt, &r.RevokedBy, &entry, &expires, &r.CreatedBy); err != nil {
				return err
			}
			r.LastUsed, r.RevokedAt, r.Expires = sqldb.ToTime(used), sqldb.ToTime(revokedAt), sqldb.ToTime(expires)
			if entry != "" {
				r.Entry = new(run.TokenEntry)
			}
			out = append(out, r)
			return sqldb.Unmarshal(entry, r.Entry)
		}, `SELECT hash, name, used_at, revoked_at, revoked_by, entry, expires_at, created_by FROM bearer_tokens
			WHERE revoked_at > 0 OR entry <> '' OR NOT ? ORDER BY hash`, revoked)
	})
	return out, err
}

// CreateToken implements records.Store.
func (s *Store) CreateToken(ctx context.Context, r run.TokenRecord) error {
	entry, err := sqldb.Marshal(r.Entry)
	if err != nil {
		return s.db.Wrap("create a token", err)
	}
	return s.db.Write(ctx, "create a token", func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `INSERT INTO bearer_tokens (hash, name, entry, expires_at, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, r.Hash, r.Name, entry, sqldb.FromTime(r.Expires), t.Now, r.CreatedBy)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return cmp.Or[error](err, run.Errorf(run.CodeConflict, "there is a token named %s", r.Name))
		}
		return nil
	})
}

// RecordTokenUses implements records.Store.
func (s *Store) RecordTokenUses(ctx context.Context, uses []run.TokenRecord) error {
	if len(uses) == 0 {
		return nil
	}
	return s.db.Write(ctx, "record the uses of tokens", func(t *sqldb.Tx) error {
		for _, u := range uses {
			if _, err := t.Exec(ctx, `INSERT INTO bearer_tokens (hash, name, used_at) VALUES (?, ?, ?)
				ON CONFLICT (hash) DO UPDATE SET name = excluded.name, used_at = excluded.used_at WHERE bearer_tokens.used_at < excluded.used_at`,
				u.Hash, u.Name, u.LastUsed.UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
}

// RecordTokenRevocation implements records.Store.
func (s *Store) RecordTokenRevocation(ctx context.Context, r run.TokenRecord) error {
	return s.db.Write(ctx, "revoke a token", func(t *sqldb.Tx) error {
		_, err := t.Exec(ctx, `INSERT INTO bearer_tokens (hash, name, revoked_at, revoked_by) VALUES (?, ?, ?, ?)
			ON CONFLICT (hash) DO UPDATE SET revoked_at = excluded.revoked_at, revoked_by = excluded.revoked_by WHERE bearer_tokens.revoked_at = 0`,
			r.Hash, r.Name, t.Now, r.RevokedBy)
		return err
	})
}
