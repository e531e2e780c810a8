package run

import (
	"errors"
	"fmt"
)

// Code names a kind of fault. It is part of every contract of Drover: the
// gateway maps it to a HTTP status, activities to a Temporal error type, the
// command line to an exit code.
type Code string

// The codes. An error that carries none counts as CodeInternal.
const (
	CodeInvalid             Code = "invalid"                // the input is wrong; trying again is useless
	CodeUnreadable          Code = "unreadable"             // the input could not even be parsed
	CodeNotFound            Code = "not_found"              // no such thing
	CodeGone                Code = "gone"                   // there was such a thing, and it was removed
	CodeConflict            Code = "conflict"               // it exists already, or has changed meanwhile
	CodeClaimed             Code = "claimed"                // another executor holds the claim: its steps may run there
	CodeWrongPhase          Code = "wrong_phase"            // the run's phase does not allow the call
	CodeNotWaitingApproval  Code = "not_waiting_approval"   // the task does not wait for an approval, or the caller has given it
	CodeChangeGroupConflict Code = "changegroup_conflict"   // an update token is stale
	CodeChangeGroupBusy     Code = "changegroup_busy"       // on_busy: reject
	CodeIdempotencyMismatch Code = "idempotency_mismatch"   // an idempotency key came with another request before
	CodeUnauthenticated     Code = "unauthenticated"        // no credentials, or bad ones
	CodeForbidden           Code = "forbidden"              // the credentials do not allow the call
	CodeTooLarge            Code = "too_large"              // over a stated limit
	CodeUnsupportedMedia    Code = "unsupported_media_type" // neither JSON nor YAML
	CodeNotSupported        Code = "not_supported"          // understood, but not built or not allowed here
	CodeExhausted           Code = "exhausted"              // a quota or rate is used up; later it may work
	CodeUnavailable         Code = "unavailable"            // a part is out of reach; trying again may work
	CodeTimeout             Code = "timeout"                // a deadline passed
	CodeCanceled            Code = "canceled"               // the caller gave up
	CodeInternal            Code = "internal"               // a fault of Drover itself
)

// Fault is one fault of an input: where it is and what is wrong with it.
type Fault struct {
	// Path names the place, as in "tasks.build.depends[1].task".
	Path string `json:"path"`
	// Line is the line of the input, counted from 1; 0 where it is not known.
	Line int `json:"line,omitempty"`
	// Code is a lower-case word such as "unknown_field".
	Code Code `json:"code"`
	// Detail is a sentence for people; it never holds a secret.
	Detail string `json:"detail"`
}

// Error is a fault with a code. Its Message may be shown to users; Err, the
// cause, may not.
type Error struct {
	Code    Code
	Message string
	Faults  []Fault // of an input; empty otherwise
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
		Message: fmt.Sprintf("events up to number %d were removed; go on after that, or without a place for all that are left", floor),
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
