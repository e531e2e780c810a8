package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run"
)

// givenBack is the outcome, beside the final statuses, of a task of which no
// step ran, and which is queued again.
const givenBack = "given_back"

// metrics are the figures of an agent.
type metrics struct {
	claims prometheus.Counter
	gained prometheus.Counter
	lost   prometheus.Counter
	tasks  *prometheus.CounterVec

	transfers     *prometheus.CounterVec
	transferBytes *prometheus.CounterVec
	transferTime  *prometheus.HistogramVec

	all []prometheus.Collector
}

func newMetrics(a *Agent) *metrics {
	m := &metrics{
		claims: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_executor_claims_total", Help: "Claims that were granted to this process.",
		}),
		gained: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_executor_keys_gained_total", Help: "Tasks that were taken over from other members of the executor set.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_executor_keys_lost_total", Help: "Tasks that another member of the executor set has taken over.",
		}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_executor_tasks_total", Help: "Tasks that ended here, by outcome, given_back for those that never began.",
		}, []string{"outcome"}),
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_executor_transfers_total", Help: "Archives that steps asked to be moved, by the type of step and the outcome of each try: moved, failed, broken_off or stopped.",
		}, []string{"step", "outcome"}),
		transferBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_executor_transfer_bytes_total", Help: "Bytes of archives that were moved, all tries together.",
		}, []string{"step"}),
		transferTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_executor_transfer_duration_seconds", Help: "Time in which steps had what they asked for moved, all tries together.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9), // to 11 minutes
		}, []string{"step"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.all = []prometheus.Collector{
		m.claims, m.tasks, m.transfers, m.transferBytes, m.transferTime,
		gauge("drover_executor_slots", "Tasks that the executor runs at a time.", func() float64 { return float64(a.opts.Slots) }),
		gauge("drover_executor_slots_used", "Tasks that take a slot.", func() float64 { return float64(a.slots.inUse()) }),
		gauge("drover_executor_frames_waiting", "Frames in memory that the gateway has not stored yet.", func() float64 {
			frames, _ := a.unshipped()
			return float64(frames)
		}),
		gauge("drover_executor_frames_waiting_bytes", "Size of those frames.", func() float64 {
			_, bytes := a.unshipped()
			return float64(bytes)
		}),
		gauge("drover_executor_healthy", "1 while the executor asks for tasks, 0 while something keeps it from it.", func() float64 {
			if a.Health() != nil {
				return 0
			}
			return 1
		}),
	}
	if a.shared != nil {
		m.all = append(m.all, m.gained, m.lost)
	}
	for _, status := range []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusStopped} {
		m.tasks.WithLabelValues(string(status))
	}
	m.tasks.WithLabelValues(givenBack)
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
}

// Metrics returns the figures of the agent. Agents that share a registry need
// a label that tells them apart.
func (a *Agent) Metrics() prometheus.Collector { return a.metrics }

// unshipped returns how many frames wait in memory to be stored, and their size.
func (a *Agent) unshipped() (frames, bytes int) {
	for _, t := range a.all() {
		t.mu.Lock()
		s := t.ship
		t.mu.Unlock()
		if s != nil {
			n, size := s.waiting()
			frames, bytes = frames+n, bytes+size
		}
	}
	return frames, bytes
}

// waiting returns how many frames are queued, and their size.
func (s *shipper) waiting() (frames, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.bytes
}

// count counts the outcome of a task, the first one alone: what is answered
// again was counted.
func (t *task) count(outcome string) {
	if !t.counted.Swap(true) {
		t.a.metrics.tasks.WithLabelValues(outcome).Inc()
	}
}

// Outcomes of a try to move what a step asks for.
const (
	transferMoved     = "moved"
	transferFailed    = "failed"     // for good: the step fails
	transferBrokenOff = "broken_off" // it is tried again
	transferStopped   = "stopped"    // the step waits no more
)

// transferred counts a try to move what a step asks for.
func (m *metrics) transferred(step, outcome string, bytes int64, took time.Duration) {
	if step == "" {
		return // it is not known yet what the step wants
	}
	m.transfers.WithLabelValues(step, outcome).Inc()
	m.transferBytes.WithLabelValues(step).Add(float64(bytes))
	if outcome == transferMoved {
		m.transferTime.WithLabelValues(step).Observe(took.Seconds())
	}
}
