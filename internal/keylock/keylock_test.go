package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocks_one_at_a_time(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 200
	var locks Locks[string]
	counts := map[string]*int{"a": new(int), "b": new(int)} // guarded only by the locks
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range rounds {
				for key, n := range counts {
					unlock, err := locks.Lock(t.Context(), key)
					if err != nil {
						t.Error(err)
						return
					}
					*n++
					unlock()
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, callers*rounds, *counts["a"])
	require.Equal(t, callers*rounds, *counts["b"])
	require.Empty(t, locks.held, "no memory is kept for unlocked keys")
}

func TestLocks_returns_when_the_context_ends(t *testing.T) {
	t.Parallel()
	var locks Locks[int]
	unlock, err := locks.Lock(t.Context(), 1)
	require.NoError(t, err)
	why := errors.New("timeout")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = locks.Lock(ctx, 1)
	require.ErrorIs(t, err, why)
	other, err := locks.Lock(t.Context(), 2)
	require.NoError(t, err, "another key is free")
	other()
	unlock()
	again, err := locks.Lock(t.Context(), 1)
	require.NoError(t, err, "a caller whose context ended holds no lock")
	again()
	require.Empty(t, locks.held)
}
