package durable_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/testenv"
)

func requireContent(t *testing.T, want, path string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// requireNames checks that a directory has no leftovers of a write.
func requireNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, want, names)
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"old, and longer", "new", ""} {
		require.NoError(t, durable.WriteFile(path, []byte(content)))
		requireContent(t, content, path)
		requireNames(t, dir, "file")
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

func TestReplace_keeps_the_file_until_the_new_one_is_complete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, durable.WriteFile(path, []byte("old")))
	errBroken := errors.New("broken")
	err := durable.Replace(path, 0o644, func(f *os.File) error {
		_, err := f.WriteString("half")
		require.NoError(t, err)
		requireContent(t, "old", path)
		return errBroken
	})
	require.ErrorIs(t, err, errBroken)
	requireContent(t, "old", path)
	requireNames(t, dir, "file")
}

func TestReplace_mode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.HostLacks(t, "permission bits")
	}
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, durable.WriteFile(path, nil))
	require.NoError(t, durable.Replace(path, 0o500, func(*os.File) error { return nil }))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o500), info.Mode())
}

func TestReplace_errors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.ErrorIs(t, durable.WriteFile(filepath.Join(dir, "missing", "file"), nil), os.ErrNotExist)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "full", "file", "child"), 0o700))
	require.Error(t, durable.WriteFile(filepath.Join(dir, "full", "file"), nil), "a directory is not replaced")
	requireNames(t, filepath.Join(dir, "full"), "file")
}

// TestWriteFile_concurrent checks that readers see complete content only, and
// that writers do not disturb each other.
func TestWriteFile_concurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	content := func(i int) string { return strings.Repeat(fmt.Sprint(i%10), 10_000) }
	require.NoError(t, durable.WriteFile(path, []byte(content(0))))
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 5 {
				if err := durable.WriteFile(path, []byte(content(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(string(got[:1]), 10_000), string(got))
	}
	requireNames(t, dir, "file")
}

// TestWriteFile_in_the_working_directory checks a path without a directory.
func TestWriteFile_in_the_working_directory(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, durable.WriteFile("file", []byte("content")))
	requireContent(t, "content", "file")
	requireNames(t, ".", "file")
}

func TestMkdirAll(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 {
		require.NoError(t, durable.MkdirAll(dir, 0o700))
		requireNames(t, dir)
	}
	file := filepath.Join(dir, "file")
	require.NoError(t, durable.WriteFile(file, nil))
	require.Error(t, durable.MkdirAll(filepath.Join(file, "d"), 0o700))
}
