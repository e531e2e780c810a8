package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func TestServer_metrics(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{
		GetFunc: func(_ context.Context, id run.ID, _ ...string) (run.Run, error) { return run.Run{}, notFound(id) },
		PoolsFunc: func(context.Context) ([]run.Pool, error) {
			return []run.Pool{{Name: "linux", Slots: 8, SlotsUsed: 3, Queued: 2, Running: 3}}, nil
		},
		ExecutorsFunc: func(context.Context) ([]run.Executor, error) {
			return []run.Executor{{ID: "a", Pool: "linux", State: run.ExecutorOnline}, {ID: "b", Pool: "linux", State: run.ExecutorOnline}}, nil
		},
	}
	stats := func(context.Context) (gateway.Stats, error) {
		return gateway.Stats{
			OpenRuns: map[run.Phase]int{run.PhaseQueued: 5}, OpenTasks: map[run.Status]int{run.StatusWaitingApproval: 4},
			Outbox: 1, OldestOutbox: 2 * time.Second,
		}, nil
	}
	archives := func(context.Context) (map[run.ArchiveKind]run.ArchiveStat, error) {
		return map[run.ArchiveKind]run.ArchiveStat{run.ArchiveCache: {Archives: 3, Bytes: 1 << 20}, run.ArchiveWorkspace: {}}, nil
	}
	base := serve(t, gateway.Deps{Runs: service, Stats: stats, Archives: archives}, gateway.Options{})
	call{path: "/api/v1/runs/" + runID}.do(t, base)
	call{path: "/api/v1/nothing/" + runID}.do(t, base)
	got := call{path: "/metrics"}.do(t, base)
	require.Equal(t, http.StatusOK, got.status)
	for _, line := range []string{
		`drover_gateway_requests_total{code="404",method="GET",route="/api/v1/runs/:id"} 1`,
		`drover_gateway_requests_total{code="404",method="GET",route="none"} 1`,
		`drover_gateway_request_duration_seconds_count{method="GET",route="/api/v1/runs/:id"} 1`,
		`drover_runs{phase="queued"} 5`,
		`drover_runs{phase="running"} 0`,
		`drover_tasks{status="waiting_approval"} 4`,
		`drover_outbox_rows 1`,
		`drover_archives{kind="cache"} 3`,
		`drover_archives{kind="workspace"} 0`,
		`drover_archives_bytes{kind="cache"} 1.048576e+06`,
		`drover_outbox_oldest_seconds 2`,
		`drover_pool_tasks_queued{pool="linux"} 2`,
		`drover_executors{pool="linux",state="online"} 2`,
	} {
		require.Contains(t, got.body, line)
	}
	problems, err := promlint.New(strings.NewReader(got.body)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestServer_metrics_without_store(t *testing.T) {
	t.Parallel()
	stats := func(context.Context) (gateway.Stats, error) { return gateway.Stats{}, errors.New("no store") }
	got := call{path: "/metrics"}.do(t, serve(t, gateway.Deps{Stats: stats}, gateway.Options{}))
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, "drover_gateway_panics_total 0")
	require.NotContains(t, got.body, "drover_runs")
}
