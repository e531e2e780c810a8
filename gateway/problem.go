package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// codeMethodNotAllowed is of HTTP alone, so package run does not know it.
const codeMethodNotAllowed run.Code = "method_not_allowed"

// statusClientGone is what the log and the metrics say of a client that went
// away before it was answered: nobody reads it.
const statusClientGone = 499

// retryAfter is how long a client should wait before it tries again, where
// that may help: about as long as a restart takes.
const retryAfter = "2"

// problemKind is how a code looks over HTTP.
type problemKind struct {
	status int
	title  string
}

// kindOf maps every code to its HTTP status. It is the only place that does.
func kindOf(code run.Code) problemKind {
	switch code {
	case run.CodeUnreadable:
		return problemKind{http.StatusBadRequest, "The request can not be read"}
	case run.CodeInvalid:
		return problemKind{http.StatusUnprocessableEntity, "The request is not valid"}
	case run.CodeNotFound:
		return problemKind{http.StatusNotFound, "There is no such thing"}
	case run.CodeGone:
		return problemKind{http.StatusGone, "It was removed"}
	case run.CodeConflict:
		return problemKind{http.StatusConflict, "It exists already, or has changed"}
	case run.CodeClaimed:
		return problemKind{http.StatusConflict, "Claimed by another executor"}
	case run.CodeWrongPhase:
		return problemKind{http.StatusConflict, "The phase of the run does not allow it"}
	case run.CodeNotWaitingApproval:
		return problemKind{http.StatusConflict, "The task does not wait for this approval"}
	case run.CodeChangeGroupConflict:
		return problemKind{http.StatusConflict, "A change group has changed"}
	case run.CodeChangeGroupBusy:
		return problemKind{http.StatusConflict, "A change group is busy"}
	case run.CodeIdempotencyMismatch:
		return problemKind{http.StatusUnprocessableEntity, "The idempotency key was used for another request"}
	case run.CodeUnauthenticated:
		return problemKind{http.StatusUnauthorized, "A token is needed"}
	case run.CodeForbidden:
		return problemKind{http.StatusForbidden, "It is not allowed"}
	case codeMethodNotAllowed:
		return problemKind{http.StatusMethodNotAllowed, "The method is not allowed here"}
	case run.CodeTooLarge:
		return problemKind{http.StatusRequestEntityTooLarge, "The request is too large"}
	case run.CodeUnsupportedMedia:
		return problemKind{http.StatusUnsupportedMediaType, "The media type is not supported"}
	case run.CodeNotSupported:
		return problemKind{http.StatusUnprocessableEntity, "It is not supported"}
	case run.CodeExhausted:
		return problemKind{http.StatusTooManyRequests, "A limit is reached"}
	case run.CodeUnavailable:
		return problemKind{http.StatusServiceUnavailable, "A part is out of reach"}
	case run.CodeTimeout:
		return problemKind{http.StatusGatewayTimeout, "It took too long"}
	case run.CodeCanceled:
		return problemKind{statusClientGone, "The client went away"}
	case run.CodeInternal:
		return problemKind{http.StatusInternalServerError, "Drover made a mistake"}
	}
	return kindOf(run.CodeInternal)
}

// problemOf turns an error into what the client is told of it. The text of an
// error without a code never leaves the process.
func problemOf(err error, method string) api.Problem {
	e := classify(err)
	kind := kindOf(e.Code)
	if e.Code == run.CodeInvalid && (method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete) {
		kind.status = http.StatusBadRequest // there is no content that could be unprocessable
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

// classify finds the coded error in err, or makes one.
func classify(err error) *run.Error {
	var coded *run.Error
	var echoed *echo.HTTPError
	switch {
	case errors.As(err, &coded) && coded.Code == run.CodeInvalid && onlyUnsupported(coded.Faults):
		return &run.Error{Code: run.CodeNotSupported, Message: "it asks for what is not supported yet", Faults: coded.Faults}
	case errors.As(err, &coded) && coded.Code != "":
		return coded
	case errors.As(err, &echoed):
		return classifyEcho(echoed)
	case errors.Is(err, context.DeadlineExceeded):
		return run.Errorf(run.CodeTimeout, "the answer took too long")
	case errors.Is(err, context.Canceled):
		return run.Errorf(run.CodeCanceled, "the request was given up")
	}
	return &run.Error{Code: run.CodeInternal, Err: err}
}

// onlyUnsupported reports whether an input would be good if all were built.
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

// handleError is the only place where errors become answers.
func (s *Server) handleError(err error, c echo.Context) {
	p := problemOf(err, c.Request().Method)
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
		s.logger.DebugContext(c.Request().Context(), "problem not written", "request_id", requestID(c), "error", err)
	}
}

func (s *Server) logProblem(c echo.Context, p api.Problem, err error) {
	args := []any{"request_id", requestID(c), "route", c.Path(), "code", p.Code, "status", strconv.Itoa(p.Status), "error", err}
	switch {
	case p.Code == string(run.CodeInternal):
		s.logger.ErrorContext(c.Request().Context(), "request failed", args...)
	case p.Status >= http.StatusInternalServerError:
		s.logger.WarnContext(c.Request().Context(), "request failed", args...)
	default:
		s.logger.DebugContext(c.Request().Context(), "request refused", args...)
	}
}
