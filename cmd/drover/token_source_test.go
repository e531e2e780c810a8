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
	require.Equal(t, "given", given())
	_, err = newTokenSource("", filepath.Join(t.TempDir(), "none"), logger)
	require.Error(t, err)

	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	source, err := newTokenSource("", file, logger)
	require.NoError(t, err)
	require.Equal(t, "first", source())
	replace := func(content string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(content), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	replace("second\n")
	testenv.Await(t, time.Minute, func() (bool, string) { return source() == "second", source() })
	require.NoError(t, os.Remove(file))
	require.Equal(t, "second", source(), "it is good until there is another")
	replace("third\n")
	testenv.Await(t, time.Minute, func() (bool, string) { return source() == "third", source() })
}
