package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

// Server is what the log needs of the gateway.
type Server struct {
	// Caller returns the subject of a call and the name of its token.
	Caller func(c echo.Context) (subject, token string)
	// RequestID returns the id of a request.
	RequestID func(c echo.Context) string
	// BasePath begins the locations of what calls create.
	BasePath string
	// Stream begins a streaming response, and returns the function that writes to it.
	Stream func(c echo.Context, media string) (write func([]byte) error, err error)
	// Abort makes the client notice that the response is incomplete.
	Abort func(c echo.Context)
}

// API records calls, and implements the operations on the log.
type API struct {
	log      auditlog.Log
	recorder *Recorder
	server   Server
	routes   map[string]openapi.Operation // by method and route
}

// New returns an API. With a nil recorder it records nothing.
func New(recorder *Recorder, ops map[string]openapi.Operation, server Server) *API {
	a := &API{recorder: recorder, server: server, routes: make(map[string]openapi.Operation, len(ops))}
	if recorder != nil {
		a.log = recorder.log
	}
	route := strings.NewReplacer("{", ":", "}", "")
	for _, op := range ops {
		a.routes[op.Method+" "+route.Replace(op.Path)] = op
	}
	return a
}

// callKey is the key of the record of a call in its context.
const callKey = "drover.audit"

// call is a call whose record is written.
type call struct {
	record  auditlog.Record
	refused bool // the call was not made, because its record could not be written
	status  int  // instead of that of the response; 0: none
}

// Record is the middleware of an operation, after the check of the token: it writes the
// record of the call, if the operation has one. Operations without a token call Began.
func (a *API) Record(op openapi.Operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if a.recorder == nil || !op.Audit || op.Scope == "" {
			return next
		}
		return func(c echo.Context) error {
			subject, token := a.server.Caller(c)
			if err := a.begin(c, op, subject, token); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// Began writes the record of a call to an operation without a token, as soon as its
// handler knows the subject and before it changes anything. After an error the handler
// must leave everything as it was.
func (a *API) Began(c echo.Context, subject, token string) error {
	if a.recorder == nil {
		return nil
	}
	return a.begin(c, a.operation(c), subject, token)
}

func (a *API) begin(c echo.Context, op openapi.Operation, subject, token string) error {
	begun := &call{record: a.record(c, op)}
	begun.record.Subject, begun.record.Token, begun.record.Result = subject, token, auditlog.Unknown
	if group := c.QueryParam("group"); op.ID == "deleteRuns" && len(group) <= run.MaxGroupLength {
		begun.record.Group = strings.TrimRight(group, "/")
	}
	c.Set(callKey, begun)
	return a.write(c, begun)
}

// write commits the record of a call that has changed nothing yet.
func (a *API) write(c echo.Context, begun *call) error {
	if err := a.recorder.begin(c.Request().Context(), begun.record); err != nil {
		begun.refused = true
		return &run.Error{Code: run.CodeUnavailable, Message: "the audit log cannot be written, so nothing was changed", Err: err}
	}
	return nil
}

func (a *API) operation(c echo.Context) openapi.Operation {
	return a.routes[c.Request().Method+" "+c.Path()]
}

// record returns the record of a call without its caller and result.
func (a *API) record(c echo.Context, op openapi.Operation) auditlog.Record {
	now := time.Now()
	return auditlog.Record{
		ID: newID(now), Time: now, Until: now, Count: 1, Action: op.ID, Resource: resource(c, op), RequestID: a.server.RequestID(c), Remote: c.RealIP(),
	}
}

// EndedWith notes the status of a call whose response does not have it: the connection was
// upgraded before the outcome was known.
func (a *API) EndedWith(c echo.Context, status int) {
	if begun, ok := c.Get(callKey).(*call); ok {
		begun.status = status
	}
}

// Describe adds to the record of a call what only its body has: the name of what the call
// creates, and the rights that it gives. It returns when the record is committed. After an
// error the handler must leave everything as it was.
func (a *API) Describe(c echo.Context, name string, rights any) error {
	begun, ok := c.Get(callKey).(*call)
	if !ok {
		return nil
	}
	text, err := json.Marshal(rights)
	if err != nil {
		return fmt.Errorf("describe given rights: %w", err)
	}
	begun.record.Resource.ID, begun.record.Details = name, string(text)
	return a.write(c, begun)
}

// Finish writes the result of a request after its response: that of a recorded call,
// or a refusal. code is that of its error, "" without one.
func (a *API) Finish(c echo.Context, code run.Code) {
	if a.recorder == nil {
		return
	}
	ctx, status := c.Request().Context(), c.Response().Status
	if begun, ok := c.Get(callKey).(*call); ok {
		r, status := begun.record, cmp.Or(begun.status, status)
		r.Status, r.Code, r.Result = status, code, auditlog.ResultOf(status)
		if begun.refused {
			r.Result = auditlog.Failed
		}
		if r.Result == auditlog.Success {
			addCreated(&r, strings.TrimPrefix(c.Response().Header().Get("Location"), a.server.BasePath))
		}
		a.recorder.finish(ctx, r)
		return
	}
	op := a.operation(c)
	refused := auditlog.ResultOf(status) == auditlog.Refused
	if !refused && (!op.Audit || op.Scope != "" || status >= http.StatusBadRequest) {
		return
	}
	// A request without a token that changed nothing, such as a logout without a
	// session, is bounded like a refusal: anybody can make many.
	r := a.record(c, op)
	r.Subject, r.Token = a.server.Caller(c)
	r.Status, r.Code, r.Result = status, code, auditlog.ResultOf(status)
	a.recorder.refuse(ctx, r)
}

// addCreated adds the run that a call created.
func addCreated(r *auditlog.Record, location string) {
	id, ok := strings.CutPrefix(location, "/api/v1/runs/")
	switch {
	case !ok || strings.Contains(id, "/") || id == r.Resource.ID:
	case r.Resource == auditlog.Resource{Kind: auditlog.KindRun}:
		r.Resource.ID = id
	default:
		r.Created = id
	}
}

// resource returns what an operation is about, from its path: the kind is the first
// part in the singular.
func resource(c echo.Context, op openapi.Operation) (r auditlog.Resource) {
	path, ok := strings.CutPrefix(op.Path, "/api/v1/")
	if !ok || op.Scope == tokens.Executor {
		return r
	}
	kind, _, _ := strings.Cut(path, "/")
	r.Kind = strings.TrimSuffix(kind, "s")
	for _, p := range []struct {
		name string
		into *string
	}{{"id", &r.ID}, {"name", &r.ID}, {"task", &r.Task}} {
		if *p.into == "" {
			*p.into = parameter(c, p.name)
		}
	}
	return r
}

func parameter(c echo.Context, name string) string {
	value := c.Param(name)
	if text, err := url.PathUnescape(value); err == nil {
		return text
	}
	return value
}
