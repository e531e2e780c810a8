package activities

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run"
)

// RetentionMetrics are metrics of the data that one process has removed under
// the retention settings. Register it once.
type RetentionMetrics struct {
	removed  *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	failures *prometheus.CounterVec
}

var _ prometheus.Collector = (*RetentionMetrics)(nil)

// NewRetentionMetrics returns unregistered metrics.
func NewRetentionMetrics() *RetentionMetrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"kind"})
	}
	m := &RetentionMetrics{
		removed:  counter("drover_retention_removed_total", "Items removed under the retention settings, by kind; logs are counted by run."),
		bytes:    counter("drover_retention_removed_bytes_total", "Bytes of the removed items in the blob store; unknown for runs and events."),
		failures: counter("drover_retention_failures_total", "Failed attempts to remove items, by kind; each is retried."),
	}
	for _, kind := range run.RetentionKinds() {
		m.removed.WithLabelValues(string(kind))
		m.failures.WithLabelValues(string(kind))
		if kind != run.RetentionRuns && kind != run.RetentionEvents {
			m.bytes.WithLabelValues(string(kind))
		}
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *RetentionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.removed, m.bytes, m.failures} {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *RetentionMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.removed, m.bytes, m.failures} {
		c.Collect(ch)
	}
}

// record counts what a call removed. It counts a failure unless the process is
// stopping.
func (m *RetentionMetrics) record(ctx context.Context, kind run.RetentionKind, n int, bytes int64, err error) {
	m.removed.WithLabelValues(string(kind)).Add(float64(n))
	if bytes > 0 {
		m.bytes.WithLabelValues(string(kind)).Add(float64(bytes))
	}
	if err != nil && ctx.Err() == nil {
		m.failures.WithLabelValues(string(kind)).Inc()
	}
}
