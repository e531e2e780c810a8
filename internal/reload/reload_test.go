package reload_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/reload"
)

// joined returns the contents of files, none of which may contain "invalid".
func joined(files [][]byte) (string, error) {
	all := string(bytes.Join(files, []byte("+")))
	if strings.Contains(all, "invalid") {
		return "", errors.New("it is invalid")
	}
	return all, nil
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestValue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "1")
	write(t, b, "2")
	var log bytes.Buffer
	v, err := reload.Open(slog.New(slog.NewTextHandler(&log, nil)), joined, a, b)
	require.NoError(t, err)
	require.Equal(t, "1+2", v.Current())
	require.Equal(t, "1+2", v.Refresh())
	require.Empty(t, log.String())

	write(t, b, "3") // of the same length, within the resolution of the modification time
	require.Equal(t, "1+3", v.Refresh())
	require.Equal(t, 1, strings.Count(log.String(), "read a changed file"))

	for name, damage := range map[string]func(){
		"invalid": func() { write(t, b, "invalid") },
		"gone":    func() { require.NoError(t, os.Remove(b)) },
	} {
		log.Reset()
		damage()
		for range 3 {
			require.Equal(t, "1+3", v.Refresh(), name)
		}
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "one warning: %s", log.String())
		write(t, b, "3")
		require.Equal(t, "1+3", v.Refresh(), name)
	}
	log.Reset()
	write(t, b, "invalid")
	v.Refresh()
	require.Contains(t, log.String(), "level=WARN", "the file was valid in between")
	write(t, b, "4")
	require.Equal(t, "1+4", v.Refresh())
	require.NotContains(t, log.String(), "1+4", "contents are not logged")
}

// TestValue_symbolic_link replaces the directory of files as Kubernetes does.
func TestValue_symbolic_link(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount := func(version, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "key"), text)
		require.NoError(t, os.Symlink(version, filepath.Join(dir, "new")))
		require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "..data")))
	}
	mount("..1", "1")
	key := filepath.Join(dir, "key")
	require.NoError(t, os.Symlink(filepath.Join("..data", "key"), key))
	v, err := reload.Open(slog.New(slog.DiscardHandler), joined, key)
	require.NoError(t, err)
	require.Equal(t, "1", v.Current())
	mount("..2", "2")
	require.Equal(t, "2", v.Refresh())
}

func TestOpen_faults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	_, err := reload.Open(slog.New(slog.DiscardHandler), joined, file)
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, file, "invalid")
	_, err = reload.Open(slog.New(slog.DiscardHandler), joined, file)
	require.EqualError(t, err, "read "+file+": it is invalid")
}
