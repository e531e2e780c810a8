package sqldb_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

type sharedAnswer struct {
	value int
	err   error
}

// shared is a Shared with the result 1, which another caller reads again at a later time.
type shared struct {
	*sqldb.Shared[int]

	again chan sharedAnswer // what that caller reads
}

func newShared(t *testing.T, later time.Duration) *shared {
	t.Helper()
	s := &shared{sqldb.NewShared[int](time.Second), make(chan sharedAnswer)}
	_, err := s.Of(t.Context(), "", 0, func(int) (int, bool, error) { return 1, true, nil })
	require.NoError(t, err)
	go func() {
		_, _ = s.Of(context.WithoutCancel(t.Context()), "", int64(later), func(int) (int, bool, error) {
			a := <-s.again
			return a.value, true, a.err
		})
	}()
	synctest.Wait()
	return s
}

// ask calls Of at a time, and returns where its answer arrives.
func (s *shared) ask(ctx context.Context, now time.Duration) <-chan sharedAnswer {
	out := make(chan sharedAnswer, 1)
	go func() {
		v, err := s.Of(ctx, "", int64(now), func(int) (int, bool, error) { return 3, true, nil })
		out <- sharedAnswer{v, err}
	}()
	synctest.Wait()
	return out
}

func TestShared_takes_what_is_kept_while_another_reads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t, time.Second)
		require.Equal(t, sharedAnswer{value: 1}, <-s.ask(t.Context(), 2*time.Second-1))
		s.again <- sharedAnswer{value: 2}
		synctest.Wait()
		require.Equal(t, sharedAnswer{value: 2}, <-s.ask(t.Context(), 2*time.Second-1))
	})
}

func TestShared_waits_for_the_reader_if_what_is_kept_is_old(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t, time.Hour)
		first, second := s.ask(t.Context(), time.Hour), s.ask(t.Context(), 2*time.Hour)
		require.Empty(t, first)
		require.Empty(t, second)
		s.again <- sharedAnswer{value: 2}
		require.Equal(t, sharedAnswer{value: 2}, <-first)
		require.Equal(t, sharedAnswer{value: 2}, <-second)
	})
}

func TestShared_reads_itself_if_the_reader_fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t, time.Hour)
		waiting := s.ask(t.Context(), time.Hour)
		s.again <- sharedAnswer{err: errors.New("the database is away")}
		require.Equal(t, sharedAnswer{value: 3}, <-waiting)
	})
}

func TestShared_waits_no_longer_than_its_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := s.ask(ctx, time.Hour)
		require.Empty(t, waiting)
		cancel()
		require.ErrorIs(t, (<-waiting).err, context.Canceled)
		s.again <- sharedAnswer{value: 2}
	})
}
