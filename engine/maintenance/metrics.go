// Package maintenance keeps the stores tidy and the workflows running, beside the
// calls of clients: it packs the logs of ended tasks, removes unreferenced
// objects, closes runs whose workflow was ended from outside, and starts the
// workflows of webhooks and of the retention again. Any number of processes may
// run each part.
package maintenance

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/records"
)

// Metrics are the metrics of a Compactor and an ArchiveGarbageCollector. Register
// them once.
type Metrics struct {
	packTime   prometheus.Histogram
	packBefore prometheus.Counter
	packAfter  prometheus.Counter
	removed    prometheus.Counter
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	return &Metrics{
		packTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_log_packing_seconds", Help: "Time to pack the log of a task that ended.", Buckets: prometheus.ExponentialBuckets(0.002, 4, 10),
		}),
		packBefore: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_log_packing_read_bytes_total", Help: "Bytes that logs took in the blob store before they were packed.",
		}),
		packAfter: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_log_packing_written_bytes_total", Help: "Bytes that packed logs take in the blob store.",
		}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_archive_objects_removed_total", Help: "Objects of archives that were removed from the blob store, with those that were not completed.",
		}),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.packTime, m.packBefore, m.packAfter, m.removed}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *Metrics) logPacked(log records.PackingLog, size int64, took time.Duration) {
	m.packTime.Observe(took.Seconds())
	m.packAfter.Add(float64(size))
	for _, b := range log.Batches {
		m.packBefore.Add(float64(b.Bytes))
	}
}
