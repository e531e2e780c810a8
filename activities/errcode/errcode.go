// Package errcode converts errors with a code to errors of Temporal, and back.
package errcode

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/run"
)

// retryable says for every code whether an activity that fails with it is
// retried. A code with false is an answer that a retry would repeat. A code
// with true is a failure of the platform, or one of unknown cause.
//
//nolint:gochecknoglobals // a constant table
var retryable = map[run.Code]bool{
	run.CodeInvalid:             false,
	run.CodeUnreadable:          false,
	run.CodeNotFound:            false,
	run.CodeGone:                false,
	run.CodeConflict:            false,
	run.CodeClaimed:             false,
	run.CodeWrongPhase:          false,
	run.CodeNotWaitingApproval:  false,
	run.CodeChangeGroupConflict: false,
	run.CodeChangeGroupBusy:     false,
	run.CodeIdempotencyMismatch: false,
	run.CodeUnauthenticated:     false,
	run.CodeTokenExpired:        false,
	run.CodeTokenRevoked:        false,
	run.CodeForbidden:           false,
	run.CodeTooLarge:            false,
	run.CodeUnsupportedMedia:    false,
	run.CodeNotSupported:        false,
	run.CodeExhausted:           true,
	run.CodeUnavailable:         true,
	run.CodeTimeout:             true,
	run.CodeCanceled:            true,
	run.CodeInternal:            true,
}

// ToTemporal converts an error for a workflow: its type is the code, and the
// code alone decides whether Temporal retries. nil stays nil.
func ToTemporal(err error) error {
	if err == nil {
		return nil
	}
	code := run.CodeOf(err)
	again, known := retryable[code]
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: known && !again,
		Cause:        err,
	})
}

// FromTemporal returns the run.Error of an error that ToTemporal created, also
// if it is wrapped; any other error becomes one of CodeInternal. nil stays nil.
func FromTemporal(err error) error {
	if err == nil {
		return nil
	}
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		if _, known := retryable[run.Code(application.Type())]; known {
			return &run.Error{Code: run.Code(application.Type()), Message: application.Message(), Err: err}
		}
	}
	return &run.Error{Code: run.CodeInternal, Err: err}
}
