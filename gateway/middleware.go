package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/internal/hostcheck"
	"github.com/drover-run/drover/run"
)

// headerRequestID carries the id of a request in the log.
const headerRequestID = "X-Request-Id"

const maxRequestID = 64

// identify assigns an id to each request: the id that the client sent if it is
// valid, else a new one.
func identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(headerRequestID)
		if !validRequestID(id) {
			id = strings.ToLower(rand.Text())
		}
		h := c.Response().Header()
		h.Set(headerRequestID, id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-_.", r)
	})
}

func requestID(c echo.Context) string { return c.Response().Header().Get(headerRequestID) }

// observe counts and logs each request after it was answered.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begun := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		route := c.Path()
		if route == "" {
			route = "none"
		}
		took := time.Since(begun)
		s.metrics.countRequest(route, c.Request().Method, c.Response().Status)
		if c.Get(streamedKey) == nil {
			s.metrics.observeDuration(route, c.Request().Method, took)
		}
		s.Finish(c, access.Code(c))
		s.access.Write(c, access.Request{ID: requestID(c), Route: route, Subject: subject(c), Took: took})
		return nil
	}
}

// recoverPanics turns a panic of a handler into an error, so that it fails one
// request only.
func (s *Server) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			s.logger.ErrorContext(c.Request().Context(), "panic in a handler",
				"request_id", requestID(c), "route", c.Path(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			s.metrics.panics.Inc()
			err = &run.Error{Code: run.CodeInternal, Err: errors.New("panic in a handler")}
		}()
		return next(c)
	}
}

// serveUI answers the web UI's requests, where the contract has no path.
func (s *Server) serveUI(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Path() != "" || !s.ui.Serves(c.Request()) {
			return next(c)
		}
		s.ui.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

// checkRequest checks the query against the contract and limits the time of
// calls that do not stream.
func (s *Server) checkRequest(op openapi.Operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := openapi.CheckQuery(op, c.Request().URL.RawQuery); err != nil {
				return err
			}
			if op.Stream {
				return next(c)
			}
			ctx, cancel := context.WithTimeoutCause(c.Request().Context(), s.opts.RequestTimeout, context.DeadlineExceeded)
			defer cancel()
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	}
}

// abortResponse aborts a response that has begun and cannot be completed, so that the
// client detects that it is incomplete.
func abortResponse(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Unix(1, 0))
}

// hosts refuses requests for other hosts and from other origins.
type hosts struct {
	own *hostcheck.Hosts
	// codecOrigins are the origins that may use the codec nevertheless.
	codecOrigins []string
}

func newHosts(names, codecOrigins []string) hosts {
	return hosts{own: hostcheck.New(names...), codecOrigins: codecOrigins}
}

func (h hosts) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if err := h.own.CheckHost(r); err != nil {
			return &run.Error{Code: run.CodeForbidden, Message: err.Error()}
		}
		if err := hostcheck.CheckOrigin(r); err != nil && !h.mayDecode(r) {
			return &run.Error{Code: run.CodeForbidden, Message: err.Error()}
		}
		return next(c)
	}
}

func (h hosts) mayDecode(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, codecPath) && slices.Contains(h.codecOrigins, r.Header.Get("Origin"))
}
