package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

type remover struct {
	asked records.KeepEvents
	has   int
}

func (r *remover) RemoveEvents(_ context.Context, keep records.KeepEvents, n int) (int, error) {
	r.asked = keep
	n = min(n, r.has)
	r.has -= n
	return n, nil
}

func TestEvents_RemoveEvents(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &remover{has: 1500}
	a := activities.NewEvents(r, func() time.Time { return now })
	out, err := a.RemoveEvents(t.Context(), contract.RemoveEventsInput{MaxAge: run.Duration(time.Hour), Newest: 7})
	require.NoError(t, err)
	require.Equal(t, contract.RemoveEventsResult{Removed: 1000, More: true}, out)
	require.Equal(t, records.KeepEvents{Since: now.Add(-time.Hour), Newest: 7}, r.asked)
	out, err = a.RemoveEvents(t.Context(), contract.RemoveEventsInput{})
	require.NoError(t, err)
	require.Equal(t, contract.RemoveEventsResult{Removed: 500}, out)
	require.Equal(t, records.KeepEvents{}, r.asked)
}
