package dirlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/dirlock"
)

func TestTake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := dirlock.Take(dir)
	require.NoError(t, err)

	_, err = dirlock.Take(dir)
	require.ErrorIs(t, err, dirlock.ErrHeld)

	time.AfterFunc(100*time.Millisecond, func() { _ = first.Unlock() })
	second, err := dirlock.Take(dir)
	require.NoError(t, err, "Take waits for an owner that unlocks soon")
	require.NoError(t, second.Unlock())

	_, err = dirlock.Take(dir + "/missing")
	require.NotErrorIs(t, err, dirlock.ErrHeld)
	require.Error(t, err)
}
