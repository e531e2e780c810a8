package postgres

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestConnector replaces the password of new connections, in the connection string
// and in a file that it names.
func TestConnector(t *testing.T) {
	t.Parallel()
	dsn := "postgres://drover:one@db.test/records"
	first, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	tune(first)
	var log bytes.Buffer
	c := newConnector(first, dsn, Options{CurrentDSN: func() string { return dsn }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	given := *first
	require.NoError(t, c.refresh(t.Context(), &given))
	require.Equal(t, "one", given.Password)

	passwords := filepath.Join(t.TempDir(), "pgpass")
	require.NoError(t, os.WriteFile(passwords, []byte("db.test:5432:records:drover:two\n"), 0o600))
	dsn = "postgres://drover@db.test/records?passfile=" + passwords
	require.NoError(t, c.refresh(t.Context(), &given))
	require.Equal(t, "two", given.Password)
	require.Equal(t, "off", given.RuntimeParams["jit"])
	require.NoError(t, os.WriteFile(passwords, []byte("db.test:5432:records:drover:three\n"), 0o600))
	require.Equal(t, "three", c.config(t.Context()).Password)
	require.Empty(t, log.String())

	for _, bad := range []string{"postgres://drover:hunter2@db.test:none/records", "postgres://drover:hunter2@other.test/records", "postgres://drover:hunter2@db.test/other"} {
		dsn = bad
		got := c.config(t.Context())
		require.Equal(t, "three", got.Password, bad)
		require.Equal(t, "db.test", got.Host)
		require.Contains(t, log.String(), "level=WARN")
		require.NotContains(t, log.String(), "hunter2")
		log.Reset()
	}
}
