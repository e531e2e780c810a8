package dirlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/dirlock"
)

func TestTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first, err := dirlock.Take(dir)
		require.NoError(t, err)

		_, err = dirlock.Take(dir)
		require.ErrorIs(t, err, dirlock.ErrHeld)

		var second *flock.Flock
		taken := make(chan error)
		go func() {
			var err error
			second, err = dirlock.Take(dir)
			taken <- err
		}()
		synctest.Wait()
		require.NoError(t, first.Unlock())
		require.NoError(t, <-taken, "Take waits for an owner that unlocks soon")
		require.NoError(t, second.Unlock())

		_, err = dirlock.Take(dir + "/missing")
		require.NotErrorIs(t, err, dirlock.ErrHeld)
		require.Error(t, err)
	})
}
