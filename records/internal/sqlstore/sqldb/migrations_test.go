package sqldb_test

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
	"sqlite": {"88278e150244a4220cf6b28402ec1956d423bc544e8f5c282170f0ba0a280efe",
		"8518c481cd07ee278187cdc7d05d69bf2c8a6be11d22c3602e9107983a5aa516"},
	"postgres": {"1df64f63b943f0fd159846b2db81ceca8c3f280be2e47de1b65b7e974beba8e2",
		"95a1e1107870524087ca9baeefa8aa5b9ebf16c3e6aa129e912d638d0b80430b"},
}

func TestMigrations_unchanged(t *testing.T) {
	t.Parallel()
	for store, want := range released {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", store, "migrations", "*.sql"))
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
