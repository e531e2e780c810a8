package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

type deleter struct {
	asked []run.DeleteQuery
	out   run.Deleted
	err   error
}

func (d *deleter) DeleteRuns(_ context.Context, q run.DeleteQuery) (run.Deleted, error) {
	d.asked = append(d.asked, q)
	return d.out, d.err
}

func TestRetention_DeleteRuns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := &deleter{out: run.Deleted{Runs: 7, More: true}}
	a := activities.NewRetention(d, func() time.Time { return now })
	out, err := a.DeleteRuns(t.Context(), contract.DeleteRunsInput{Keep: contract.RunRetention{MaxAge: run.Duration(time.Hour), Keep: 3}})
	require.NoError(t, err)
	require.Equal(t, contract.DeleteRunsResult{Deleted: 7, More: true}, out)
	_, err = a.DeleteRuns(t.Context(), contract.DeleteRunsInput{Keep: contract.RunRetention{Keep: 3}})
	require.NoError(t, err)
	require.Equal(t, []run.DeleteQuery{{Before: now.Add(-time.Hour), Keep: 3}, {Keep: 3}}, d.asked)

	_, err = a.DeleteRuns(t.Context(), contract.DeleteRunsInput{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(activities.FromTemporal(err)), "that would be all of them")
	require.Len(t, d.asked, 2)

	d.err = run.Errorf(run.CodeUnavailable, "away")
	_, err = a.DeleteRuns(t.Context(), contract.DeleteRunsInput{Keep: contract.RunRetention{Keep: 3}})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(activities.FromTemporal(err)))
}
