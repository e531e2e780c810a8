package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/drover-run/drover/run"
)

// Stats are figures of the records, for the metrics.
type Stats struct {
	OpenRuns  map[run.Phase]int
	OpenTasks map[run.Status]int // of open runs
	// Outbox is the number of outbox rows that wait for delivery to their
	// workflows, and OldestOutbox the age of the oldest one.
	Outbox       int
	OldestOutbox time.Duration
}

// StatsFunc reads the figures of the records.
type StatsFunc func(ctx context.Context) (Stats, error)

// ArchivesFunc counts the stored archives.
type ArchivesFunc func(ctx context.Context) (map[run.ArchiveKind]run.ArchiveStat, error)

// metrics are the metrics of the gateway.
type metrics struct {
	registry *prometheus.Registry
	runs     run.Service
	stats    StatsFunc
	archives ArchivesFunc
	logger   *slog.Logger

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	open     *prometheus.GaugeVec
	panics   prometheus.Counter
}

func newMetrics(deps Deps) (*metrics, error) {
	registry := deps.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		registry: registry, runs: deps.Runs, stats: deps.Stats, archives: deps.Archives, logger: deps.Logger,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_gateway_requests_total", Help: "Answered requests by route, method and HTTP status.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_gateway_request_duration_seconds", Help: "Time to answer requests, without streams.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 11),
		}, []string{"route", "method"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_gateway_open_streams", Help: "Open event and log streams by route.",
		}, []string{"route"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_gateway_panics_total", Help: "Handlers that panicked.",
		}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.open, m.panics} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) countRequest(route, method string, status int) {
	m.requests.WithLabelValues(route, methodLabel(method), strconv.Itoa(status)).Inc()
}

func (m *metrics) observeDuration(route, method string, took time.Duration) {
	m.duration.WithLabelValues(route, methodLabel(method)).Observe(took.Seconds())
}

// trackStream counts an open stream until the returned function is called.
func (m *metrics) trackStream(route string) func() {
	gauge := m.open.WithLabelValues(route)
	gauge.Inc()
	return gauge.Dec
}

// GetMetrics implements ServerInterface. Figures of the store are read at each
// scrape.
func (s *Server) GetMetrics(c echo.Context) error {
	gatherers := prometheus.Gatherers{s.metrics.registry, s.metrics.snapshot(c.Request().Context())}
	promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}

// methodLabel bounds the number of label values: clients can send any method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return method
	}
	return "other"
}

// snapshot gathers the figures that are read from the store. Figures that cannot
// be read are logged and left out: the other metrics are needed most when the
// store is down.
func (m *metrics) snapshot(ctx context.Context) prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	for _, add := range []func(context.Context, *prometheus.Registry) error{m.addStats, m.addArchives, m.addPools, m.addExecutors} {
		if err := add(ctx, registry); err != nil {
			m.logger.WarnContext(ctx, "failed to read figures of the store", "error", err)
		}
	}
	return registry
}

func (m *metrics) addStats(ctx context.Context, registry *prometheus.Registry) error {
	if m.stats == nil {
		return nil
	}
	stats, err := m.stats(ctx)
	if err != nil {
		return err
	}
	runs := gauges(registry, "drover_runs", "Open runs by phase.", "phase")
	for _, phase := range run.Phases() {
		if !phase.Final() {
			runs.WithLabelValues(string(phase)).Set(float64(stats.OpenRuns[phase]))
		}
	}
	tasks := gauges(registry, "drover_tasks", "Tasks of open runs by status.", "status")
	for _, status := range run.Statuses() {
		tasks.WithLabelValues(string(status)).Set(float64(stats.OpenTasks[status]))
	}
	gauges(registry, "drover_outbox_rows", "Outbox rows that wait for delivery to their workflows.").
		WithLabelValues().Set(float64(stats.Outbox))
	gauges(registry, "drover_outbox_oldest_seconds", "Age of the oldest outbox row.").
		WithLabelValues().Set(stats.OldestOutbox.Seconds())
	return nil
}

func (m *metrics) addArchives(ctx context.Context, registry *prometheus.Registry) error {
	if m.archives == nil {
		return nil
	}
	stored, err := m.archives(ctx)
	if err != nil {
		return err
	}
	archives := gauges(registry, "drover_archives", "Stored archives by kind.", "kind")
	bytes := gauges(registry, "drover_archives_bytes", "Bytes of the stored archives by kind.", "kind")
	for kind, stat := range stored {
		archives.WithLabelValues(string(kind)).Set(float64(stat.Archives))
		bytes.WithLabelValues(string(kind)).Set(float64(stat.Bytes))
	}
	return nil
}

func (m *metrics) addPools(ctx context.Context, registry *prometheus.Registry) error {
	pools, err := m.runs.Pools(ctx)
	if err != nil {
		return err
	}
	slots := gauges(registry, "drover_pool_slots", "Slots of online executors.", "pool")
	used := gauges(registry, "drover_pool_slots_used", "Slots in use.", "pool")
	queued := gauges(registry, "drover_pool_tasks_queued", "Tasks that wait for a slot.", "pool")
	running := gauges(registry, "drover_pool_tasks_running", "Running tasks.", "pool")
	limits := gauges(registry, "drover_pool_max_running", "Tasks that may run at a time, of pools with a limit.", "pool")
	for _, p := range pools {
		if p.MaxRunning > 0 {
			limits.WithLabelValues(p.Name).Set(float64(p.MaxRunning))
		}
		slots.WithLabelValues(p.Name).Set(float64(p.Slots))
		used.WithLabelValues(p.Name).Set(float64(p.SlotsUsed))
		queued.WithLabelValues(p.Name).Set(float64(p.Queued))
		running.WithLabelValues(p.Name).Set(float64(p.Running))
	}
	return nil
}

func (m *metrics) addExecutors(ctx context.Context, registry *prometheus.Registry) error {
	executors, err := m.runs.Executors(ctx)
	if err != nil {
		return err
	}
	states := gauges(registry, "drover_executors", "Executors by pool and state.", "pool", "state")
	for _, e := range executors {
		states.WithLabelValues(e.Pool, string(e.State)).Inc()
	}
	return nil
}

func gauges(registry *prometheus.Registry, name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	registry.MustRegister(v)
	return v
}
