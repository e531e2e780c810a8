package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/run"
)

// fakeQuerier is a fake of the workflow that answers its query.
type fakeQuerier func() (*client.QueryWorkflowWithOptionsResponse, error)

func (o fakeQuerier) QueryWorkflowWithOptions(
	_ context.Context, q *client.QueryWorkflowWithOptionsRequest,
) (*client.QueryWorkflowWithOptionsResponse, error) {
	if q.WorkflowID != contract.RetentionWorkflowID || q.QueryType != contract.QueryState {
		return nil, errors.New("that is another question")
	}
	return o()
}

func TestRetentionService_status(t *testing.T) {
	t.Parallel()
	status := run.RetentionStatus{
		Retention: run.Retention{Interval: run.Duration(time.Hour), Runs: run.RunsRetention{Keep: 3}}, Since: time.Unix(1_000, 0).UTC(),
		Next: time.Unix(2_000, 0).UTC(), Removed: map[run.RetentionKind]run.RetentionSum{run.RetentionLogs: {Count: 1, Bytes: 2}},
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(status)
	require.NoError(t, err)
	status.Running = true
	for name, tt := range map[string]struct {
		answer *client.QueryWorkflowWithOptionsResponse
		err    error
		want   run.RetentionStatus
		code   run.Code
	}{
		"running":   {answer: &client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads)}, want: status},
		"ended":     {answer: &client.QueryWorkflowWithOptionsResponse{QueryRejected: &query.QueryRejected{}}},
		"never_was": {err: serviceerror.NewNotFound("no workflow")},
		"no_worker": {err: serviceerror.NewDeadlineExceeded("no poller"), code: run.CodeUnavailable},
	} {
		service := engine.NewRetentionService(nil, fakeQuerier(func() (*client.QueryWorkflowWithOptionsResponse, error) { return tt.answer, tt.err }), nil)
		got, err := service.RetentionStatus(t.Context())
		require.Equal(t, tt.code, run.CodeOf(err), name)
		require.Equal(t, tt.want, got, name)
	}
}

// TestRetentionService_preview reads only the configured kinds, with the
// configured ages.
func TestRetentionService_preview(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	failed, other := b.ended(t, run.StatusFailed), b.ended(t, run.StatusSuccess)
	later := func() time.Time { return time.Now().Add(time.Hour) }
	service := engine.NewRetentionService(b.store, nil, later)
	counts := func(r run.Retention, n int) map[run.RetentionKind]int64 {
		all, err := service.RetentionPreview(t.Context(), r, n)
		require.NoError(t, err)
		require.Len(t, all, len(run.RetentionKinds()))
		out := map[run.RetentionKind]int64{}
		for i, due := range all {
			require.Equal(t, run.RetentionKinds()[i], due.Kind)
			require.Len(t, due.First, min(n, int(due.Count)))
			if due.Count > 0 {
				out[due.Kind] = due.Count
			}
		}
		return out
	}
	require.Empty(t, counts(run.Retention{}, 10))
	require.Empty(t, counts(run.Retention{Runs: run.RunsRetention{MaxAge: run.Duration(2 * time.Hour)}, Logs: run.LogRetention{MaxAge: run.Duration(2 * time.Hour)}}, 10))
	require.Equal(t, map[run.RetentionKind]int64{run.RetentionRuns: 2, run.RetentionLogs: 2},
		counts(run.Retention{Runs: run.RunsRetention{MaxAge: run.Duration(time.Minute)}, Logs: run.LogRetention{MaxAge: run.Duration(time.Minute)}}, 1))
	require.Equal(t, map[run.RetentionKind]int64{run.RetentionRuns: 1}, counts(run.Retention{Runs: run.RunsRetention{Keep: 1}}, 10))
	events := counts(run.Retention{Events: run.EventRetention{Keep: 1}}, 0)
	require.Positive(t, events[run.RetentionEvents])

	_, err := b.store.ExpireLogs(t.Context(), later(), 1)
	require.NoError(t, err)
	_, err = b.Logs(t.Context(), run.LogQuery{Run: failed.ID, Task: failed.Tasks[0].Name})
	require.Equal(t, run.CodeGone, run.CodeOf(err), "its log has expired")
	log, err := b.Logs(t.Context(), run.LogQuery{Run: other.ID, Task: other.Tasks[0].Name})
	require.NoError(t, err)
	require.NoError(t, log.Close())
}

func TestStoredArchives(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	key, _ := d.begin(t, "/a/b", false)
	d.save(t, key, stepWorkspace, "", []byte("workspace"))
	stored, err := d.StoredArchives(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), stored[run.ArchiveWorkspace].Archives)
	require.Positive(t, stored[run.ArchiveWorkspace].Bytes)
	d.save(t, key, stepCache, "k", []byte("cache"))
	again, err := d.StoredArchives(t.Context())
	require.NoError(t, err)
	require.Equal(t, stored, again, "it is at most a minute old")
}
