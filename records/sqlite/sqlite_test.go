package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest"
	"github.com/drover-run/drover/records/sqlite"
)

func TestStore(t *testing.T) {
	t.Parallel()
	recordstest.Run(t, func(t *testing.T) recordstest.Open {
		t.Helper()
		path := filepath.Join(t.TempDir(), "data", "drover.db")
		return func(t testing.TB, now func() time.Time) records.Store {
			t.Helper()
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: now})
			require.NoError(t, err)
			return s
		}
	})
}
