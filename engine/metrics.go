package engine

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the figures of an Engine and its Pump. Register it once.
type Metrics struct {
	created   prometheus.Counter
	delivered *prometheus.CounterVec
}

// NewMetrics returns a set that is not registered.
func NewMetrics() *Metrics {
	return &Metrics{
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_engine_runs_created_total", Help: "Runs stored by this process.",
		}),
		delivered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_engine_outbox_deliveries_total", Help: "Attempts to tell workflows of changes, by outcome.",
		}, []string{"kind", "outcome"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.created.Collect(ch)
	m.delivered.Collect(ch)
}
