package fleeting

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/drover-run/drover/internal/jsonfault"
)

// Errors of calls, besides the plugin's own errors (CallError). After a failed
// call that changes the group, only Update shows the result: the protocol drops
// counts and lists when a call returns an error.
var (
	// ErrUnavailable means that the plugin's process has exited or cannot be
	// started.
	ErrUnavailable = errors.New("the plugin is not available")
	// ErrTimeout means that the plugin did not answer by the call's deadline.
	ErrTimeout = errors.New("the plugin did not answer in time")
	// ErrUnhealthy means that the plugin found an instance unhealthy.
	ErrUnhealthy = errors.New("the instance is not healthy")
	// ErrNotSupported means that the plugin lacks the capability.
	ErrNotSupported = errors.New("the plugin does not support it")
	// ErrClosed means that the host was closed.
	ErrClosed = errors.New("the host is closed")
	// ErrOwned means that another process drives the group.
	ErrOwned = errors.New("another process drives this group")
)

// CallError is an error that the plugin itself returned.
type CallError struct {
	Call    string // such as Increase
	Code    codes.Code
	Message string
}

// Error implements error.
func (e *CallError) Error() string {
	if text := e.mismatch(); text != "" {
		return "the plugin refuses its configuration: " + text
	}
	if e.Code == codes.Unknown { // the code of every plain Go error
		return fmt.Sprintf("%s: plugin error: %s", e.Call, e.Message)
	}
	return fmt.Sprintf("%s: plugin error: %s (%s)", e.Call, e.Message, e.Code)
}

// RefusesConfig reports whether the plugin has refused its configuration for a value of
// another type.
func (e *CallError) RefusesConfig() bool { return e.mismatch() != "" }

// mismatch names the key for which the plugin refused its configuration: most plugins
// return what encoding/json said.
func (e *CallError) mismatch() string {
	if e.Call != "Init" {
		return ""
	}
	key, detail, ok := jsonfault.MismatchIn(e.Message)
	if !ok {
		return ""
	}
	return cmp.Or(key, "all of it") + ": " + detail
}

// PauseError is the error of a plugin that does not start. It is not launched
// before At.
type PauseError struct {
	At  time.Time
	Err error // of the last launch
}

// Error implements error.
func (e *PauseError) Error() string {
	return fmt.Sprintf("%s; the next try is at %s UTC", e.Err, e.At.UTC().Format(time.TimeOnly))
}

// Unwrap returns the error of the last launch.
func (e *PauseError) Unwrap() error { return e.Err }
