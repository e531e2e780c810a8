// Package audit writes and serves the audit log of the API: a record for each call that
// changes something, and for each refusal.
//
// The gateway writes the record of a call before the call may change anything, and
// completes it with the result after that. So a change without a record is not
// possible, and a record without a result says that the change may have been made.
package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

const (
	// maxBatch bounds the records of one transaction.
	maxBatch = 64
	// maxQueue bounds the records in memory that no call waits for. Their calls have
	// ended, so without a bound a store that is down would fill the memory.
	maxQueue = 10_000
	// writeTimeout bounds a transaction, and stopTimeout those of a process that stops.
	writeTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
	// retryPause is the pause after a transaction that failed.
	retryPause = time.Second
	// maxText bounds each text of a record: clients choose some of them.
	maxText = 500
	// maxDetails bounds what a record says of given rights, in JSON.
	maxDetails = 16 << 10
)

// Recorder writes the records of a gateway. Concurrent records share transactions
// while Run runs; before and after, each record has its own. Recorder is safe for
// concurrent use.
type Recorder struct {
	log      auditlog.Log
	logger   *slog.Logger
	metrics  *metrics
	refusals *refusals

	mu      sync.Mutex
	queue   []entry
	running bool
	wake    chan struct{}
}

// entry is a record to be written. The call that waits for it, if there is one,
// receives the outcome. An entry without a record only waits for those before it.
type entry struct {
	record auditlog.Record
	done   chan error
}

// NewRecorder returns a Recorder with its metrics in a registry.
func NewRecorder(log auditlog.Log, registry *prometheus.Registry, logger *slog.Logger) (*Recorder, error) {
	m, err := newMetrics(registry)
	if err != nil {
		return nil, err
	}
	return &Recorder{log: log, logger: logger, metrics: m, refusals: newRefusals(), wake: make(chan struct{}, 1)}, nil
}

// Run writes the records until ctx ends, and then those that are left.
func (r *Recorder) Run(ctx context.Context) error {
	r.setRunning(true)
	merged := time.NewTicker(refusalWindow)
	defer merged.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			r.stop(context.WithoutCancel(ctx))
			return nil
		case <-merged.C:
			for _, record := range r.refusals.take() {
				r.enqueue(entry{record: record})
			}
		case <-r.wake:
		case <-retry.C:
		}
		if err := r.writeAll(ctx); err != nil {
			r.logger.WarnContext(ctx, "failed to write to the audit log", "retry_in", retryPause, "error", err)
			retry.Reset(retryPause)
		}
	}
}

// stop writes what is left. Calls that begin later write their records themselves.
func (r *Recorder) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, errors.New("the process stops"))
	defer cancel()
	for _, record := range r.refusals.take() {
		r.enqueue(entry{record: record})
	}
	r.setRunning(false)
	err := r.writeAll(ctx)
	for batch := r.next(); len(batch) > 0; batch = r.next() { // writeAll left them
		r.giveUp(ctx, batch, err)
	}
}

func (r *Recorder) setRunning(running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = running
}

// enqueue adds an entry for Run. It returns false if Run does not run.
func (r *Recorder) enqueue(e entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		return false
	}
	r.queue = append(r.queue, e)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// next takes a batch from the queue.
func (r *Recorder) next() []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), maxBatch)
	batch := r.queue[:n:n]
	if r.queue = r.queue[n:]; len(r.queue) == 0 {
		r.queue = nil // frees the array
	}
	return batch
}

// writeAll writes all queued records. It stops at the first transaction that failed
// because the store is unavailable.
func (r *Recorder) writeAll(ctx context.Context) error {
	for batch := r.next(); len(batch) > 0; batch = r.next() {
		err := r.write(ctx, batch)
		if err == nil {
			r.answer(batch, nil)
			continue
		}
		if run.CodeOf(err) == run.CodeUnavailable || errors.Is(err, context.DeadlineExceeded) {
			r.putBack(ctx, batch, err)
			return err
		}
		// The error is that of one record, which must not keep the others from being
		// written.
		for _, e := range batch {
			err := r.write(ctx, []entry{e})
			r.answer([]entry{e}, err)
			if err != nil && e.done == nil {
				r.lose(ctx, e.record, err)
			}
		}
	}
	return nil
}

func (r *Recorder) write(ctx context.Context, batch []entry) error {
	var records []auditlog.Record
	for _, e := range batch {
		if e.record.ID != "" {
			records = append(records, e.record)
		}
	}
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, context.DeadlineExceeded)
	defer cancel()
	err := r.log.AppendAudit(ctx, records)
	r.metrics.wrote(records, err)
	return err
}

func (r *Recorder) answer(batch []entry, err error) {
	for _, e := range batch {
		if e.done != nil {
			e.done <- err
		}
	}
}

// putBack queues the records of a batch again that no call waits for.
func (r *Recorder) putBack(ctx context.Context, batch []entry, err error) {
	var again []entry
	for _, e := range batch {
		if e.done != nil {
			e.done <- err
		} else {
			again = append(again, e)
		}
	}
	r.mu.Lock()
	r.queue = append(again, r.queue...)
	var lost []entry
	if n := len(r.queue) - maxQueue; n > 0 { // the oldest go: their retries have failed for the longest time
		lost, r.queue = r.queue[:n:n], r.queue[n:]
	}
	r.mu.Unlock()
	r.giveUp(ctx, lost, err)
}

// giveUp answers the calls that wait for entries, and logs the records of the others.
func (r *Recorder) giveUp(ctx context.Context, entries []entry, err error) {
	for _, e := range entries {
		if e.done != nil {
			e.done <- err
			continue
		}
		r.lose(ctx, e.record, err)
	}
}

// lose logs a record that cannot be written, so that it is somewhere.
func (r *Recorder) lose(ctx context.Context, record auditlog.Record, err error) {
	r.metrics.lost.Inc()
	r.logger.ErrorContext(ctx, "failed to write an audit record", "audit_id", record.ID, "subject", record.Subject, "action", record.Action,
		"resource", record.Kind+"/"+record.Resource.ID, "status", record.Status, "request_id", record.RequestID, "remote", record.Remote,
		"count", record.Count, "error", err)
}

// begin writes a record before its call, and returns when it is committed.
func (r *Recorder) begin(ctx context.Context, record auditlog.Record) error {
	e := entry{record: clean(record), done: make(chan error, 1)}
	if !r.enqueue(e) {
		return r.write(ctx, []entry{e})
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish writes a record without waiting.
func (r *Recorder) finish(ctx context.Context, record auditlog.Record) {
	record = clean(record)
	if r.enqueue(entry{record: record}) {
		return
	}
	if err := r.write(context.WithoutCancel(ctx), []entry{{record: record}}); err != nil {
		r.lose(ctx, record, err)
	}
}

// refuse writes the record of a refusal, or counts it in that of others.
func (r *Recorder) refuse(ctx context.Context, record auditlog.Record) {
	if r.refusals.merge(clean(record)) {
		r.metrics.merged.Inc()
		return
	}
	r.finish(ctx, record)
}

// flush returns when all records are written that were queued before.
func (r *Recorder) flush(ctx context.Context) error { return r.begin(ctx, auditlog.Record{}) }

// newID returns the id of a record of a time.
func newID(at time.Time) string {
	id, err := ulid.New(ulid.Timestamp(at), rand.Reader)
	if err != nil {
		return "" // only of a time after the year 10889
	}
	return strings.ToLower(id.String())
}

// clean makes the texts of a record storable: clients choose some of them.
func clean(r auditlog.Record) auditlog.Record {
	for _, text := range []*string{
		&r.Subject, &r.Token, &r.Resource.ID, &r.Task, &r.Created, &r.Group, &r.RequestID, &r.Remote,
	} {
		*text = strings.ReplaceAll(strings.ToValidUTF8(truncate.String(*text, maxText, ""), ""), "\x00", "")
	}
	r.Details = string(shorten(json.RawMessage(r.Details), maxDetails))
	return r
}
