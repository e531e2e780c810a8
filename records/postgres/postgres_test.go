package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/postgres"
	"github.com/drover-run/drover/records/recordstest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	testenv.RequirePostgres(t)
	recordstest.Run(t, func(t *testing.T) recordstest.Open {
		t.Helper()
		dsn := testenv.RequirePostgres(t)
		return func(t testing.TB, now func() time.Time) records.Store {
			t.Helper()
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{Now: now, MaxConns: 8})
			require.NoError(t, err)
			return s
		}
	})
}
