package engine

import (
	"strconv"

	"github.com/drover-run/drover/run"
)

func (m *Metrics) archiveSaved(kind run.ArchiveKind, size int64, err error) {
	outcome := "saved"
	switch run.CodeOf(err) {
	case "":
		m.written.WithLabelValues(string(kind)).Add(float64(size))
	case run.CodeTooLarge, run.CodeInvalid, run.CodeConflict, run.CodeNotFound, run.CodeGone:
		outcome = "refused"
	default:
		outcome = "broken_off"
	}
	m.saved.WithLabelValues(string(kind), outcome).Inc()
}

func (m *Metrics) archiveRead(n int) { m.read.Add(float64(n)) }

func (m *Metrics) cacheLookup(found bool, err error) {
	if err == nil {
		m.caches.WithLabelValues(strconv.FormatBool(found)).Inc()
	}
}
