package archives

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestArchiveReads_turns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := newReadLimits()
		var ends []func()
		for range maxScans {
			end, err := begin(t.Context(), reads.scans)
			require.NoError(t, err)
			ends = append(ends, end)
		}
		_, err := begin(t.Context(), reads.scans)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		require.ErrorContains(t, err, "too many archives")

		cause := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(cause)
		}()
		_, err = begin(ctx, reads.scans)
		require.ErrorIs(t, err, cause)
		require.Equal(t, run.CodeCanceled, run.CodeOf(err))

		go func() {
			synctest.Wait()
			ends[0]()
			ends[0]() // a second call has no effect
		}()
		end, err := begin(t.Context(), reads.scans)
		require.NoError(t, err)
		_, err = begin(t.Context(), reads.scans)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		end()
	})
}
