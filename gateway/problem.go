package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/run"
)

// codeMethodNotAllowed exists in HTTP only, so package run does not define it.
const codeMethodNotAllowed run.Code = "method_not_allowed"

// statusClientGone is the status in the log and the metrics for a client that
// disconnected before the response. No client receives it.
const statusClientGone = 499

// retryAfter is the value of Retry-After in seconds: about as long as a restart
// of the gateway takes.
const retryAfter = "2"

// problemKind is the HTTP representation of a code.
type problemKind struct {
	status int
	title  string
}

// kindOf maps a code to its HTTP status and title. It is the only mapping of
// codes to statuses.
func kindOf(code run.Code) problemKind {
	switch code {
	case run.CodeUnreadable:
		return problemKind{http.StatusBadRequest, "Bad request"}
	case run.CodeInvalid:
		return problemKind{http.StatusUnprocessableEntity, "Invalid request"}
	case run.CodeNotFound:
		return problemKind{http.StatusNotFound, "Not found"}
	case run.CodeGone:
		return problemKind{http.StatusGone, "Gone"}
	case run.CodeConflict:
		return problemKind{http.StatusConflict, "Conflict"}
	case run.CodeClaimed:
		return problemKind{http.StatusConflict, "Claimed by another executor"}
	case run.CodeWrongPhase:
		return problemKind{http.StatusConflict, "Wrong run phase"}
	case run.CodeNotWaitingApproval:
		return problemKind{http.StatusConflict, "Task not waiting for approval"}
	case run.CodeChangeGroupConflict:
		return problemKind{http.StatusConflict, "Change group conflict"}
	case run.CodeChangeGroupBusy:
		return problemKind{http.StatusConflict, "Change group busy"}
	case run.CodeIdempotencyMismatch:
		return problemKind{http.StatusUnprocessableEntity, "Idempotency key mismatch"}
	case run.CodeUnauthenticated:
		return problemKind{http.StatusUnauthorized, "Unauthenticated"}
	case run.CodeTokenExpired:
		return problemKind{http.StatusUnauthorized, "Token expired"}
	case run.CodeTokenRevoked:
		return problemKind{http.StatusUnauthorized, "Token revoked"}
	case run.CodeForbidden:
		return problemKind{http.StatusForbidden, "Forbidden"}
	case codeMethodNotAllowed:
		return problemKind{http.StatusMethodNotAllowed, "Method not allowed"}
	case run.CodeTooLarge:
		return problemKind{http.StatusRequestEntityTooLarge, "Request too large"}
	case run.CodeUnsupportedMedia:
		return problemKind{http.StatusUnsupportedMediaType, "Unsupported media type"}
	case run.CodeNotSupported:
		return problemKind{http.StatusUnprocessableEntity, "Not supported"}
	case run.CodeExhausted:
		return problemKind{http.StatusTooManyRequests, "Limit exceeded"}
	case run.CodeUnavailable:
		return problemKind{http.StatusServiceUnavailable, "Unavailable"}
	case run.CodeTimeout:
		return problemKind{http.StatusGatewayTimeout, "Timeout"}
	case run.CodeCanceled:
		return problemKind{statusClientGone, "Client closed request"}
	case run.CodeInternal:
		return problemKind{http.StatusInternalServerError, "Internal error"}
	}
	return kindOf(run.CodeInternal)
}

// problemOf returns the problem document for an error. The text of an error
// without a code never leaves the process.
func problemOf(err error, method string) api.Problem {
	e := classify(err)
	kind := kindOf(e.Code)
	if e.Code == run.CodeInvalid && (method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete) {
		kind.status = http.StatusBadRequest // these requests have no content that could be unprocessable
	}
	p := api.Problem{
		Type: "urn:drover:problem:" + string(e.Code), Title: kind.title, Status: kind.status, Code: string(e.Code),
	}
	if e.Code != run.CodeInternal {
		p.Detail, p.Floor = e.Message, e.Floor
		for _, f := range e.Faults {
			p.Errors = append(p.Errors, api.Fault{Path: f.Path, Line: f.Line, Code: string(f.Code), Detail: f.Detail})
		}
	}
	return p
}

// classify returns the coded error in the chain of err, or creates one.
func classify(err error) *run.Error {
	var coded *run.Error
	var echoed *echo.HTTPError
	switch {
	case errors.As(err, &coded) && coded.Code == run.CodeInvalid && onlyUnsupported(coded.Faults):
		return &run.Error{Code: run.CodeNotSupported, Message: "the request uses a feature that is not supported yet", Faults: coded.Faults}
	case errors.As(err, &coded) && coded.Code != "":
		return coded
	case errors.As(err, &echoed):
		return classifyEcho(echoed)
	case errors.Is(err, context.DeadlineExceeded):
		return run.Errorf(run.CodeTimeout, "the request timed out")
	case errors.Is(err, context.Canceled):
		return run.Errorf(run.CodeCanceled, "the client canceled the request")
	}
	return &run.Error{Code: run.CodeInternal, Err: err}
}

// onlyUnsupported reports whether all faults of an input are unsupported
// features.
func onlyUnsupported(faults []run.Fault) bool {
	return len(faults) > 0 && !slices.ContainsFunc(faults, func(f run.Fault) bool { return f.Code != run.CodeNotSupported })
}

// classifyEcho translates the errors of the router and of the generated code.
func classifyEcho(err *echo.HTTPError) *run.Error {
	switch err.Code {
	case http.StatusNotFound:
		return run.Errorf(run.CodeNotFound, "there is no such path")
	case http.StatusMethodNotAllowed:
		return run.Errorf(codeMethodNotAllowed, "this path does not have this method")
	case http.StatusBadRequest:
		text, _ := err.Message.(string)
		return run.Errorf(run.CodeInvalid, "%s", text)
	}
	return &run.Error{Code: run.CodeInternal, Err: err}
}

// handleError writes the problem document of an error. All errors of handlers
// pass through it.
func (s *Server) handleError(err error, c echo.Context) {
	p := problemOf(err, c.Request().Method)
	p.RequestID = requestID(c)
	access.SetProblem(c, p)
	s.logProblem(c, p, err)
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", retryAfter)
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="drover"`)
	}
	h.Del("ETag")
	if err := writeJSON(c, p.Status, "application/problem+json", p); err != nil {
		s.logger.DebugContext(c.Request().Context(), "failed to write problem", "request_id", requestID(c), "error", err)
	}
}

func (s *Server) logProblem(c echo.Context, p api.Problem, err error) {
	args := []any{"request_id", requestID(c), "route", c.Path(), "code", p.Code, "status", p.Status, "error", err}
	switch {
	case p.Code == string(run.CodeInternal):
		s.logger.ErrorContext(c.Request().Context(), "request failed", args...)
	case p.Status >= http.StatusInternalServerError:
		s.logger.WarnContext(c.Request().Context(), "request failed", args...)
	default:
		s.logger.DebugContext(c.Request().Context(), "request refused", args...)
	}
}
