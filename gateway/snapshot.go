package gateway

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run"
)

// snapshot gathers the figures that are read from the store. Figures that cannot
// be read are logged and left out: the other metrics are needed most when the
// store is down.
func (m *metrics) snapshot(ctx context.Context) prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	for _, add := range []func(context.Context, *prometheus.Registry) error{m.addStats, m.addArchives, m.addPools, m.addExecutors} {
		if err := add(ctx, registry); err != nil {
			m.logger.WarnContext(ctx, "failed to read figures of the store", "error", err)
		}
	}
	return registry
}

func (m *metrics) addStats(ctx context.Context, registry *prometheus.Registry) error {
	if m.stats == nil {
		return nil
	}
	stats, err := m.stats(ctx)
	if err != nil {
		return err
	}
	runs := gauges(registry, "drover_runs", "Open runs by phase.", "phase")
	for _, phase := range run.Phases() {
		if !phase.Final() {
			runs.WithLabelValues(string(phase)).Set(float64(stats.OpenRuns[phase]))
		}
	}
	tasks := gauges(registry, "drover_tasks", "Tasks of open runs by status.", "status")
	for _, status := range run.Statuses() {
		tasks.WithLabelValues(string(status)).Set(float64(stats.OpenTasks[status]))
	}
	gauges(registry, "drover_outbox_rows", "Outbox rows that wait for delivery to their workflows.").
		WithLabelValues().Set(float64(stats.Outbox))
	gauges(registry, "drover_outbox_oldest_seconds", "Age of the oldest outbox row.").
		WithLabelValues().Set(stats.OldestOutbox.Seconds())
	return nil
}

func (m *metrics) addArchives(ctx context.Context, registry *prometheus.Registry) error {
	if m.archives == nil {
		return nil
	}
	stored, err := m.archives(ctx)
	if err != nil {
		return err
	}
	archives := gauges(registry, "drover_archives", "Stored archives by kind.", "kind")
	bytes := gauges(registry, "drover_archives_bytes", "Bytes of the stored archives by kind.", "kind")
	for kind, stat := range stored {
		archives.WithLabelValues(string(kind)).Set(float64(stat.Archives))
		bytes.WithLabelValues(string(kind)).Set(float64(stat.Bytes))
	}
	return nil
}

func (m *metrics) addPools(ctx context.Context, registry *prometheus.Registry) error {
	pools, err := m.runs.Pools(ctx)
	if err != nil {
		return err
	}
	slots := gauges(registry, "drover_pool_slots", "Slots of online executors.", "pool")
	used := gauges(registry, "drover_pool_slots_used", "Slots in use.", "pool")
	queued := gauges(registry, "drover_pool_tasks_queued", "Tasks that wait for a slot.", "pool")
	running := gauges(registry, "drover_pool_tasks_running", "Running tasks.", "pool")
	for _, p := range pools {
		slots.WithLabelValues(p.Name).Set(float64(p.Slots))
		used.WithLabelValues(p.Name).Set(float64(p.SlotsUsed))
		queued.WithLabelValues(p.Name).Set(float64(p.Queued))
		running.WithLabelValues(p.Name).Set(float64(p.Running))
	}
	return nil
}

func (m *metrics) addExecutors(ctx context.Context, registry *prometheus.Registry) error {
	executors, err := m.runs.Executors(ctx)
	if err != nil {
		return err
	}
	states := gauges(registry, "drover_executors", "Executors by pool and state.", "pool", "state")
	for _, e := range executors {
		states.WithLabelValues(e.Pool, string(e.State)).Inc()
	}
	return nil
}

func gauges(registry *prometheus.Registry, name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	registry.MustRegister(v)
	return v
}
