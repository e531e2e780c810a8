package gateway_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

const retentionPath = "/api/v1/retention"

// testRetention is a policy with bounds for all kinds but events.
func testRetention() run.Retention {
	return run.Retention{
		Interval: run.Duration(time.Hour), PerSecond: 100, Logs: run.LogRetention{MaxAge: run.Duration(720 * time.Hour)},
		Runs:     run.RunsRetention{MaxAge: run.Duration(1440 * time.Hour), Keep: 10},
		Archives: run.ArchiveRetention{On: true, Workspaces: run.Duration(72 * time.Hour), CacheUnused: run.Duration(time.Hour), CacheBytes: 1 << 30},
	}
}

func TestServer_retention(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	status := run.RetentionStatus{
		Retention: testRetention(), Running: true, Since: at, Next: at.Add(time.Hour),
		Removed: map[run.RetentionKind]run.RetentionSum{run.RetentionLogs: {Count: 3, Bytes: 70}, run.RetentionRuns: {Count: 2}},
	}
	base := serve(t, gateway.Deps{Retention: &runtest.Retention{StatusFunc: func() (run.RetentionStatus, error) { return status, nil }}}, gateway.Options{})
	got := call{path: retentionPath}.do(t, base)
	conforms(t, "Retention", got.body)
	var v api.Retention
	got.read(t, &v)
	require.Equal(t, api.RetentionPolicy{
		Interval: "1h0m0s", PerSecond: 100, LogsMaxAge: "720h0m0s", RunsMaxAge: "1440h0m0s", RunsKeep: 10, WorkspaceMaxAge: "72h0m0s",
		CacheMaxAge: "1h0m0s", CacheTotalBytes: 1 << 30,
	}, v.Policy)
	require.True(t, v.Running)
	require.Equal(t, at.Add(time.Hour).UTC(), v.NextLookAt)
	require.Equal(t, at.UTC(), v.Since)
	require.Equal(t, []api.RetentionSum{
		{Kind: "logs", Count: 3, Bytes: 70}, {Kind: "workspaces"}, {Kind: "artifacts"}, {Kind: "caches"}, {Kind: "runs", Count: 2}, {Kind: "events"},
	}, v.Removed)

	status.Removing = run.RetentionRuns
	var busy api.Retention
	call{path: retentionPath}.do(t, base).read(t, &busy)
	require.Equal(t, api.RetentionKind("runs"), busy.Removing)
	require.Zero(t, busy.NextLookAt)

	status = run.RetentionStatus{}
	got = call{path: retentionPath}.do(t, base)
	conforms(t, "Retention", got.body)
	require.Contains(t, got.body, `"running":false`)
}

func TestServer_retention_preview(t *testing.T) {
	t.Parallel()
	type previewCall struct {
		keep run.Retention
		n    int
	}
	received := make(chan previewCall, 1)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	base := serve(t, gateway.Deps{Retention: &runtest.Retention{
		StatusFunc: func() (run.RetentionStatus, error) {
			return run.RetentionStatus{Retention: testRetention(), Running: true}, nil
		},
		PreviewFunc: func(r run.Retention, n int) ([]run.RetentionDue, error) {
			received <- previewCall{r, n}
			return []run.RetentionDue{
				{Kind: run.RetentionLogs},
				{Kind: run.RetentionArtifacts, RetentionSum: run.RetentionSum{Count: 2, Bytes: 9}, Oldest: at, First: []run.RetentionItem{
					{Run: runID, Task: "build", Name: "report", Bytes: 4, Since: at},
				}},
			}, nil
		},
	}}, gateway.Options{})
	got := call{path: retentionPath + "/preview"}.do(t, base)
	conforms(t, "RetentionPreview", got.body)
	require.Equal(t, previewCall{testRetention(), 10}, <-received)
	var v api.RetentionPreview
	got.read(t, &v)
	require.Equal(t, []api.RetentionDue{
		{Kind: "logs", First: []api.RetentionItem{}},
		{Kind: "artifacts", Count: 2, Bytes: 9, Oldest: at, First: []api.RetentionItem{{Run: runID, Task: "build", Name: "report", Bytes: 4, Since: at}}},
	}, v.Due)

	query := "?logs_max_age=0s&runs_max_age=2h&runs_keep=0&events_max_age=3h&events_keep=4&workspace_max_age=5h&cache_max_age=0&cache_total_bytes=6&limit=0"
	call{path: retentionPath + "/preview" + query}.do(t, base).read(t, &v)
	want := testRetention()
	want.Logs.MaxAge, want.Runs = 0, run.RunsRetention{MaxAge: run.Duration(2 * time.Hour)}
	want.Events = run.EventRetention{MaxAge: run.Duration(3 * time.Hour), Keep: 4}
	want.Archives.Workspaces, want.Archives.CacheUnused, want.Archives.CacheBytes = run.Duration(5*time.Hour), 0, 6
	require.Equal(t, previewCall{want, 0}, <-received)
	require.Equal(t, "2h0m0s", v.Policy.RunsMaxAge)

	for query, path := range map[string]string{
		"?logs_max_age=30d": "logs_max_age", "?cache_max_age=-1h": "cache_max_age", "?runs_keep=-1": "runs_keep", "?limit=101": "limit", "?keep=3": "keep",
	} {
		p := call{path: retentionPath + "/preview" + query}.do(t, base).problem(t, http.StatusBadRequest, run.CodeInvalid)
		require.Equal(t, path, p.Errors[0].Path)
	}
}

func TestServer_retention_refused(t *testing.T) {
	t.Parallel()
	none := serve(t, gateway.Deps{}, gateway.Options{})
	away := serve(t, gateway.Deps{Retention: &runtest.Retention{StatusFunc: func() (run.RetentionStatus, error) {
		return run.RetentionStatus{}, run.Errorf(run.CodeUnavailable, "no control worker reported its retention")
	}}}, gateway.Options{})
	for _, path := range []string{retentionPath, retentionPath + "/preview"} {
		call{path: path}.do(t, none).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
		call{path: path}.do(t, away).problem(t, http.StatusServiceUnavailable, run.CodeUnavailable)
	}
}

// removedArtifacts has artifacts that were removed by age.
type removedArtifacts struct{ artifacts }

type artifacts = run.Artifacts

func (removedArtifacts) OpenArtifact(context.Context, run.ArtifactRef, int64) (run.Artifact, io.ReadCloser, error) {
	return run.Artifact{}, nil, errExpired()
}

func (removedArtifacts) OpenArtifactFile(context.Context, run.ArtifactRef, string) (run.ArtifactEntry, io.ReadCloser, error) {
	return run.ArtifactEntry{}, nil, errExpired()
}

func (removedArtifacts) ArtifactEntries(context.Context, run.ArtifactRef, int) ([]run.ArtifactEntry, bool, error) {
	return nil, false, errExpired()
}

func errExpired() error { return run.Errorf(run.CodeGone, "removed by age") }

// TestServer_expired checks that all calls for an artifact that was removed by
// age answer gone.
func TestServer_expired(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Artifacts: removedArtifacts{}, Runs: &runtest.Service{
		LogsFunc: func(context.Context, run.LogQuery) (run.LogReader, error) { return nil, errExpired() },
	}}, gateway.Options{})
	log, artifact := "/api/v1/runs/"+runID+"/tasks/build/logs", "/api/v1/runs/"+runID+"/artifacts/build/report"
	for _, c := range []call{
		{path: log},
		{path: log + "?follow=true"},
		{path: log + "?tail=3"},
		{path: log, header: map[string]string{"Accept": "text/event-stream"}},
		{path: artifact},
		{path: artifact, header: map[string]string{"Range": "bytes=1-"}},
		{path: artifact + "?path=a.xml"},
		{path: artifact + "/entries"},
	} {
		p := c.do(t, base).problem(t, http.StatusGone, run.CodeGone)
		require.Equal(t, "removed by age", p.Detail)
	}
}
