package tokens

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// CreateBrowserSession implements records.Store.
func (s *Store) CreateBrowserSession(ctx context.Context, b run.BrowserSession) error {
	return s.db.Write(ctx, "begin the session of a browser", func(t *sqldb.Tx) error {
		identity, sealed, confirmed, err := provided(b)
		if err != nil {
			return err
		}
		_, err = t.Exec(ctx, `INSERT INTO browser_sessions (hash, token, name, browser, created_at, used_at, expires_at, identity, sealed, confirmed_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			b.Hash, b.Token, b.Name, b.Browser, t.Now, t.Now, b.Expires.UnixNano(), identity, sealed, confirmed)
		return err
	})
}

// provided returns the columns of the session of a provider's user, NULL for others.
func provided(b run.BrowserSession) (identity, sealed sql.NullString, confirmed sql.NullInt64, err error) {
	if b.Identity.Issuer == "" {
		return identity, sealed, confirmed, nil
	}
	text, err := json.Marshal(b.Identity)
	if err != nil {
		return identity, sealed, confirmed, fmt.Errorf("encode the identity: %w", err)
	}
	return sql.NullString{String: string(text), Valid: true}, sql.NullString{String: b.Sealed, Valid: true},
		sql.NullInt64{Int64: b.Confirmed.UnixNano(), Valid: true}, nil
}

// ClaimBrowserConfirmation implements records.Store.
func (s *Store) ClaimBrowserConfirmation(ctx context.Context, hash string, expected, next time.Time) (claimed bool, err error) {
	err = s.db.Write(ctx, "claim the confirmation of the session of a browser", func(t *sqldb.Tx) error {
		result, err := t.Exec(ctx, `UPDATE browser_sessions SET confirm_after = ? WHERE hash = ? AND confirm_after = ?`,
			sqldb.FromTime(next), hash, sqldb.FromTime(expected))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		claimed = n == 1
		return err
	})
	return claimed, err
}

// ConfirmBrowserSession implements records.Store.
func (s *Store) ConfirmBrowserSession(ctx context.Context, b run.BrowserSession) error {
	return s.db.Write(ctx, "confirm the session of a browser", func(t *sqldb.Tx) error {
		identity, sealed, confirmed, err := provided(b)
		if err != nil {
			return err
		}
		_, err = t.Exec(ctx, `UPDATE browser_sessions SET identity = ?, sealed = ?, confirmed_at = ?, confirm_after = ? WHERE hash = ?`,
			identity, sealed, confirmed, sqldb.FromTime(b.ConfirmAfter), b.Hash)
		return err
	})
}

// ReadBrowserSession implements records.Store.
func (s *Store) ReadBrowserSession(ctx context.Context, hash string) (b run.BrowserSession, err error) {
	err = s.db.Read(ctx, "read the session of a browser", func(q sqldb.Querier) error {
		var created, used, expires, after int64
		var identity, sealed sql.NullString
		var confirmed sql.NullInt64
		err := q.QueryRow(ctx, `SELECT hash, token, name, browser, created_at, used_at, expires_at, identity, sealed, confirmed_at, confirm_after
			FROM browser_sessions WHERE hash = ?`, hash).
			Scan(&b.Hash, &b.Token, &b.Name, &b.Browser, &created, &used, &expires, &identity, &sealed, &confirmed, &after)
		if errors.Is(err, sql.ErrNoRows) {
			return run.Errorf(run.CodeNotFound, "there is no such session")
		}
		if err != nil {
			return err
		}
		b.Created, b.LastUsed, b.Expires = sqldb.ToTime(created), sqldb.ToTime(used), sqldb.ToTime(expires)
		b.Sealed, b.Confirmed, b.ConfirmAfter = sealed.String, sqldb.ToTime(confirmed.Int64), sqldb.ToTime(after)
		if identity.Valid {
			err = json.Unmarshal([]byte(identity.String), &b.Identity)
		}
		return err
	})
	return b, err
}

// RecordBrowserUses implements records.Store.
func (s *Store) RecordBrowserUses(ctx context.Context, uses map[string]time.Time) error {
	if len(uses) == 0 {
		return nil
	}
	return s.db.Write(ctx, "record the uses of sessions of browsers", func(t *sqldb.Tx) error {
		// All gateways write in the same order, so that they do not lock each other out.
		for _, hash := range slices.Sorted(maps.Keys(uses)) {
			at := uses[hash].UnixNano()
			if _, err := t.Exec(ctx, `UPDATE browser_sessions SET used_at = ? WHERE hash = ? AND used_at < ?`, at, hash, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// EndBrowserSession implements records.Store.
func (s *Store) EndBrowserSession(ctx context.Context, hash string) error {
	return s.db.Write(ctx, "end the session of a browser", func(t *sqldb.Tx) error {
		_, err := t.Exec(ctx, `DELETE FROM browser_sessions WHERE hash = ?`, hash)
		return err
	})
}

// EndBrowserSessions implements records.Store.
func (s *Store) EndBrowserSessions(ctx context.Context, token string) error {
	return s.db.Write(ctx, "end the sessions of browsers", func(t *sqldb.Tx) error {
		_, err := t.Exec(ctx, `DELETE FROM browser_sessions WHERE token = ?`, token)
		return err
	})
}

// ForgetBrowserSessions implements records.Store.
func (s *Store) ForgetBrowserSessions(ctx context.Context, unused time.Time, n int) (removed int, err error) {
	err = s.db.Write(ctx, "forget sessions of browsers", func(t *sqldb.Tx) error {
		result, err := t.Exec(ctx, `DELETE FROM browser_sessions WHERE hash IN (
			SELECT hash FROM browser_sessions WHERE used_at < ? OR expires_at < ? LIMIT ?)`, unused.UnixNano(), t.Now, n)
		if err != nil {
			return err
		}
		count, err := result.RowsAffected()
		removed = int(count)
		return err
	})
	return removed, err
}
