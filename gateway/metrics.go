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
