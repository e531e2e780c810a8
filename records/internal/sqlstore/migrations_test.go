package sqlstore_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// released holds the digests of the migrations, in order. A migration in this
// table is part of databases in use: it never changes, and the next change of the
// schema is a new file and a new line.
var released = map[string][]string{
	"sqlite":   {"025abb0923db7bab1aaea74aa76553be7a4ec3078b13a8b35629eb45f0f4211d"},
	"postgres": {"a1aad55e5c8725bb76d8af940975c351ec26e00910826e6b31b6c0cd4490ba2c"},
}

func TestMigrations_unchanged(t *testing.T) {
	t.Parallel()
	for store, want := range released {
		files, err := filepath.Glob(filepath.Join("..", "..", store, "migrations", "*.sql"))
		require.NoError(t, err)
		var got []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sum := sha256.Sum256(text)
			got = append(got, hex.EncodeToString(sum[:]))
		}
		require.Equal(t, want, got, "a migration of %s changed, or has no line in released", store)
	}
}
