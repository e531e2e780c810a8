package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

func TestTokenSource(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	given, err := newTokenSource("given", "", logger)
	require.NoError(t, err)
	require.Equal(t, "given", given.current())
	_, err = newTokenSource("", filepath.Join(t.TempDir(), "none"), logger)
	require.Error(t, err)

	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	source, err := newTokenSource("", file, logger)
	require.NoError(t, err)
	require.Equal(t, "first", source.current())
	replace := func(content string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(content), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	replace("second\n")
	testenv.Await(t, time.Minute, func() (bool, string) { return source.current() == "second", source.current() })
	require.NoError(t, os.Remove(file))
	require.Equal(t, "second", source.current(), "the token is used until there is another")
	replace("third\n")
	testenv.Await(t, time.Minute, func() (bool, string) { return source.current() == "third", source.current() })
}

// The token that the gateway sends for an expiring one is stored.
func TestTokenSource_replace(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	given, err := newTokenSource("given", "", logger)
	require.NoError(t, err)
	given.replace("next")
	require.Equal(t, "next", given.current())

	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	source, err := newTokenSource("", file, logger)
	require.NoError(t, err)
	source.replace("second")
	require.Equal(t, "second", source.current())
	again, err := newTokenSource("", file, logger)
	require.NoError(t, err)
	require.Equal(t, "second", again.current())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	// If the file cannot be written, as with systemd's credentials, the new token
	// is used nevertheless.
	require.NoError(t, os.RemoveAll(filepath.Dir(file)))
	source.replace("third")
	source.checked = time.Time{}
	require.Equal(t, "third", source.current())
}
