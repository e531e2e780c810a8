package engine

import (
	"io"
	"strconv"
	"time"

	"github.com/drover-run/drover/run"
)

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
