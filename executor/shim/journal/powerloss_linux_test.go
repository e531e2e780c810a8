package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

// TestCreateJournal_survives_a_loss_of_power checks that an order that is handed
// over again finds the journal of the steps that began.
func TestCreateJournal_survives_a_loss_of_power(t *testing.T) {
	t.Parallel()
	disk := testenv.RequireDisk(t)
	dir := filepath.Join(disk.Dir, "task")
	require.NoError(t, os.Mkdir(dir, 0o700))
	root, err := os.Open(disk.Dir)
	require.NoError(t, err)
	require.NoError(t, root.Sync()) // the directory exists, as after any other sync
	require.NoError(t, root.Close())
	j, err := Create(dir, Options{First: 1})
	require.NoError(t, err)
	disk.CutPower()
	_ = j.file.Close()
	disk.RestorePower()
	_, err = Create(dir, Options{First: 1})
	require.ErrorIs(t, err, ErrExists, "the steps would run again")
}
