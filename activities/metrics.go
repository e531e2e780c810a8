package activities

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run"
)

// RetentionMetrics are the figures of what one process has removed because it
// is kept no longer. Register it once.
type RetentionMetrics struct {
	removed  *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	failures *prometheus.CounterVec
}

var _ prometheus.Collector = (*RetentionMetrics)(nil)

// NewRetentionMetrics returns a set that is not registered.
func NewRetentionMetrics() *RetentionMetrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"kind"})
	}
	m := &RetentionMetrics{
		removed:  counter("drover_retention_removed_total", "What was removed since it is kept no longer, by kind; logs are counted by run."),
		bytes:    counter("drover_retention_removed_bytes_total", "Bytes that it took in the blob store; of runs and events they are not known."),
		failures: counter("drover_retention_failures_total", "Attempts to remove that failed, by kind; each is followed by another."),
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

// did counts what a call removed, and that it failed, unless its process ends.
func (m *RetentionMetrics) did(ctx context.Context, kind run.RetentionKind, n int, bytes int64, err error) {
	m.removed.WithLabelValues(string(kind)).Add(float64(n))
	if bytes > 0 {
		m.bytes.WithLabelValues(string(kind)).Add(float64(bytes))
	}
	if err != nil && ctx.Err() == nil {
		m.failures.WithLabelValues(string(kind)).Inc()
	}
}
