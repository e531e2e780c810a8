package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/executor/agent/archives"
	"github.com/drover-run/drover/run"
)

// outcomeRequeued is the outcome, besides the final statuses, of a task of which no step
// ran and which is queued again.
const outcomeRequeued = "requeued"

// metrics are the metrics of an agent.
type metrics struct {
	claims   prometheus.Counter
	adopted  prometheus.Counter
	released prometheus.Counter
	tasks    *prometheus.CounterVec
	stages   *prometheus.HistogramVec

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
		adopted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_executor_tasks_adopted_total", Help: "Tasks that were taken over from other members of the executor set.",
		}),
		released: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_executor_tasks_released_total", Help: "Tasks that another member of the executor set has taken over.",
		}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_executor_tasks_total", Help: "Tasks that ended on this executor, by outcome; requeued if no step ran and the task was queued again.",
		}, []string{"outcome"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_executor_stage_duration_seconds", Help: "Time that each task spent in a stage; remove is the removal of its environment.",
			Buckets:     prometheus.ExponentialBuckets(0.05, 3, 13), // to 7.4 hours
			ConstLabels: prometheus.Labels{"driver": a.driver.Features().Name},
		}, []string{"stage"}),
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_executor_transfers_total", Help: "Archive transfers for steps, by the type of step and the outcome of each try: moved, failed, interrupted or stopped.",
		}, []string{"step", "outcome"}),
		transferBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_executor_transfer_bytes_total", Help: "Bytes of archives that were moved, over all tries.",
		}, []string{"step"}),
		transferTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_executor_transfer_duration_seconds", Help: "Duration of archive transfers for steps, over all tries.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9), // to 11 minutes
		}, []string{"step"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.all = []prometheus.Collector{
		m.claims, m.tasks, m.stages, m.transfers, m.transferBytes, m.transferTime,
		gauge("drover_executor_slots", "Tasks that the executor runs at a time.", func() float64 { return float64(a.opts.Slots) }),
		gauge("drover_executor_slots_used", "Tasks that take a slot.", func() float64 { return float64(a.slots.InUse()) }),
		gauge("drover_executor_frames_waiting", "Frames in memory that the gateway has not stored yet.", func() float64 {
			frames, _ := a.unsentFrames()
			return float64(frames)
		}),
		gauge("drover_executor_frames_waiting_bytes", "Size of those frames.", func() float64 {
			_, bytes := a.unsentFrames()
			return float64(bytes)
		}),
		gauge("drover_executor_healthy", "1 while the executor accepts tasks, 0 otherwise.", func() float64 {
			if a.Health() != nil {
				return 0
			}
			return 1
		}),
	}
	if a.shared != nil {
		m.all = append(m.all, m.adopted, m.released)
	}
	for _, status := range []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusStopped} {
		m.tasks.WithLabelValues(string(status))
	}
	m.tasks.WithLabelValues(outcomeRequeued)
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

// Metrics returns the metrics of the agent. Agents that share a registry need a
// label to distinguish them.
func (a *Agent) Metrics() prometheus.Collector { return a.metrics }

// unsentFrames returns how many frames wait in memory to be stored, and their size.
func (a *Agent) unsentFrames() (frames, bytes int) {
	for _, t := range a.all() {
		t.mu.Lock()
		s := t.sender
		t.mu.Unlock()
		if s != nil {
			n, size := s.Waiting()
			frames, bytes = frames+n, bytes+size
		}
	}
	return frames, bytes
}

// count counts the outcome of a task once; a repeated report does not count.
func (t *task) count(outcome string) {
	if !t.counted.Swap(true) {
		t.a.metrics.tasks.WithLabelValues(outcome).Inc()
	}
}

// stageRemove is the stage, besides those of package run, in which an environment is
// removed. The task has ended then, and only the executor knows of it.
const stageRemove = "remove"

// countStages counts how long a task that ended was in each stage. The caller holds
// the lock.
func (t *task) countStages(r *run.TaskResult) {
	of := run.Task{Status: r.Status, StartedAt: t.entry.Granted, EndedAt: r.Ended, Steps: make([]run.StepState, len(r.Steps))}
	if of.EndedAt.IsZero() {
		of.EndedAt = t.a.now()
	}
	for i, step := range r.Steps {
		of.Steps[i].StepResult = step
	}
	mayBeHeld := r.Status == run.StatusFailed && (t.def == nil || t.def.HoldOnFailure > 0)
	took := make(map[run.Stage]time.Duration, len(run.Stages()))
	for _, s := range run.StagesOf(&of) {
		last := s.Stage == run.StageCleanup && s.Step < 0
		if s.Ended.IsZero() || last && mayBeHeld {
			continue // unknown, or with the time for which it was held
		}
		took[s.Stage] += s.Ended.Sub(s.Started)
	}
	for stage, d := range took {
		t.a.metrics.stages.WithLabelValues(string(stage)).Observe(d.Seconds())
	}
}

// transferred counts a try to transfer an archive for a step.
func (m *metrics) transferred(t archives.Try) {
	if t.Step == "" {
		return // the type of the step is not known yet
	}
	m.transfers.WithLabelValues(t.Step, string(t.Outcome)).Inc()
	m.transferBytes.WithLabelValues(t.Step).Add(float64(t.Bytes))
	if t.Outcome == archives.Moved {
		m.transferTime.WithLabelValues(t.Step).Observe(t.Took.Seconds())
	}
}
