package archives

import (
	"io"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run"
)

// Metrics are the metrics of a Service. Register them once.
type Metrics struct {
	saved    *prometheus.CounterVec
	written  *prometheus.CounterVec
	saveTime *prometheus.HistogramVec
	reads    *prometheus.CounterVec
	read     *prometheus.CounterVec
	readTime *prometheus.HistogramVec
	located  *prometheus.CounterVec
	caches   *prometheus.CounterVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	transfers := prometheus.ExponentialBuckets(0.01, 4, 9) // to 11 minutes
	return &Metrics{
		saved:    counter("drover_archives_saved_total", "Attempts to save archives, by outcome: saved, refused or broken off.", "kind", "outcome"),
		written:  counter("drover_archive_written_bytes_total", "Bytes of archives that were saved.", "kind"),
		saveTime: histogram("drover_archive_save_duration_seconds", "Time to receive archives that were saved, by kind.", transfers, "kind"),
		reads:    counter("drover_archives_read_total", "Reads of archives through this process, by outcome: read, or broken off.", "kind", "outcome"),
		read:     counter("drover_archive_read_bytes_total", "Bytes of archives that were read through this process.", "kind"),
		readTime: histogram("drover_archive_read_duration_seconds", "Time in which archives were read to their end, by kind.", transfers, "kind"),
		located:  counter("drover_archive_redirects_total", "Reads of archives that were redirected to the object store.", "kind"),
		caches:   counter("drover_cache_lookups_total", "Lookups of caches by steps, by whether a cache was found.", "found"),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.saved, m.written, m.saveTime, m.reads, m.read, m.readTime, m.located, m.caches}
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

func (m *Metrics) archiveSaved(kind run.ArchiveKind, size int64, took time.Duration, err error) {
	outcome := "saved"
	switch run.CodeOf(err) {
	case "":
		m.written.WithLabelValues(string(kind)).Add(float64(size))
		m.saveTime.WithLabelValues(string(kind)).Observe(took.Seconds())
	case run.CodeTooLarge, run.CodeInvalid, run.CodeConflict, run.CodeNotFound, run.CodeGone:
		outcome = "refused"
	default:
		outcome = "interrupted"
	}
	m.saved.WithLabelValues(string(kind), outcome).Inc()
}

func (m *Metrics) archiveLocated(kind run.ArchiveKind) { m.located.WithLabelValues(string(kind)).Inc() }

func (m *Metrics) cacheLookup(found bool, err error) {
	if err == nil {
		m.caches.WithLabelValues(strconv.FormatBool(found)).Inc()
	}
}

// countingReader is an archive that is being read. It counts the bytes for the
// metrics.
type countingReader struct {
	io.ReadCloser
	metrics *Metrics
	kind    run.ArchiveKind
	begun   time.Time
	left    int64 // bytes left to read
}

// countingReader returns a reader that counts the bytes read from content, which has
// left bytes.
func (m *Metrics) countingReader(content io.ReadCloser, kind run.ArchiveKind, left int64) *countingReader {
	return &countingReader{ReadCloser: content, metrics: m, kind: kind, begun: time.Now(), left: left}
}

// Read implements io.Reader.
func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.left -= int64(n)
	r.metrics.read.WithLabelValues(string(r.kind)).Add(float64(n))
	return n, err
}

// Close implements io.Closer.
func (r *countingReader) Close() error {
	outcome := "interrupted"
	if r.left <= 0 {
		outcome = "read"
		r.metrics.readTime.WithLabelValues(string(r.kind)).Observe(time.Since(r.begun).Seconds())
	}
	r.metrics.reads.WithLabelValues(string(r.kind), outcome).Inc()
	return r.ReadCloser.Close()
}
