package webhooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run"
)

// Metrics are the metrics of the deliveries of one process. Register it once.
type Metrics struct {
	attempts *prometheus.CounterVec
	events   *prometheus.CounterVec
	failures *prometheus.GaugeVec
	time     prometheus.Histogram
	age      prometheus.Histogram
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns Metrics that are not registered.
func NewMetrics() *Metrics {
	const label = "webhook"
	return &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_webhook_attempts_total", Help: "Requests to receivers, by outcome: accepted or failed.",
		}, []string{label, "outcome"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_webhook_events_total", Help: "Events that receivers have taken.",
		}, []string{label}),
		failures: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_webhook_failures", Help: "Attempts in a row that failed, of the webhooks that this process delivers.",
		}, []string{label}),
		time: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_webhook_attempt_duration_seconds", Help: "Time that receivers took to answer, or to fail.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 9), // to 33 seconds
		}),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_webhook_lag_seconds", Help: "Age of the oldest event of a batch when it was taken.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 12), // to half a day
		}),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.attempts, m.events, m.failures, m.time, m.age}
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

// begun adds the metrics of a webhook that this process starts to deliver;
// ended removes them.
func (m *Metrics) begun(webhook string, failures int) {
	m.failures.WithLabelValues(webhook).Set(float64(failures))
}

func (m *Metrics) ended(webhook string) { m.failures.DeleteLabelValues(webhook) }

// accepted counts a batch that the receiver accepted.
func (m *Metrics) accepted(webhook string, events []run.Event, began time.Time) {
	now := time.Now()
	m.attempts.WithLabelValues(webhook, "accepted").Inc()
	m.events.WithLabelValues(webhook).Add(float64(len(events)))
	m.failures.WithLabelValues(webhook).Set(0)
	m.time.Observe(now.Sub(began).Seconds())
	m.age.Observe(max(0, now.Sub(events[0].Time)).Seconds())
}

// failed counts a failed attempt. failures is the number of failures in a row.
func (m *Metrics) failed(webhook string, failures int, began time.Time) {
	m.attempts.WithLabelValues(webhook, "failed").Inc()
	m.failures.WithLabelValues(webhook).Set(float64(failures))
	m.time.Observe(time.Since(began).Seconds())
}
