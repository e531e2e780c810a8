package fleeting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLaunches_pauses_grow_to_a_minute(t *testing.T) {
	t.Parallel()
	none, most := func(int64) int64 { return 0 }, func(n int64) int64 { return n }
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1_000_000: time.Minute} {
		require.Equal(t, want, launchPause(failures, none), failures)
		require.Equal(t, want*3/4, launchPause(failures, most), failures)
	}
}

// TestLaunches_of_an_hour counts the launches that workers make in an hour, each
// of which reads what the one before left.
func TestLaunches_of_an_hour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := time.Date(2026, 3, 17, 12, 0, 0, 0, time.UTC)
	launched := 0
	for now := begin; now.Before(begin.Add(time.Hour)); now = now.Add(500 * time.Millisecond) {
		l, err := readLaunches(dir, "b", "s")
		require.NoError(t, err)
		if l.pending(now) != nil {
			continue
		}
		launched++
		l = l.failed(fmt.Errorf("%w: no handshake", ErrUnavailable), now)
		l.Binary, l.Settings = "b", "s"
		require.NoError(t, l.write(dir))
	}
	require.LessOrEqual(t, launched, 90)
	require.GreaterOrEqual(t, launched, 60)
}

// TestLaunches_of_a_wrong_clock covers a pause that was planned while the clock
// was wrong: it holds up no launch, except for one that is at most a pause away.
func TestLaunches_of_a_wrong_clock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 17, 12, 0, 0, 0, time.UTC)
	for offset, waits := range map[time.Duration]bool{
		-20 * 365 * 24 * time.Hour: false, -time.Second: false, 0: true, time.Second: true, maxPause + time.Second: false, 20 * 365 * 24 * time.Hour: false,
	} {
		l := launches{Failures: 5}.failed(errors.New("bad token"), now.Add(offset))
		l.RetryAt = now.Add(offset + time.Second) // the pause is random
		require.Equal(t, waits, l.pending(now) != nil, "planned by a clock that was %s ahead", offset)
	}
	longest := launches{Failures: 7, RetryAt: now.Add(maxPause)}
	require.Error(t, longest.pending(now), "the longest pause counts")
}

func TestLaunches_of_another_host(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 3, 17, 12, 0, 0, 0, time.UTC)
	l, err := readLaunches(dir, "b", "s")
	require.NoError(t, err)
	require.NoError(t, l.pending(now))
	l.Binary, l.Settings = "b", "s"
	for _, cause := range []error{fmt.Errorf("%w: no handshake", ErrUnavailable), &CallError{Call: "Init", Code: 2, Message: "bad token"}} {
		l = l.failed(cause, now)
		require.NoError(t, l.write(dir))
		next, err := readLaunches(dir, "b", "s")
		require.NoError(t, err)
		pending := next.pending(now)
		pause, ok := errors.AsType[*PauseError](pending)
		require.True(t, ok)
		require.True(t, pause.At.After(now))
		require.EqualError(t, pending, cause.Error()+"; the next try is at "+pause.At.Format(time.TimeOnly)+" UTC")
		require.Equal(t, errors.Is(cause, ErrUnavailable), errors.Is(pending, ErrUnavailable))
		require.NoError(t, next.pending(pause.At))
	}
	for _, other := range [][2]string{{"other", "s"}, {"b", "other"}} {
		next, err := readLaunches(dir, other[0], other[1])
		require.NoError(t, err)
		require.NoError(t, next.pending(now), "another plugin or other settings have no pause")
	}
	require.NoError(t, launches{}.write(dir))
	_, err = os.Stat(filepath.Join(dir, launchesFile))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, launches{}.write(dir))
}
