package engine_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/run"
)

// gatherMetrics gathers metrics: the value of a counter, the sum of a histogram, and
// its number of observations under the name with _count. Labels follow the
// name.
func gatherMetrics(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, label := range m.GetLabel() {
				labels += " " + label.GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				all[family.GetName()+"_count"+labels] = float64(h.GetSampleCount())
			}
			all[family.GetName()+labels] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := engine.NewMetrics()
	m.RunStarted(3 * time.Second)
	m.RunEnded(run.PhaseFinished, run.ResultFailed, time.Minute)
	m.RunEnded(run.PhaseCancelled, run.ResultUnknown, 0)
	m.TaskClaimed("linux", 2*time.Second)
	m.TaskClaimed("linux", 0)
	m.TaskClaimed("mac", time.Hour)
	m.TaskEnded("linux", run.StatusSuccess, true, 5*time.Second)
	m.TaskEnded("linux", run.StatusSkipped, false, 0)
	m.FramesStored(7, true, 250*time.Millisecond)
	m.FramesStored(2, false, 0)
	require.Equal(t, map[string]float64{
		"drover_engine_runs_created_total": 0,
		"drover_run_queue_seconds":         3, "drover_run_queue_seconds_count": 1,
		"drover_run_duration_seconds failed": 60, "drover_run_duration_seconds_count failed": 1,
		"drover_runs_ended_total finished failed": 1, "drover_runs_ended_total cancelled unknown": 1,
		"drover_task_queue_seconds linux": 2, "drover_task_queue_seconds_count linux": 2,
		"drover_task_queue_seconds mac": 3600, "drover_task_queue_seconds_count mac": 1,
		"drover_task_duration_seconds linux success": 5, "drover_task_duration_seconds_count linux success": 1,
		"drover_tasks_ended_total success": 1, "drover_tasks_ended_total skipped": 1,
		"drover_log_frames_total": 9, "drover_log_lag_seconds": 0.25, "drover_log_lag_seconds_count": 1,
	}, gatherMetrics(t, m))
}
