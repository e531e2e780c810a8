package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// interrupted is a backend that calls a function once, before a write.
type interrupted struct {
	*backend
	beforeWrite func()
}

func (b *interrupted) Write(ctx context.Context, fn func(sqldb.Querier) error) error {
	if before := b.beforeWrite; before != nil {
		b.beforeWrite = nil
		before()
	}
	return b.backend.Write(ctx, fn)
}

// TestStore_grant_meets_another admits runs of two groups with a grant for one, after the
// grant for the other has found them.
func TestStore_grant_meets_another(t *testing.T) {
	const batch = 50 // as many runs as one grant admits
	path := filepath.Join(t.TempDir(), "drover.db")
	db, err := sql.Open("sqlite", dsn(path))
	require.NoError(t, err)
	schema, err := migrate(t.Context(), db, path)
	require.NoError(t, err)
	hub := sqldb.NewHub()
	inner, err := newBackend(t.Context(), db, hub, Options{Readers: 1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	b := &interrupted{backend: inner}
	s := sqlstore.New(b, dialect(), schema, hub, sqldb.Options{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	for _, name := range []string{"a", "b"} {
		fixture.Limit(t, s, name, 1, run.OnBusyQueue)
	}
	holder := fixture.Create(t, s, fixture.Grouped(0, "a", "b"))
	var both []records.Grant
	for range batch {
		both = append(both, records.Grant{Run: fixture.Create(t, s, fixture.Grouped(0, "a", "b")).ID, Task: -1})
	}
	last := fixture.Create(t, s, fixture.Grouped(0, "a"))
	fixture.Finish(t, s, holder.ID)
	for _, name := range []string{"a", "b"} {
		fixture.Limit(t, s, name, 0, run.OnBusyQueue)
	}

	b.beforeWrite = func() {
		granted, _, err := s.Grant(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, both, granted)
	}
	granted, more, err := s.Grant(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, granted)
	require.True(t, more, "another run waits behind them")
	granted, more, err = s.Grant(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []records.Grant{{Run: last.ID, Task: -1}}, granted)
	require.False(t, more)
}
