package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

// TestSchema_next_migration applies a second migration, which a later build may
// have, to a store in use.
func TestSchema_next_migration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	created := create(t, path)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Check(t.Context()))

	files := fstest.MapFS{}
	released, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	for _, name := range released {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: text}
	}
	for name, file := range map[string]*fstest.MapFile{
		"migrations/99999_color.sql": {Data: []byte("-- +goose Up\nALTER TABLE runs ADD COLUMN color TEXT NOT NULL DEFAULT 'none';\n")},
	} {
		files[name] = file
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
