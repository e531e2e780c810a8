package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Metrics holds the metrics of fleets, under the names that dashboards for
// GitLab's taskscaler and fleeting use. Register it once.
type Metrics struct {
	maxInstances *prometheus.GaugeVec
	instances    *prometheus.GaugeVec
	missed       *prometheus.CounterVec
	operations   *prometheus.CounterVec
	internal     *prometheus.CounterVec
	creation     *prometheus.HistogramVec
	running      *prometheus.HistogramVec
	deletion     *prometheus.HistogramVec
	life         *prometheus.HistogramVec
	unlisted     *prometheus.GaugeVec
	outdated     *prometheus.GaugeVec

	tasks     *prometheus.GaugeVec
	perTask   *prometheus.GaugeVec
	maxUse    *prometheus.GaugeVec
	desired   *prometheus.GaugeVec
	scaled    *prometheus.CounterVec
	taskOps   *prometheus.CounterVec
	readiness *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns a set that is not registered.
func NewMetrics() *Metrics {
	// Dashboards for GitLab's taskscaler distinguish fleets by runner_name.
	of := func(labels ...string) []string { return append([]string{"fleet", "runner_name"}, labels...) }
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, of(labels...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, of(labels...))
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, of())
	}
	boots := []float64{1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200}
	lives := []float64{60, 300, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600, 7 * 24 * 3600}
	return &Metrics{
		maxInstances: gauge("fleeting_provisioner_max_instances", "Instances that a fleet may have, 0 for no limit."),
		instances:    gauge("fleeting_provisioner_instances", "Instances of a fleet, by state.", "state"),
		missed:       counter("fleeting_provisioner_missed_updates_total", "Listings that a plugin did not answer."),
		operations:   counter("fleeting_provisioner_instance_operations_total", "Instances that a plugin was asked to create or delete.", "operation"),
		internal:     counter("fleeting_provisioner_internal_operations_total", "Reconciliation rounds of a fleet, by result.", "operation"),
		creation:     histogram("fleeting_provisioner_instance_creation_time_seconds", "From the request to the first listing.", boots),
		running:      histogram("fleeting_provisioner_instance_is_running_time_seconds", "From the request to the first listing as running.", boots),
		deletion:     histogram("fleeting_provisioner_instance_deletion_time_seconds", "From the last request to delete an instance until it is gone.", boots),
		life:         histogram("fleeting_provisioner_instance_life_duration_seconds", "From the first listing until the instance is gone.", lives),
		unlisted:     gauge("drover_fleet_unlisted_instances", "Instances that the plugin does not list while their executors are in contact."),
		outdated:     gauge("drover_fleet_outdated_instances", "Instances of earlier revisions of a fleet that are not gone."),

		tasks:     gauge("fleeting_taskscaler_tasks", "Slots and tasks of a fleet, by state.", "state"),
		perTask:   gauge("fleeting_taskscaler_max_tasks_per_instance", "Concurrent tasks on one instance."),
		maxUse:    gauge("fleeting_taskscaler_max_use_count_per_instance", "Tasks in the life of an instance, 0 for no limit."),
		desired:   gauge("fleeting_taskscaler_desired_instances", "Instances that a fleet needs, ignoring its limits."),
		scaled:    counter("fleeting_taskscaler_scale_operations_total", "Decisions to grow or to shrink.", "operation"),
		taskOps:   counter("fleeting_taskscaler_task_operations_total", "Tasks that instances took.", "operation"),
		readiness: histogram("fleeting_taskscaler_task_instance_readiness_time_seconds", "From the request for an instance until it takes tasks.", boots),
	}
}

func (m *Metrics) collectors() []interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
} {
	return []interface {
		prometheus.Collector
		DeletePartialMatch(labels prometheus.Labels) int
	}{
		m.maxInstances, m.instances, m.missed, m.operations, m.internal, m.creation, m.running, m.deletion, m.life, m.unlisted, m.outdated,
		m.tasks, m.perTask, m.maxUse, m.desired, m.scaled, m.taskOps, m.readiness,
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}

// forget deletes the metrics of a fleet that this process no longer manages.
func (m *Metrics) forget(fleet string) {
	for _, c := range m.collectors() {
		c.DeletePartialMatch(prometheus.Labels{"fleet": fleet})
	}
}

func (m *Metrics) countMissedUpdate(fleet string) { m.missed.WithLabelValues(fleet, fleet).Inc() }

func (m *Metrics) countOperations(fleet, operation string, n int) {
	m.operations.WithLabelValues(fleet, fleet, operation).Add(float64(n))
}

// setGauges sets the gauges of a fleet.
func (m *Metrics) setGauges(fleet string, p planResult, rows []row, outdated int) {
	states := map[string]int{}
	for _, s := range []run.InstanceState{run.InstanceRequested, run.InstanceCreating, run.InstanceDeleting} {
		states[string(s)] = 0
	}
	unlisted := 0
	// The dashboards have four states: requested, creating, running, deleting.
	for _, r := range rows {
		if r.unlisted() {
			unlisted++
		}
		switch r.State {
		case run.InstanceRequested, run.InstanceCreating, run.InstanceDeleting:
			states[string(r.State)]++
		case run.InstanceBootstrapping, run.InstanceReady, run.InstanceDraining:
			states["running"]++
		case run.InstanceIgnored, run.InstanceGone:
		}
	}
	for _, state := range []string{"requested", "creating", "running", "deleting"} {
		m.instances.WithLabelValues(fleet, fleet, state).Set(float64(states[state]))
	}
	m.unlisted.WithLabelValues(fleet, fleet).Set(float64(unlisted))
	m.outdated.WithLabelValues(fleet, fleet).Set(float64(outdated))
	m.maxInstances.WithLabelValues(fleet, fleet).Set(float64(p.limits.MaxInstances))
	m.perTask.WithLabelValues(fleet, fleet).Set(float64(p.limits.Capacity))
	m.maxUse.WithLabelValues(fleet, fleet).Set(float64(p.limits.MaxUse))
	m.desired.WithLabelValues(fleet, fleet).Set(float64(p.decision.Figures.Target))
	m.setSlotGauges(fleet, p, rows)
	operation := "reconcile"
	switch {
	case p.Request.Count > 0:
		operation = "provision"
		m.scaled.WithLabelValues(fleet, fleet, "up").Inc()
	case len(p.Drain)+len(p.GiveUp) > 0:
		m.scaled.WithLabelValues(fleet, fleet, "down").Inc()
	case len(p.Delete)+len(p.Lost) > 0:
		operation = "removal"
	}
	m.internal.WithLabelValues(fleet, fleet, operation).Inc()
}

// setSlotGauges sets the gauges of slots.
func (m *Metrics) setSlotGauges(fleet string, p planResult, rows []row) {
	slots := map[string]int{"idle": 0, "acquired": 0, "unavailable": 0, "unhealthy": 0}
	for _, r := range rows {
		busy := r.busy()
		slots["acquired"] += busy
		free := max(0, p.limits.Capacity-busy)
		switch {
		case r.State == run.InstanceReady && r.Failures > 0:
			slots["unhealthy"] += free
		case r.State == run.InstanceReady:
			slots["idle"] += free
		case r.State == run.InstanceDraining:
			slots["unavailable"] += free
		}
	}
	slots["pending"] = p.decision.Figures.Queued
	for state, n := range slots {
		m.tasks.WithLabelValues(fleet, fleet, state).Set(float64(n))
	}
}

// observeChanges observes the changes of instances.
func (m *Metrics) observeChanges(fleet string, v records.FleetView, c records.FleetChanges, now time.Time) {
	before := map[int]records.LedgerRow{}
	for _, r := range v.Instances {
		before[r.Number] = r
	}
	since := func(h *prometheus.HistogramVec, from time.Time) {
		if !from.IsZero() {
			h.WithLabelValues(fleet, fleet).Observe(max(0, now.Sub(from).Seconds()))
		}
	}
	for _, change := range c.Set {
		previous := before[change.Number]
		if previous.CreatedAt.IsZero() && !change.CreatedAt.IsZero() {
			since(m.creation, previous.RequestedAt)
		}
		if previous.RunningAt.IsZero() && !change.RunningAt.IsZero() {
			since(m.running, previous.RequestedAt)
		}
		if previous.State == run.InstanceBootstrapping && change.State == run.InstanceReady {
			since(m.readiness, previous.RequestedAt)
		}
		if change.State == run.InstanceGone {
			since(m.deletion, previous.DeletingAt)
			since(m.life, previous.CreatedAt)
		}
		if taken := change.Uses - previous.Uses; taken > 0 {
			m.taskOps.WithLabelValues(fleet, fleet, "acquire").Add(float64(taken))
		}
	}
}
