package agent_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// metricValues gathers the metrics of an agent, by name, and by the value of the label
// if there is one.
func metricValues(t *testing.T, c prometheus.Collector) map[string]float64 {
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
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				all[name+" count"] = float64(h.GetSampleCount())
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return all
}

func TestAgent_Metrics(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(key run.Key) script {
			switch key.Task {
			case 1:
				return script{hang: true}
			case 2:
				return script{failure: run.Errorf(run.CodeInvalid, "no such image")}
			}
			return script{lines: 60, pause: time.Second}
		}
		h := w.newHost(3)
		p := h.start(nil)
		w.sleep(time.Second)
		got := metricValues(t, p.agent.Metrics())
		require.Equal(t, map[string]float64{
			"drover_executor_slots": 3, "drover_executor_slots_used": 0, "drover_executor_healthy": 1,
			"drover_executor_claims_total": 0, "drover_executor_frames_waiting": 0, "drover_executor_frames_waiting_bytes": 0,
			"drover_executor_tasks_total success": 0, "drover_executor_tasks_total failed": 0,
			"drover_executor_tasks_total stopped": 0, "drover_executor_tasks_total requeued": 0,
		}, got)

		for task := range 3 {
			w.submit(task)
		}
		w.sleep(5 * time.Second)
		w.api.setFramesDown(true)
		w.sleep(10 * time.Second)
		got = metricValues(t, p.agent.Metrics())
		require.InDelta(t, 3, got["drover_executor_claims_total"], 0)
		require.InDelta(t, 1, got["drover_executor_tasks_total failed"], 0)
		require.InDelta(t, 2, got["drover_executor_slots_used"], 0)
		require.InDelta(t, 10, got["drover_executor_frames_waiting"], 2)
		require.Greater(t, got["drover_executor_frames_waiting_bytes"], got["drover_executor_frames_waiting"])
		w.api.setFramesDown(false)

		// Adopted tasks are not new ones.
		p.freeze(heartbeatTimeout + 10*time.Second)
		w.sleep(10 * time.Second)
		w.tokens.stop(1)
		w.awaitEnd(5*time.Minute, 0, 1, 2)
		w.requireClean(h, p)
		got = metricValues(t, p.agent.Metrics())
		require.InDelta(t, 3, got["drover_executor_claims_total"], 0)
		require.InDelta(t, 1, got["drover_executor_tasks_total success"], 0)
		require.InDelta(t, 1, got["drover_executor_tasks_total failed"], 0)
		require.InDelta(t, 1, got["drover_executor_tasks_total stopped"], 0)
		require.InDelta(t, 0, got["drover_executor_tasks_total requeued"], 0)
		require.InDelta(t, 0, got["drover_executor_frames_waiting"], 0)
		require.InDelta(t, 0, got["drover_executor_slots_used"], 0)
	})
}

// The journal has the time of the claim, so the next process reports the whole
// preparation.
func TestAgent_Metrics_of_stages(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{delay: 7 * time.Second, lines: 20, pause: time.Second} }
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.sleep(15 * time.Second)
		p.kill()
		<-p.ended
		p = h.start(nil)
		w.awaitEnd(5*time.Minute, 0)
		w.requireClean(h, p)
		got := metricValues(t, p.agent.Metrics())
		const stages = "drover_executor_stage_duration_seconds fake "
		for stage, took := range map[string]float64{"prepare": 7, "step": 20, "remove": 0} {
			require.InDelta(t, 1, got[stages+stage+" count"], 0, stage)
			require.InDelta(t, took, got[stages+stage], 1, stage)
		}
		require.NotContains(t, got, stages+"cleanup")
	})
}

func TestAgent_Metrics_of_requeued_tasks(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(nil)
		w.sleep(time.Second)
		w.api.setDown(true)
		w.submit(0)
		w.sleep(15 * time.Second)
		got := metricValues(t, p.agent.Metrics())
		require.InDelta(t, 1, got["drover_executor_tasks_total requeued"], 0)
		require.InDelta(t, 0, got["drover_executor_claims_total"], 0)
		require.InDelta(t, 0, got["drover_executor_healthy"], 0)
		w.api.setDown(false)
		w.awaitEnd(5*time.Minute, 0)
		w.requireClean(h, p)
		got = metricValues(t, p.agent.Metrics())
		require.InDelta(t, 1, got["drover_executor_tasks_total requeued"], 0)
		require.InDelta(t, 1, got["drover_executor_tasks_total success"], 0)
		require.InDelta(t, 1, got["drover_executor_claims_total"], 0)
	})
}
