package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var err error
	checks := 0
	o := newOutage(func(context.Context) error { checks++; return err }, slog.New(slog.DiscardHandler))
	o.now = func() time.Time { return now }
	since := func() time.Time { return o.since(t.Context()) }

	require.Zero(t, since())
	err = errors.New("connection refused")
	require.Zero(t, since(), "the result is used for a while")
	require.Equal(t, 1, checks)
	now = now.Add(outageInterval)
	began := now
	require.Equal(t, began, since())
	now = now.Add(outageInterval)
	require.Equal(t, began, since(), "it is still the same outage")
	require.Equal(t, 3, checks)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	err, now = nil, now.Add(outageInterval)
	require.Equal(t, began, o.since(gone), "a reader that has left learns nothing")
	require.Zero(t, since())
	require.Equal(t, "Temporal is out of reach since 12:00:05 UTC", outageText(began))
}

func TestOutage_asks_once_for_all_readers(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	o := newOutage(func(context.Context) error {
		close(asked) // panics if it is asked twice
		<-answer
		return errors.New("connection refused")
	}, slog.New(slog.DiscardHandler))
	first := make(chan time.Time)
	go func() { first <- o.since(t.Context()) }()
	<-asked
	require.Zero(t, o.since(t.Context()), "the others do not wait")
	close(answer)
	require.NotZero(t, <-first)
}

func TestOutage_repeats_a_check_that_is_late(t *testing.T) {
	t.Parallel()
	checks := 0
	o := newOutage(func(ctx context.Context) error {
		if checks++; checks > 1 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}, slog.New(slog.DiscardHandler))
	require.Zero(t, o.since(t.Context()))
	require.Equal(t, 2, checks)
	require.Zero(t, newOutage(nil, nil).since(t.Context()))
}
