package shell_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// withSecret returns a definition with one secret file.
func withSecret(n int, scripts ...string) run.Definition {
	d := definition(n, scripts...)
	d.SecretFiles = map[string]string{"KEY": "content"}
	return d
}

// TestDriver_secret_files_on_disk checks that the driver never writes a secret
// file to a disk.
func TestDriver_secret_files_on_disk(t *testing.T) {
	t.Parallel()
	d, err := shell.New(shell.Options{StateDir: t.TempDir(), ShimPath: testenv.BuildShim(t), SecretsDir: "/proc"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	require.False(t, d.Features().SecretFiles)
	_, err = d.Start(t.Context(), executor.Task{Definition: withSecret(1, "true")})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.ErrorContains(t, err, "no directory in memory")
}

// TestDriver_secret_files_directory checks that the driver trusts no directory of
// other users, and removes secrets that belong to no task.
func TestDriver_secret_files_directory(t *testing.T) {
	t.Parallel()
	memory := memoryDir(t)
	if memory == "" {
		testenv.HostLacks(t, "a directory in memory")
	}
	state := t.TempDir()
	open := func() *shell.Driver {
		d, err := shell.New(shell.Options{StateDir: state, ShimPath: testenv.BuildShim(t), SecretsDir: memory})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	d := open()
	h := start(t, d, withSecret(1, "sleep 300"))
	roots, err := filepath.Glob(filepath.Join(memory, "*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	own := roots[0]
	orphan := withSecret(2).Key
	require.NoError(t, os.Mkdir(filepath.Join(own, orphan.String()), 0o700))
	d = open()
	require.NoDirExists(t, filepath.Join(own, orphan.String()))
	require.DirExists(t, filepath.Join(own, withSecret(1).Key.String()), "its task exists")
	require.NoError(t, h.Remove(t.Context()))
	require.NoDirExists(t, own)

	elsewhere := t.TempDir()
	for name, obstruct := range map[string]func(){
		"a link to elsewhere": func() { require.NoError(t, os.Symlink(elsewhere, own)) },
		"a directory for all": func() { require.NoError(t, os.Mkdir(own, 0o700)); require.NoError(t, os.Chmod(own, 0o777)) },
		"a file of that name": func() { require.NoError(t, os.WriteFile(own, nil, 0o600)) },
	} {
		obstruct()
		_, err := d.Start(t.Context(), executor.Task{Definition: withSecret(3, "true")})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "is not the executor's own", name)
		require.NoError(t, os.RemoveAll(own))
	}
	left, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, left)
}
