package audit

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/run/auditlog"
)

type metrics struct {
	records  *prometheus.CounterVec
	merged   prometheus.Counter
	failures prometheus.Counter
	lost     prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_audit_records_total", Help: "Completed records of the audit log by result.",
		}, []string{"result"}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_audit_refusals_merged_total", Help: "Refused requests that were counted in the record of others.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_audit_failures_total", Help: "Transactions of the audit log that failed.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_audit_lost_total", Help: "Results and refusals that could not be written to the audit log.",
		}),
	}
	for _, r := range auditlog.Results() {
		m.records.WithLabelValues(string(r))
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.records, m.merged, m.failures, m.lost} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of the audit log: %w", err)
	}
	return m, nil
}

// wrote counts the records of a transaction that have a result.
func (m *metrics) wrote(records []auditlog.Record, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	for _, r := range records {
		if r.Status != 0 {
			m.records.WithLabelValues(string(r.Result)).Inc()
		}
	}
}
