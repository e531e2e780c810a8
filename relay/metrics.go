package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// metrics are the metrics of a relay.
type metrics struct {
	calls     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	openPolls prometheus.Gauge
	tasks     *prometheus.CounterVec
	badTokens prometheus.Counter
}

var _ prometheus.Collector = (*metrics)(nil)

func newMetrics() *metrics {
	return &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_relay_calls_total", Help: "Calls answered, by their name and the code of gRPC.",
		}, []string{"call", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_relay_call_duration_seconds", Help: "Time to answer calls that were let in, without polls.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10},
		}, []string{"call"}),
		openPolls: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "drover_relay_open_polls", Help: "Polls of executors that wait for a task.",
		}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_relay_tasks_total", Help: "Tasks handed to executors, by the kind of the queue.",
		}, []string{"queue"}),
		badTokens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_relay_bad_task_tokens_total", Help: "Heartbeats and answers with a task token that was not handed to the caller.",
		}),
	}
}

func (m *metrics) called(call string, code codes.Code, took time.Duration) {
	m.calls.WithLabelValues(call, code.String()).Inc()
	if !isPoll(call) && code == codes.OK {
		m.duration.WithLabelValues(call).Observe(took.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.duration, m.openPolls, m.tasks, m.badTokens}
}
