package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/records/recordstest"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

// TestSchema_next_migration applies another migration, which a later build may
// have, to a store in use.
func TestSchema_next_migration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	created := create(t, path)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Check(t.Context()))

	known, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	files := fstest.MapFS{
		"migrations/99999_color.sql": {Data: []byte("-- +goose Up\nALTER TABLE runs ADD COLUMN color TEXT NOT NULL DEFAULT 'none';\n")},
	}
	for _, name := range known {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[filepath.ToSlash(name)] = &fstest.MapFile{Data: text}
	}
	db := raw(t, path)
	next, err := sqldb.NewSchema(goose.DialectSQLite3, db, files)
	require.NoError(t, err)
	require.NoError(t, next.Migrate(t.Context()))
	require.NoError(t, next.Migrate(t.Context()), "again")
	var color string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT color FROM runs WHERE id = ?", string(created.ID)).Scan(&color))
	require.Equal(t, "none", color)

	got, err := s.GetRun(t.Context(), created.ID)
	require.NoError(t, err, "a process of the previous build continues")
	require.Equal(t, created.ID, got.ID)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(s.Check(t.Context())))
	_, err = sqlite.Open(t.Context(), path, sqlite.Options{})
	require.Equal(t, run.CodeNotSupported, run.CodeOf(err), "a new process of the previous build")
}

// TestStore_unknown_grants: a newer version may store grants with keys that this one does
// not know. Such a key may restrict the grant, so it is not applied without it.
func TestStore_unknown_grants(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	known := run.RoleGrant{Subject: "ana", Role: "viewer", Groups: []string{"/acme/**"}}
	_, _, err = s.PutRoleGrants(t.Context(), run.RoleGrants{Name: "web", UpdatedBy: "ops", Grants: []run.RoleGrant{known}}, nil)
	require.NoError(t, err)
	_, err = raw(t, path).ExecContext(t.Context(), `UPDATE role_grants SET grants = ?`,
		`[{"subject": "*", "role": "admin", "groups": ["/**"], "until": "2027-01-01T00:00:00Z"}, {"subject": "ana", "role": "viewer", "groups": ["/acme/**"]}]`)
	require.NoError(t, err)
	all, err := s.ListRoleGrants(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.RoleGrant{known}, all[0].Grants)
	require.Equal(t, 1, all[0].Unknown)
}

// TestStore_finds_runs_of_earlier_versions by their warnings and inputs.
func TestStore_finds_runs_of_earlier_versions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	recordstest.RunFound(t, func() records.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}, func(ctx context.Context, statement string, args ...any) error {
		_, err := raw(t, path).ExecContext(ctx, statement, args...)
		return err
	})
}
