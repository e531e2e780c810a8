package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTokenSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		given, err := NewTokenSource("given", "", logger)
		require.NoError(t, err)
		require.Equal(t, "given", given.Current())
		_, err = NewTokenSource("", filepath.Join(t.TempDir(), "none"), logger)
		require.Error(t, err)

		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
		source, err := NewTokenSource("", file, logger)
		require.NoError(t, err)
		require.Equal(t, "first", source.Current())
		replace := func(content string) {
			require.NoError(t, os.WriteFile(file+".new", []byte(content), 0o600))
			require.NoError(t, os.Chtimes(file+".new", time.Time{}, time.Now()))
			require.NoError(t, os.Rename(file+".new", file))
		}
		replace("second\n")
		<-time.After(tokenCheck - 1)
		require.Equal(t, "first", source.Current(), "the file is not read for each call")
		<-time.After(1)
		require.Equal(t, "second", source.Current())
		require.NoError(t, os.Remove(file))
		<-time.After(tokenCheck)
		require.Equal(t, "second", source.Current(), "the token is used until there is another")
		replace("third\n")
		<-time.After(tokenCheck)
		require.Equal(t, "third", source.Current())
	})
}

// The token that the gateway sends for an expiring one is stored.
func TestTokenSource_replace(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	given, err := NewTokenSource("given", "", logger)
	require.NoError(t, err)
	given.Replace("next")
	require.Equal(t, "next", given.Current())

	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	source, err := NewTokenSource("", file, logger)
	require.NoError(t, err)
	source.Replace("second")
	require.Equal(t, "second", source.Current())
	again, err := NewTokenSource("", file, logger)
	require.NoError(t, err)
	require.Equal(t, "second", again.Current())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	// If the file cannot be written, as with systemd's credentials, the new token
	// is used nevertheless.
	require.NoError(t, os.RemoveAll(filepath.Dir(file)))
	source.Replace("third")
	source.checked = time.Time{}
	require.Equal(t, "third", source.Current())
}
