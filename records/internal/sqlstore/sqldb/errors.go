package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/drover-run/drover/run"
)

// Wrap gives an error a code, unless it has one, and names the operation. It
// returns nil for nil.
func (db *DB) Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*run.Error](err); ok {
		return err
	}
	cause := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return WithCause(run.CodeTimeout, "the records store did not answer in time", cause)
	case errors.Is(err, context.Canceled):
		return &run.Error{Code: run.CodeCanceled, Message: "the call was canceled", Err: cause}
	case errors.Is(err, sql.ErrConnDone):
		return WithCause(run.CodeUnavailable, "the records store is closed", cause)
	}
	switch code := db.Dialect.Code(err); code { //nolint:exhaustive // drivers distinguish few errors
	case run.CodeUnavailable:
		return WithCause(code, "the records store is out of reach", cause)
	case run.CodeConflict:
		return &run.Error{Code: code, Message: "it exists already", Err: cause}
	case run.CodeInvalid:
		return &run.Error{Code: code, Message: "a text holds characters that cannot be stored", Err: cause}
	case run.CodeTimeout:
		return WithCause(code, "the records store did not answer in time", cause)
	case run.CodeCanceled:
		return &run.Error{Code: code, Message: "the call was canceled", Err: cause}
	}
	return &run.Error{Code: run.CodeInternal, Err: cause}
}

// storeError is an error of the database itself. Its text, which logs and operators
// see, has the cause; clients of the API see only the message of the run.Error.
type storeError struct{ coded *run.Error }

// WithCause returns an error with a code whose text is the message and the cause.
// The message of the run.Error in its chain does not have the cause.
func WithCause(code run.Code, message string, cause error) error {
	return &storeError{&run.Error{Code: code, Message: message, Err: cause}}
}

func (e *storeError) Error() string { return e.coded.Message + ": " + e.coded.Err.Error() }

func (e *storeError) Unwrap() error { return e.coded }
