package statedir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent/statedir"
	"github.com/drover-run/drover/internal/testenv"
)

// TestID_survives_a_loss_of_power checks that both ids are on disk. With
// another id the executor would not find its tasks, and with another journal id it
// would report them as lost.
func TestID_survives_a_loss_of_power(t *testing.T) {
	t.Parallel()
	disk := testenv.RequireDisk(t)
	dir := filepath.Join(disk.Dir, "new", "executor")
	before, err := statedir.ID(dir, "")
	require.NoError(t, err)
	journal := filepath.Join(dir, "journal", "id")
	previous, err := os.ReadFile(journal)
	require.NoError(t, err)
	disk.CutPower()
	disk.RestorePower()
	now, err := os.ReadFile(journal)
	require.NoError(t, err, "the journal's id was lost")
	require.Equal(t, string(previous), string(now))
	after, err := statedir.ID(dir, "")
	require.NoError(t, err)
	require.Equal(t, before, after)
}
