package fleeting

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
)

// What a call may fail with, besides the plugin's own errors (CallError). After
// a call that changes the group only Update tells what came of it, whatever
// the error: counts and lists are lost with errors on the wire.
var (
	// ErrUnavailable says that the plugin's process is gone or cannot be started.
	ErrUnavailable = errors.New("the plugin is not available")
	// ErrTimeout says that the plugin gave no answer by the call's deadline.
	ErrTimeout = errors.New("the plugin gave no answer in time")
	// ErrUnhealthy says that the plugin found an instance unhealthy.
	ErrUnhealthy = errors.New("the instance is not healthy")
	// ErrNotSupported says that the plugin lacks the capability.
	ErrNotSupported = errors.New("the plugin does not support it")
	// ErrClosed says that the host was closed.
	ErrClosed = errors.New("the host is closed")
	// ErrOwned says that another process drives the group.
	ErrOwned = errors.New("another process drives this group")
)

// CallError is an error that the plugin itself answered with.
type CallError struct {
	Call    string // such as Increase
	Code    codes.Code
	Message string
}

// Error implements error.
func (e *CallError) Error() string {
	if e.Code == codes.Unknown { // what a plugin in Go says by returning an error
		return fmt.Sprintf("%s: the plugin says: %s", e.Call, e.Message)
	}
	return fmt.Sprintf("%s: the plugin says: %s (%s)", e.Call, e.Message, e.Code)
}
