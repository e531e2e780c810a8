package outbox

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of a Dispatcher. Register them once.
type Metrics struct {
	delivered *prometheus.CounterVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	return &Metrics{delivered: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "drover_engine_outbox_deliveries_total", Help: "Attempts to deliver outbox rows to workflows, by outcome.",
	}, []string{"kind", "outcome"})}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { m.delivered.Describe(ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) { m.delivered.Collect(ch) }
