package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// ErrUnreachable is in the chain of an error if no gateway answered.
var ErrUnreachable error = unreachableError{}

type unreachableError struct{}

// Error implements error.
func (unreachableError) Error() string { return "the server cannot be reached" }

// Hint returns what a user can do.
func (unreachableError) Hint() string {
	return "Is drover dev running? Select another gateway with --server or DROVER_SERVER."
}

// ErrUncertain is in the chain of an error if the call may have had its effect:
// the gateway was reached, but the answer is missing.
var ErrUncertain = errors.New("the call may have had its effect")

// unreachable returns the error of a call without an answer.
func (c *caller) unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(cause, errTimeout) && !errors.Is(cause, errSilent) {
			return cause
		}
		err = cause
	}
	// Remove the method and the URL, which the transport adds.
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	var op *net.OpError
	kinds := []error{ErrUnreachable, ErrUncertain}
	if errors.As(err, &op) && op.Op == "dial" {
		err, kinds = op.Err, kinds[:1]
	}
	return &run.Error{
		Code: run.CodeUnavailable, Message: fmt.Sprintf("no answer from %s: %v", c.opts.Server, err),
		Err: errors.Join(append(kinds, err)...),
	}
}

// statusError returns the error of an answer with an error status.
func (c *caller) statusError(resp *http.Response, body []byte) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p api.Problem
	if media == "application/problem+json" && json.Unmarshal(body, &p) == nil && p.Code != "" {
		return problemError(p)
	}
	return &run.Error{
		Code:    codeOfStatus(resp.StatusCode),
		Message: fmt.Sprintf("%s answers %s, but not as a Drover gateway does", c.opts.Server, resp.Status),
	}
}

func problemError(p api.Problem) error {
	e := &run.Error{Code: run.Code(p.Code), Message: p.Detail}
	if e.Message == "" {
		e.Message = p.Title
	}
	if e.Code == run.CodeInternal && p.RequestID != "" { // the cause is in the log of the gateway only
		e.Message += fmt.Sprintf(" (the log of the gateway has the cause, for request_id %s)", p.RequestID)
	}
	for _, f := range p.Errors {
		e.Faults = append(e.Faults, run.Fault{Path: f.Path, Line: f.Line, Code: run.Code(f.Code), Detail: f.Detail})
	}
	return e
}

// codeOfStatus returns the code for an answer of a proxy before the gateway.
func codeOfStatus(status int) run.Code {
	switch status {
	case http.StatusUnauthorized:
		return run.CodeUnauthenticated
	case http.StatusForbidden, http.StatusProxyAuthRequired:
		return run.CodeForbidden
	case http.StatusRequestEntityTooLarge:
		return run.CodeTooLarge
	case http.StatusTooManyRequests:
		return run.CodeExhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return run.CodeUnavailable
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return run.CodeTimeout
	}
	return run.CodeInternal
}

// temporary reports whether an error may be temporary.
func temporary(err error) bool {
	switch run.CodeOf(err) { //nolint:exhaustive // the other errors are permanent
	case run.CodeUnavailable, run.CodeTimeout, run.CodeExhausted:
		return true
	}
	return false
}
