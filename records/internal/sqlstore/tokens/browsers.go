package tokens

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// CreateBrowserSession implements records.Store.
func (s *Store) CreateBrowserSession(ctx context.Context, b run.BrowserSession) error {
	return s.db.Write(ctx, "begin the session of a browser", func(t *sqldb.Tx) error {
		_, err := t.Exec(ctx, `INSERT INTO browser_sessions (hash, token, name, browser, created_at, used_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			b.Hash, b.Token, b.Name, b.Browser, t.Now, t.Now, b.Expires.UnixNano())
		return err
	})
}

// ReadBrowserSession implements records.Store.
func (s *Store) ReadBrowserSession(ctx context.Context, hash string) (b run.BrowserSession, err error) {
	err = s.db.Read(ctx, "read the session of a browser", func(q sqldb.Querier) error {
		var created, used, expires int64
		err := q.QueryRow(ctx, `SELECT hash, token, name, browser, created_at, used_at, expires_at FROM browser_sessions WHERE hash = ?`, hash).
			Scan(&b.Hash, &b.Token, &b.Name, &b.Browser, &created, &used, &expires)
		if errors.Is(err, sql.ErrNoRows) {
			return run.Errorf(run.CodeNotFound, "there is no such session")
		}
		b.Created, b.LastUsed, b.Expires = sqldb.ToTime(created), sqldb.ToTime(used), sqldb.ToTime(expires)
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
