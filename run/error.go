package run

import (
	"errors"
	"fmt"
)

// Code is a kind of error. It is part of every contract of Drover: the gateway
// maps it to an HTTP status, activities to a Temporal error type, the command
// line to an exit code.
type Code string

// The codes. An error without a code counts as CodeInternal.
const (
	CodeInvalid             Code = "invalid"                // the input is wrong; a retry is useless
	CodeUnreadable          Code = "unreadable"             // the input could not even be parsed
	CodeNotFound            Code = "not_found"              // the resource does not exist
	CodeGone                Code = "gone"                   // the resource was removed
	CodeConflict            Code = "conflict"               // the resource exists already, or has changed meanwhile
	CodeClaimed             Code = "claimed"                // another executor holds the claim: the steps may run there
	CodeWrongPhase          Code = "wrong_phase"            // the run's phase does not allow the call
	CodeNotWaitingApproval  Code = "not_waiting_approval"   // the task does not wait for an approval, or the caller has approved it already
	CodeChangeGroupConflict Code = "changegroup_conflict"   // an update token is stale
	CodeChangeGroupBusy     Code = "changegroup_busy"       // on_busy: reject
	CodeIdempotencyMismatch Code = "idempotency_mismatch"   // the idempotency key was used with another request
	CodeUnauthenticated     Code = "unauthenticated"        // no credentials, or bad ones
	CodeTokenExpired        Code = "token_expired"          // the token was valid until its expiry
	CodeTokenRevoked        Code = "token_revoked"          // an operator revoked the token
	CodeForbidden           Code = "forbidden"              // the credentials do not allow the call
	CodeTooLarge            Code = "too_large"              // over a documented limit
	CodeUnsupportedMedia    Code = "unsupported_media_type" // neither JSON nor YAML
	CodeNotSupported        Code = "not_supported"          // understood, but not implemented or not allowed here
	CodeExhausted           Code = "exhausted"              // a quota or rate limit is reached; a later call may succeed
	CodeUnavailable         Code = "unavailable"            // a component cannot be reached; a retry may succeed
	CodeTimeout             Code = "timeout"                // a deadline passed
	CodeCanceled            Code = "canceled"               // the caller canceled the call
	CodeInternal            Code = "internal"               // an error of Drover itself
)

// Fault is one fault of an input: its location and a description.
type Fault struct {
	// Path is the location, as in "tasks.build.depends[1].task".
	Path string `json:"path"`
	// Line is the line of the input, counted from 1; 0 if it is not known.
	Line int `json:"line,omitempty"`
	// Code is a lower-case word such as "unknown_field".
	Code Code `json:"code"`
	// Detail is a sentence for users; it never holds a secret.
	Detail string `json:"detail"`
}

// Error is an error with a code. Message may be shown to users; Err, the cause,
// may not.
type Error struct {
	Code    Code
	Message string
	Faults  []Fault // the faults of an input; empty otherwise
	Floor   int64   // of CodeGone: the number of the last event that was removed
	Err     error
}

// Errorf makes an Error. An error given for a %w verb becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// InvalidError returns an Error of CodeInvalid that carries the faults.
func InvalidError(message string, faults []Fault) *Error {
	return &Error{Code: CodeInvalid, Message: message, Faults: faults}
}

// GoneError returns an Error of CodeGone: events up to the floor were removed.
func GoneError(floor int64) *Error {
	return &Error{
		Code: CodeGone, Floor: floor,
		Message: fmt.Sprintf("events up to number %d were removed; read from the next number, or without a start for all that are left", floor),
	}
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Err != nil:
		return e.Err.Error()
	}
	return string(e.Code)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error without a message of the same code,
// so that errors.Is(err, &run.Error{Code: c}) works.
func (e *Error) Is(target error) bool {
	var t *Error
	if !errors.As(target, &t) {
		return false
	}
	return t.Message == "" && t.Code == e.Code
}

// CodeOf returns the code of the first Error in err's chain, CodeInternal for
// any other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e.Code != "" {
		return e.Code
	}
	return CodeInternal
}
