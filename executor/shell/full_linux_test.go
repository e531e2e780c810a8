package shell_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// TestDriver_full_disk fills the disk, so that the shim cannot even report it.
func TestDriver_full_disk(t *testing.T) {
	t.Parallel()
	testenv.Use(t, "namespaces")
	if os.Geteuid() != 0 {
		testenv.Missing(t, "namespaces", "not root", "run the tests as root, which may mount a small file system")
	}
	state := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", state, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	d, err := shell.New(shell.Options{StateDir: state, ShimPath: testenv.BuildShim(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	filler := filepath.Join(state, "filler")
	h, err := d.Start(t.Context(), executor.Task{Definition: definition(1, "true"), Launch: func() (int64, error) {
		require.ErrorIs(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600), unix.ENOSPC)
		return 1, nil
	}})
	require.NoError(t, err)
	for f, err := range h.Events(t.Context(), 1) {
		require.Error(t, err, "%v", f)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		require.Equal(t, run.CauseStart, executor.CauseOf(err))
		require.ErrorContains(t, err, "the disk of the executor's state dir is full")
	}
	require.NoError(t, os.Remove(filler))
	require.NoError(t, h.Remove(t.Context()))
}
