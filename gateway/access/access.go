// Package access writes the access log of the gateway: a line for each request.
package access

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// The levels of detail: which requests are logged at info. All others are logged
// at debug.
const (
	// All is every request.
	All = "all"
	// Calls are the calls of clients, without those that are repeated all the time:
	// health checks, metrics, the calls of executors, and reading logs and events.
	Calls = "calls"
	// Refused are the requests without a valid token, or with one that does not
	// allow the call. They are part of the other levels too.
	Refused = "refused"
)

// Bounds of values that the client chooses.
const (
	maxMethod = 16
	maxRunID  = 64
	maxReason = 200
)

// The operations that clients repeat to follow a run.
const (
	readLogs   = "getTaskLogs"
	readEvents = "streamEvents"
)

// problemKey is the key of the problem document in the context of a request.
const problemKey = "drover.problem"

// SetProblem notes the error that is the response of a request.
func SetProblem(c echo.Context, p api.Problem) { c.Set(problemKey, &p) }

// Code returns the code of the error that is the response of a request, "" if there is
// none.
func Code(c echo.Context) run.Code {
	if p, ok := c.Get(problemKey).(*api.Problem); ok {
		return run.Code(p.Code)
	}
	return ""
}

// Log is an access log.
type Log struct {
	logger *slog.Logger
	detail string
	quiet  map[string]bool // routes of the calls that are repeated, by method and path
	runs   string          // begins the locations of runs
}

// New returns an access log. The empty detail means Calls. Locations begin with basePath.
func New(logger *slog.Logger, detail, basePath string, ops map[string]openapi.Operation) *Log {
	l := &Log{logger: logger, detail: detail, quiet: make(map[string]bool), runs: basePath + runsPath}
	for _, op := range ops {
		if op.Scope == tokens.Executor || !strings.HasPrefix(op.Path, "/api/") || op.ID == readLogs || op.ID == readEvents {
			l.quiet[op.Method+" "+route(op.Path)] = true
		}
	}
	return l
}

// route returns a path of the contract in the form of the router.
func route(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// Request is what the gateway knows of a request.
type Request struct {
	ID      string
	Route   string // "none" if there is none
	Subject string // name of the token; "" if there is no valid one
	Took    time.Duration
}

// Write writes the line of a request that was answered. It contains neither the
// query nor anything of a body.
func (l *Log) Write(c echo.Context, r Request) {
	status := c.Response().Status
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	level, ctx := l.level(c.Request().Method, r.Route, refused), c.Request().Context()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	var array [12]slog.Attr
	attrs := array[:0]
	attrs = append(attrs,
		slog.String("request_id", r.ID), slog.String("method", truncate.String(c.Request().Method, maxMethod, "")), slog.String("route", r.Route),
		slog.Int("status", status), slog.Int64("bytes", c.Response().Size), slog.Duration("duration", r.Took.Round(time.Microsecond)),
		slog.String("remote", c.RealIP()))
	if r.Subject != "" {
		attrs = append(attrs, slog.String("subject", r.Subject))
	}
	if id := l.runID(c); id != "" {
		attrs = append(attrs, slog.String("run_id", truncate.String(id, maxRunID, "")))
	}
	if p, ok := c.Get(problemKey).(*api.Problem); ok {
		attrs = append(attrs, slog.String("code", p.Code))
		if refused {
			attrs = append(attrs, slog.String("reason", truncate.String(p.Detail, maxReason, "...")))
		}
	}
	l.logger.LogAttrs(ctx, level, "request", attrs...)
}

func (l *Log) level(method, route string, refused bool) slog.Level {
	switch {
	case refused || l.detail == All:
		return slog.LevelInfo
	case l.detail == Refused || l.quiet[method+" "+route]:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// runsPath begins the paths of runs.
const runsPath = "/api/v1/runs/"

// runID returns the run of a request: that of its path, or the one that it
// created.
func (l *Log) runID(c echo.Context) string {
	if strings.HasPrefix(c.Path(), runsPath) {
		return c.Param("id")
	}
	id, _ := strings.CutPrefix(c.Response().Header().Get("Location"), l.runs)
	if strings.Contains(id, "/") { // the location of something else
		return ""
	}
	return id
}
