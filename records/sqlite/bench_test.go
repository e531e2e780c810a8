package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest"
	"github.com/drover-run/drover/records/sqlite"
)

func open(b *testing.B) records.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "drover.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func BenchmarkStore(b *testing.B) {
	recordstest.Bench(b, open)
}
