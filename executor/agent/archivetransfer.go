package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

const (
	// maxUncertain is how many times the executor retries after an error that may be
	// permanent: one that the gateway does not explain, or a claim that the gateway
	// does not have.
	maxUncertain = 8
	// maxReopens is how many times in a row a download is reopened without receiving
	// another byte.
	maxReopens = 4
)

// archiveTransfer is the archive transfer of one waiting step.
type archiveTransfer struct {
	task     *task
	archives executor.ArchiveHandle
	request  frames.Request
	log      *slog.Logger
	started  time.Time
	kind     string // type of the step, once known

	uncertain       int
	moved           atomic.Int64 // bytes, over all tries
	movedAtProgress int64        // moved at the last call of progressed
	movedAtMeasure  int64        // moved at the last call of measure
}

// run transfers the archives once and returns the answer for the step. An error
// means that a retry may help.
func (e *archiveTransfer) run(ctx context.Context) (transfer.Answer, error) {
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return transfer.Answer{}, err
	}
	requested, err := transfer.Inquire(ctx, conn, e.request.Frame)
	var lines []string
	if err == nil {
		if slices.Contains(run.ArchiveStepTypes(), requested.Type) {
			e.kind = requested.Type
		}
		switch requested.Type {
		case run.StepSaveWorkspace, run.StepSaveCache, run.StepSaveArtifacts:
			lines, err = e.save(ctx, requested)
		case run.StepRestoreWorkspace, run.StepRestoreCache:
			lines, err = e.restore(ctx, requested)
		default:
			err = &transfer.FaultError{Code: run.CodeNotSupported, Message: fmt.Sprintf("this executor does not support step %q", requested.Type)}
		}
	}
	if err == nil {
		return transfer.Answer{Lines: lines}, nil
	}
	if why, ok := e.permanent(err); ok && ctx.Err() == nil {
		e.log.InfoContext(ctx, "failed to move a step's archive", "error", loggable(err))
		return transfer.Answer{Lines: lines, Fault: why}, nil
	}
	return transfer.Answer{}, err
}

// loggable returns what the log of the process may contain of an error. The text of
// an error from an environment is left out, since a file name in it may be a
// secret. The log of the step has it, masked.
func loggable(err error) any {
	if fault, ok := errors.AsType[*transfer.FaultError](err); ok {
		return fault.Code
	}
	return err
}

// permanent reports whether an error is permanent, and returns its message for the
// user.
func (e *archiveTransfer) permanent(err error) (why string, ok bool) {
	if fault, ok := errors.AsType[*transfer.FaultError](err); ok {
		return fault.Message, fault.Code != run.CodeConflict // CodeConflict: no step waits
	}
	switch run.CodeOf(err) {
	case run.CodeUnavailable, run.CodeTimeout, run.CodeExhausted, run.CodeCanceled, run.CodeUnauthenticated:
		return "", false
	case run.CodeForbidden: // the executor was removed: it ends, or another member of its set continues
		e.task.a.registration.SuspectRemoval(err)
		return "", false
	case run.CodeGone: // the reference or its archive expired; a new transfer finds out which
		return "", false
	case run.CodeInternal, run.CodeNotFound:
		e.uncertain++
		return err.Error(), e.uncertain >= maxUncertain
	default:
		return err.Error(), true
	}
}

// measure records a try in the metrics.
func (e *archiveTransfer) measure(ctx context.Context, a transfer.Answer, err error) {
	outcome := transferMoved
	switch {
	case ctx.Err() != nil || requestEnded(err):
		outcome = transferStopped
	case err != nil:
		outcome = transferBrokenOff
	case a.Fault != "":
		outcome = transferFailed
	}
	moved := e.moved.Load()
	e.task.a.metrics.transferred(e.kind, outcome, moved-e.movedAtMeasure, time.Since(e.started))
	e.movedAtMeasure = moved
}

// progressed reports whether bytes were moved since its last call.
func (e *archiveTransfer) progressed() bool {
	before := e.movedAtProgress
	e.movedAtProgress = e.moved.Load()
	return e.movedAtProgress > before
}

// save packs the step's files in the environment and stores them.
func (e *archiveTransfer) save(ctx context.Context, requested transfer.StepRequest) ([]string, error) {
	t, order := e.task, run.ArchiveSave{Key: e.task.key, Executor: e.task.a.identity.ID, Step: e.request.Step}
	what := archiveNoun(requested.Type)
	if len(requested.Keys) > 0 {
		order.CacheKey = requested.Keys[0]
		what += " " + requested.Keys[0]
	}
	upload, err := e.begin(ctx, order)
	if err != nil {
		return nil, err
	}
	if upload.Saved != nil {
		return []string{"the " + what + " is there already (" + size(upload.Saved.Size) + ")"}, nil
	}
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return nil, err
	}
	packing, err := transfer.Pack(ctx, conn, requested, limits(upload.Limits))
	if err != nil {
		return nil, err
	}
	defer func() { _ = packing.Close() }()
	ctx, stall := newStallTimer(ctx, t.a.opts.timing.stall)
	defer stall.stop()
	source := &source{from: packing, transfer: e, stall: stall}
	info, err := t.a.api.SaveArchive(ctx, upload, source)
	switch {
	case err != nil && source.failed() != nil: // takes precedence over the error of the executor API
		return nil, source.failed()
	case err != nil:
		return nil, stall.explain(err)
	}
	stats := packing.Stats()
	lines := []string{"saved " + what + ": " + contents(stats) + ", " + size(info.Size) + " packed"}
	if stats.Skipped > 0 {
		lines = append(lines, fmt.Sprintf("skipped %d entries that are not files or were removed meanwhile", stats.Skipped))
	}
	return lines, nil
}

func (e *archiveTransfer) begin(ctx context.Context, order run.ArchiveSave) (run.ArchiveUpload, error) {
	ctx, cancel := context.WithTimeout(ctx, e.task.a.opts.timing.prepare)
	defer cancel()
	upload, err := e.task.a.api.BeginArchive(ctx, order)
	return upload, markPermanent(err)
}

// restore unpacks the archives that the executor API finds, one after the other.
func (e *archiveTransfer) restore(ctx context.Context, requested transfer.StepRequest) (lines []string, err error) {
	what := archiveNoun(requested.Type)
	found, err := e.find(ctx, run.ArchiveQuery{Key: e.task.key, Executor: e.task.a.identity.ID, Step: e.request.Step, Keys: requested.Keys})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		if len(requested.Keys) > 0 {
			return []string{"found no " + what + " for " + strings.Join(requested.Keys, ", ")}, nil
		}
		return []string{"found no " + what + ": no task before this one has saved any"}, nil
	}
	for _, ref := range found {
		stats, err := e.unpack(ctx, requested, ref)
		if err != nil {
			return lines, err
		}
		from := " " + ref.Name
		if ref.Kind == run.ArchiveWorkspace {
			from = " of " + ref.Name
		}
		lines = append(lines, "restored "+what+from+": "+contents(stats))
	}
	return lines, nil
}

func (e *archiveTransfer) find(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	ctx, cancel := context.WithTimeout(ctx, e.task.a.opts.timing.prepare)
	defer cancel()
	found, err := e.task.a.api.FindArchives(ctx, q)
	return found, markPermanent(err)
}

// markPermanent makes CodeGone permanent: at the beginning of a transfer a retry can not
// help.
func markPermanent(err error) error {
	if run.CodeOf(err) == run.CodeGone {
		return run.Errorf(run.CodeInvalid, "%w", err)
	}
	return err
}

func (e *archiveTransfer) unpack(ctx context.Context, requested transfer.StepRequest, ref run.ArchiveRef) (archive.Stats, error) {
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return archive.Stats{}, err
	}
	ctx, stall := newStallTimer(ctx, e.task.a.opts.timing.stall)
	defer stall.stop()
	content := &download{ctx: ctx, transfer: e, ref: ref, stall: stall, sum: sha256.New()}
	defer content.close()
	stats, err := transfer.Unpack(ctx, conn, requested, limits(ref.Limits), content)
	return stats, stall.explain(err)
}

// answer sends the answer to the step.
func (e *archiveTransfer) answer(ctx context.Context, a transfer.Answer) error {
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.task.a.opts.timing.call)
	defer cancel()
	err = transfer.Send(ctx, conn, e.request.Frame, a)
	if run.CodeOf(err) == run.CodeConflict {
		return errRequestEnded
	}
	return err
}

// count adds to the moved bytes.
func (e *archiveTransfer) count(n int) {
	if e.moved.Add(int64(n)) == int64(n) && n > 0 {
		e.task.a.hitFailpoint(pointMoving, e.task.key)
	}
}

// source is the content of an upload. Its stall timeout runs while the executor API
// reads it.
type source struct {
	from     io.Reader
	transfer *archiveTransfer
	stall    *stallTimer

	mu    sync.Mutex // the HTTP client may continue to read for a moment
	fault error
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	s.stall.pause()
	n, err := s.from.Read(b)
	s.stall.resume()
	s.transfer.count(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fault = err
	}
	return n, err
}

// failed returns the read error of the archive, nil for none.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// download reads an archive and reopens it at the current offset after a broken
// connection.
type download struct {
	ctx      context.Context //nolint:containedctx // of one transfer
	transfer *archiveTransfer
	ref      run.ArchiveRef
	stall    *stallTimer

	open   io.ReadCloser
	offset int64
	broken int
	sum    hash.Hash // of the whole archive, over all connections
}

// Read implements io.Reader.
func (d *download) Read(b []byte) (int, error) {
	d.stall.resume()
	defer d.stall.pause()
	timing := d.transfer.task.a.opts.timing
	retry := pauses(timing.retryFirst, timing.retryLimit)
	for {
		n, err := d.read(b)
		switch {
		case n > 0:
			d.offset += int64(n)
			d.broken = 0
			d.sum.Write(b[:n])
			d.transfer.count(n)
			if err != nil && !errors.Is(err, io.EOF) {
				d.close() // the next call reports it
				err = nil
			}
			return n, d.verifyDigest(err)
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return 0, d.verifyDigest(err)
		case run.CodeOf(err) != run.CodeUnavailable || d.ctx.Err() != nil || d.broken >= maxReopens:
			return 0, err
		}
		d.broken++
		d.close()
		if !retry.wait(d.ctx, nil) {
			return 0, err
		}
	}
}

// verifyDigest returns end, or an error if the digest of the archive is wrong.
func (d *download) verifyDigest(end error) error {
	if end == nil || d.ref.Digest == "" {
		return end
	}
	got := "sha256:" + hex.EncodeToString(d.sum.Sum(nil))
	if got == d.ref.Digest {
		return end
	}
	return run.Errorf(run.CodeInvalid, "the archive is not what was saved: its digest is %s, not %s", got, d.ref.Digest)
}

func (d *download) read(b []byte) (int, error) {
	if d.open == nil {
		ref := d.ref
		ref.Digest = "" // compared here, over all connections
		r, err := d.transfer.task.a.api.OpenArchive(d.ctx, run.ArchiveRead{Ref: ref, Executor: d.transfer.task.a.identity.ID, Offset: d.offset})
		if err != nil {
			return 0, err
		}
		d.open = r
	}
	return d.open.Read(b)
}

func (d *download) close() {
	if d.open != nil {
		_ = d.open.Close()
		d.open = nil
	}
}

// stallTimer cancels a context when the executor API makes no progress for too long.
type stallTimer struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	ctx    context.Context // its cause is read by explain
}

var errStalled = run.Errorf(run.CodeUnavailable, "the transfer of an archive to or from the gateway made no progress")

// newStallTimer returns a running timeout.
func newStallTimer(ctx context.Context, limit time.Duration) (context.Context, *stallTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &stallTimer{limit: limit, cancel: cancel, ctx: ctx}
	p.timer = time.AfterFunc(limit, func() { cancel(errStalled) })
	return ctx, p
}

func (p *stallTimer) resume() { p.timer.Reset(p.limit) }
func (p *stallTimer) pause()  { p.timer.Stop() }

func (p *stallTimer) stop() {
	p.timer.Stop()
	p.cancel(nil)
}

// explain returns errStalled if the timeout caused err.
func (p *stallTimer) explain(err error) error {
	if err != nil && errors.Is(context.Cause(p.ctx), errStalled) {
		return errStalled
	}
	return err
}

func limits(l run.ArchiveLimits) transfer.Limits {
	return transfer.Limits{Entries: l.Entries, Bytes: l.Bytes}
}

// archiveNoun returns the noun for the archive of a step type.
func archiveNoun(kind string) string {
	switch kind {
	case run.StepSaveCache, run.StepRestoreCache:
		return "cache"
	case run.StepSaveArtifacts:
		return "artifacts"
	}
	return "workspace"
}

func contents(s archive.Stats) string {
	noun := "files"
	if s.Entries == 1 {
		noun = "file"
	}
	return fmt.Sprintf("%d %s, %s", s.Entries, noun, size(s.Bytes))
}

// size formats a number of bytes.
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && value >= 1<<10 {
		value, units = value/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
