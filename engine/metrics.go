package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Metrics are the metrics of an Engine, its archives and its store, which must
// have it as its observer. They count the writes of this process: gateways
// write the claims, control workers the ends. Register it once.
type Metrics struct {
	created prometheus.Counter

	runQueue  prometheus.Histogram
	runTime   *prometheus.HistogramVec
	runsEnded *prometheus.CounterVec
	taskQueue *prometheus.HistogramVec
	taskTime  *prometheus.HistogramVec
	tasks     *prometheus.CounterVec
	frames    prometheus.Counter
	lag       prometheus.Histogram

	archives *archives.Metrics
}

var (
	_ records.Observer     = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	waits := prometheus.ExponentialBuckets(0.005, 4, 12) // to 5.8 hours
	times := prometheus.ExponentialBuckets(0.05, 3, 13)  // to 7.4 hours
	return &Metrics{
		archives: archives.NewMetrics(),
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_engine_runs_created_total", Help: "Runs stored by this process.",
		}),
		runQueue: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_run_queue_seconds", Help: "Time from the creation of runs to their start.", Buckets: waits,
		}),
		runTime: histogram("drover_run_duration_seconds", "Time from the start of runs to their end, by result.", times, "result"),
		runsEnded: counter("drover_runs_ended_total", "Runs that ended, by phase and result, with those that were cancelled before they began.",
			"phase", "result"),
		taskQueue: histogram("drover_task_queue_seconds", "Time from the queueing of tasks to their claim by an executor, by pool.", waits, "pool"),
		taskTime: histogram("drover_task_duration_seconds", "Time from the claim of the last attempt of tasks to their end, by pool and status.",
			times, "pool", "status"),
		tasks: counter("drover_tasks_ended_total", "Tasks that ended, by status, with those that never began.", "status"),
		frames: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_log_frames_total", Help: "Frames of logs that were stored, each once.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_log_lag_seconds", Help: "Age of the oldest output of a batch when it was stored, by the executor's clock.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 11), // to 48 seconds
		}),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.created, m.runQueue, m.runTime, m.runsEnded, m.taskQueue, m.taskTime, m.tasks, m.frames, m.lag,
		m.archives,
	}
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

// RunStarted implements records.Observer.
func (m *Metrics) RunStarted(waited time.Duration) { m.runQueue.Observe(waited.Seconds()) }

// RunEnded implements records.Observer.
func (m *Metrics) RunEnded(phase run.Phase, result run.Result, took time.Duration) {
	m.runsEnded.WithLabelValues(string(phase), string(result)).Inc()
	if phase == run.PhaseFinished {
		m.runTime.WithLabelValues(string(result)).Observe(took.Seconds())
	}
}

// TaskClaimed implements records.Observer.
func (m *Metrics) TaskClaimed(pool string, waited time.Duration) {
	m.taskQueue.WithLabelValues(pool).Observe(waited.Seconds())
}

// TaskEnded implements records.Observer.
func (m *Metrics) TaskEnded(pool string, status run.Status, started bool, took time.Duration) {
	m.tasks.WithLabelValues(string(status)).Inc()
	if started {
		m.taskTime.WithLabelValues(pool, string(status)).Observe(took.Seconds())
	}
}

// FramesStored implements records.Observer.
func (m *Metrics) FramesStored(frames int, output bool, lag time.Duration) {
	m.frames.Add(float64(frames))
	if output {
		m.lag.Observe(lag.Seconds())
	}
}
