// Package rolegrants stores the grants of roles to users of an identity provider.
package rolegrants

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Store is the part of a records.Store that concerns role grants.
type Store struct{ db *sqldb.DB }

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db} }

// ListRoleGrants implements records.Store.
func (s *Store) ListRoleGrants(ctx context.Context) (out []run.RoleGrants, err error) {
	err = s.db.Read(ctx, "list role grants", func(q sqldb.Querier) error {
		out = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var r stored
			if err := row.Scan(&r.Name, &r.Issuer, &r.text, &r.Note, &r.Version, &r.updated, &r.UpdatedBy); err != nil {
				return err
			}
			out = append(out, r.read())
			return nil
		}, `SELECT name, issuer, grants, note, version, updated_at, updated_by FROM role_grants ORDER BY name`)
	})
	return out, err
}

// PutRoleGrants implements records.Store.
func (s *Store) PutRoleGrants(ctx context.Context, g run.RoleGrants, expected *int64) (put run.RoleGrants, created bool, err error) {
	text, err := sqldb.Marshal(g.Grants)
	if err != nil {
		return run.RoleGrants{}, false, s.db.Wrap("put role grants", err)
	}
	err = s.db.Write(ctx, "put role grants", func(t *sqldb.Tx) error {
		version, before, err := lock(ctx, t, g.Name, expected)
		if err != nil {
			return err
		}
		if created = before == nil; created {
			var lists int
			if err := t.QueryRow(ctx, `SELECT COUNT(*) FROM role_grants`).Scan(&lists); err != nil {
				return err
			}
			if lists >= run.MaxRoleGrantLists {
				return run.Errorf(run.CodeExhausted, "there are %d lists of role grants already: delete some, or add the grants to one of them", run.MaxRoleGrantLists)
			}
		} else if before.text == text && before.Note == g.Note && before.Issuer == g.Issuer {
			put = before.read()
			return nil
		}
		put = g
		put.Version, put.UpdatedAt = version, sqldb.ToTime(t.Now)
		_, err = t.Exec(ctx, `INSERT INTO role_grants (name, issuer, grants, note, version, updated_at, updated_by) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET issuer = excluded.issuer, grants = excluded.grants, note = excluded.note, version = excluded.version,
			updated_at = excluded.updated_at, updated_by = excluded.updated_by`,
			g.Name, g.Issuer, text, g.Note, version, t.Now, g.UpdatedBy)
		return err
	})
	return put, created, err
}

// DeleteRoleGrants implements records.Store.
func (s *Store) DeleteRoleGrants(ctx context.Context, name string, expected *int64) error {
	return s.db.Write(ctx, "delete role grants", func(t *sqldb.Tx) error {
		_, before, err := lock(ctx, t, name, expected)
		if err != nil {
			return err
		}
		if before == nil {
			return run.Errorf(run.CodeNotFound, "there are no role grants %s", name)
		}
		_, err = t.Exec(ctx, `DELETE FROM role_grants WHERE name = ?`, name)
		return err
	})
}

// lock makes all other changes wait, and returns the version of this one and the stored
// list, nil if there is none. Errors: conflict.
func lock(ctx context.Context, t *sqldb.Tx, name string, expected *int64) (version int64, _ *stored, _ error) {
	if err := t.QueryRow(ctx, `UPDATE role_grant_versions SET last = last + 1 WHERE id = 1 RETURNING last`).Scan(&version); err != nil {
		return 0, nil, err
	}
	r := &stored{}
	err := t.QueryRow(ctx, `SELECT name, issuer, grants, note, version, updated_at, updated_by FROM role_grants WHERE name = ?`, name).
		Scan(&r.Name, &r.Issuer, &r.text, &r.Note, &r.Version, &r.updated, &r.UpdatedBy)
	switch {
	case errors.Is(err, sql.ErrNoRows) && expected != nil && *expected != 0:
		return 0, nil, run.Errorf(run.CodeConflict, "the role grants %s were deleted; the expected version is %d", name, *expected)
	case errors.Is(err, sql.ErrNoRows):
		return version, nil, nil
	case err != nil:
		return 0, nil, err
	case expected != nil && *expected == 0:
		return 0, nil, run.Errorf(run.CodeConflict, "the role grants %s exist already", name)
	case expected != nil && *expected != r.Version:
		return 0, nil, run.Errorf(run.CodeConflict, "%s changed the role grants %s at %s: their version is %d, not %d",
			r.UpdatedBy, name, sqldb.ToTime(r.updated).Format(time.RFC3339), r.Version, *expected)
	}
	return version, r, nil
}

// stored is a row.
type stored struct {
	run.RoleGrants

	text    string
	updated int64
}

// read decodes the grants. One with an unknown key is left out: the key may restrict it.
// Grants of another form are one that is unknown: a list must not keep the others from
// being read.
func (r stored) read() run.RoleGrants {
	g := r.RoleGrants
	g.UpdatedAt = sqldb.ToTime(r.updated)
	var all []json.RawMessage
	if err := sqldb.Unmarshal(r.text, &all); err != nil {
		g.Unknown = 1
		return g
	}
	for _, raw := range all {
		var one run.RoleGrant
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			g.Unknown++
			continue
		}
		g.Grants = append(g.Grants, one)
	}
	return g
}
