// Package archives moves the archives of a step that waits for its executor, between the
// environment and the gateway.
package archives

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// maxUncertain is how many times the executor retries after an error that may be
// permanent: one that the gateway does not explain, or a claim that the gateway does
// not have.
const maxUncertain = 8

// Stage is a moment of a transfer.
type Stage int

// The stages of a transfer, in order.
const (
	StageMoving       Stage = iota // the first bytes were moved
	StageMoved                     // everything was moved and stored
	StageAcknowledged              // the shim has the answer
)

// Outcome is the outcome of one try.
type Outcome string

// The outcomes of a try.
const (
	Moved       Outcome = "moved"
	Failed      Outcome = "failed"      // permanent: the step fails
	Interrupted Outcome = "interrupted" // it is retried
	Stopped     Outcome = "stopped"     // the step no longer waits
)

// Try is what one try did.
type Try struct {
	Step    string // the type of the step, "" while it is unknown
	Outcome Outcome
	Bytes   int64         // moved in this try
	Took    time.Duration // since the first try
}

// Config configures the transfers of a task. All fields are required.
type Config struct {
	Key      run.Key
	Executor string
	API      run.ArchiveAPI
	Timing   Timing
	// SuspectRemoval is called if a call failed as if the executor had been removed.
	SuspectRemoval func(err error)
	Measure        func(Try)   // called after each try
	Reached        func(Stage) // called at each stage
}

// Timing holds the pauses and timeouts of transfers.
type Timing struct {
	RetryFirst time.Duration // first pause before a retry
	RetryLimit time.Duration // longest such pause
	Prepare    time.Duration // timeout of finding an archive, or of preparing an upload
	Stall      time.Duration // how long the gateway may take for one part of an archive
	Answer     time.Duration // timeout of answering the step
}

// Transfer is the archive transfer of one waiting step. One goroutine uses it.
type Transfer struct {
	config   Config
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

// New returns the transfer for a request of a step in an environment.
func New(config Config, archives executor.ArchiveHandle, request frames.Request, log *slog.Logger) *Transfer {
	return &Transfer{config: config, archives: archives, request: request, log: log, started: time.Now()}
}

// Serve performs the request and sends the answer, retrying as often as necessary, until
// ctx ends or the step no longer waits.
func (e *Transfer) Serve(ctx context.Context) {
	pauses := e.config.pauses()
	for {
		answer, err := e.run(ctx)
		e.measure(ctx, answer, err)
		if err == nil {
			e.config.Reached(StageMoved)
			err = e.answer(ctx, answer)
		}
		switch {
		case err == nil:
			e.config.Reached(StageAcknowledged)
			return
		case ctx.Err() != nil:
			return
		case requestEnded(err):
			return // the frames report how the step ended
		}
		e.log.WarnContext(ctx, "failed to move an archive, retrying", "error", loggable(err))
		if e.progressed() {
			pauses = e.config.pauses()
		}
		if retry.Sleep(ctx, pauses.NextBackOff()) != nil {
			return
		}
	}
}

// pauses returns the pauses before retries.
func (c Config) pauses() *backoff.ExponentialBackOff {
	return retry.Doubling(c.Timing.RetryFirst, c.Timing.RetryLimit)
}

// ErrRequestEnded is the cause with which the caller ends the context of Serve if the
// step no longer waits.
var ErrRequestEnded = errors.New("the step no longer waits")

// requestEnded reports whether the shim answered that the step no longer waits.
func requestEnded(err error) bool {
	fault, ok := errors.AsType[*transfer.FaultError](err)
	return ok && fault.Code == run.CodeConflict || errors.Is(err, ErrRequestEnded)
}

// run transfers the archives once and returns the answer for the step. An error
// means that a retry may help.
func (e *Transfer) run(ctx context.Context) (transfer.Answer, error) {
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
func (e *Transfer) permanent(err error) (why string, ok bool) {
	if fault, ok := errors.AsType[*transfer.FaultError](err); ok {
		return fault.Message, fault.Code != run.CodeConflict // CodeConflict: no step waits
	}
	switch run.CodeOf(err) {
	case run.CodeUnavailable, run.CodeTimeout, run.CodeExhausted, run.CodeCanceled, run.CodeUnauthenticated:
		return "", false
	case run.CodeForbidden: // the executor was removed: it ends, or another member of its set continues
		e.config.SuspectRemoval(err)
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
func (e *Transfer) measure(ctx context.Context, a transfer.Answer, err error) {
	outcome := Moved
	switch {
	case ctx.Err() != nil || requestEnded(err):
		outcome = Stopped
	case err != nil:
		outcome = Interrupted
	case a.Fault != "":
		outcome = Failed
	}
	moved := e.moved.Load()
	e.config.Measure(Try{Step: e.kind, Outcome: outcome, Bytes: moved - e.movedAtMeasure, Took: time.Since(e.started)})
	e.movedAtMeasure = moved
}

// progressed reports whether bytes were moved since its last call.
func (e *Transfer) progressed() bool {
	before := e.movedAtProgress
	e.movedAtProgress = e.moved.Load()
	return e.movedAtProgress > before
}

// answer sends the answer to the step.
func (e *Transfer) answer(ctx context.Context, a transfer.Answer) error {
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.config.Timing.Answer)
	defer cancel()
	err = transfer.Send(ctx, conn, e.request.Frame, a)
	if run.CodeOf(err) == run.CodeConflict {
		return ErrRequestEnded
	}
	return err
}

// count adds to the moved bytes.
func (e *Transfer) count(n int) {
	if e.moved.Add(int64(n)) == int64(n) && n > 0 {
		e.config.Reached(StageMoving)
	}
}
