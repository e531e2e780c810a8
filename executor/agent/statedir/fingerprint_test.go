package statedir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent/statedir"
	"github.com/drover-run/drover/run"
)

// TestStateDir_copied opens a state dir at its original path, and copies of it.
func TestStateDir_copied(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	id, err := statedir.ID(dir, "")
	require.NoError(t, err)

	again, err := statedir.ID(dir, "")
	require.NoError(t, err)
	require.Equal(t, id, again)

	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(dir, moved))
	again, err = statedir.ID(moved, "")
	require.NoError(t, err, "the same dir under another name")
	require.Equal(t, id, again)

	copied := filepath.Join(t.TempDir(), "copied")
	require.NoError(t, os.CopyFS(copied, os.DirFS(moved)))
	_, err = statedir.ID(copied, "")
	require.Equal(t, run.CodeConflict, run.CodeOf(err), err)
	require.ErrorContains(t, err, "is a copy")

	require.NoError(t, os.Remove(filepath.Join(copied, "journal", "place")), "the file that the error names")
	again, err = statedir.ID(copied, "")
	require.NoError(t, err)
	require.Equal(t, id, again)
}
