package command

import (
	"errors"

	"github.com/drover-run/drover/run"
)

// ExitCode is the exit code of a command.
type ExitCode int

// The exit codes are part of the contract of the command line.
const (
	ExitOK       ExitCode = 0 // done; the run was submitted, or succeeded
	ExitFailed   ExitCode = 1 // the run that was followed failed
	ExitInvalid  ExitCode = 2 // wrong usage, or an invalid specification
	ExitStopped  ExitCode = 3 // the run that was followed was stopped or cancelled
	ExitNoAccess ExitCode = 4 // the gateway cannot be reached, or does not allow it
	ExitOther    ExitCode = 5 // anything else
)

// ExitOfCode maps an error code to an exit code. It is the only such mapping.
// Unknown codes map to ExitOther.
func ExitOfCode(code run.Code) ExitCode {
	switch code {
	case run.CodeInvalid, run.CodeUnreadable, run.CodeTooLarge, run.CodeUnsupportedMedia, run.CodeNotSupported:
		return ExitInvalid
	case run.CodeUnauthenticated, run.CodeTokenExpired, run.CodeTokenRevoked, run.CodeForbidden, run.CodeUnavailable, run.CodeTimeout:
		return ExitNoAccess
	case run.CodeNotFound, run.CodeGone, run.CodeConflict, run.CodeClaimed, run.CodeWrongPhase, run.CodeNotWaitingApproval,
		run.CodeChangeGroupConflict, run.CodeChangeGroupBusy, run.CodeIdempotencyMismatch, run.CodeExhausted, run.CodeCanceled, run.CodeInternal:
		return ExitOther
	}
	return ExitOther
}

// ExitOfRun maps the final phase and result of a followed run to an exit code.
func ExitOfRun(phase run.Phase, result run.Result) ExitCode {
	switch phase {
	case run.PhaseCancelled:
		return ExitStopped
	case run.PhaseSetupError:
		return ExitFailed
	case run.PhaseFinished:
		switch result {
		case run.ResultSuccess:
			return ExitOK
		case run.ResultFailed:
			return ExitFailed
		case run.ResultStopped:
			return ExitStopped
		case run.ResultUnknown:
			return ExitOther
		}
	case run.PhaseQueued, run.PhaseRunning:
	}
	return ExitOther
}

// Exit returns an error that ends a command with an exit code. The command has
// printed everything.
func Exit(code ExitCode) error { return &exitError{code} }

type exitError struct{ code ExitCode }

// Error implements error.
func (e *exitError) Error() string { return "ended" }

// Invalid returns a usage error.
func Invalid(format string, args ...any) error {
	return UsageError(run.Errorf(run.CodeInvalid, format, args...))
}

// UsageError marks err as an incorrect usage of a command: the command exits with
// ExitInvalid and a hint at its help.
func UsageError(err error) error { return &usageError{err} }

type usageError struct{ err error }

// Error implements error.
func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *usageError) Unwrap() error { return e.err }

// exitOf returns the exit code for the error of a command.
func exitOf(err error) ExitCode {
	var ended *exitError
	var usage *usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &ended):
		return ended.code
	case errors.As(err, &usage):
		return ExitInvalid
	}
	return ExitOfCode(run.CodeOf(err))
}
