// Package gateway is the HTTP server for clients and executors. It implements
// the contract of package api.
//
// It uses the interfaces Service and ExecutorAPI of package run, and no
// implementation of them.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/gateway/audit"
	"github.com/drover-run/drover/gateway/basepath"
	"github.com/drover-run/drover/gateway/exec"
	"github.com/drover-run/drover/gateway/login"
	"github.com/drover-run/drover/gateway/logscan"
	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/gateway/proxies"
	"github.com/drover-run/drover/gateway/ui"
	"github.com/drover-run/drover/internal/hostcheck"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
)

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../api/openapi.yaml

// Deps are the dependencies of a Server.
type Deps struct {
	Runs run.Service // required
	// Ready returns an error while the process cannot serve its first submission; nil
	// means Runs.Ready.
	Ready       func(context.Context) error
	ExecutorAPI run.ExecutorAPI // nil: the gateway does not serve executors
	// Webhooks, Schedules, Fleets, Artifacts and Retention are optional: if one is
	// nil, the gateway answers its calls with not_supported.
	Webhooks  run.Webhooks
	Schedules run.Schedules
	Fleets    run.Fleets
	Artifacts run.Artifacts
	Retention run.RetentionAPI
	// Sessions serves commands in running tasks; nil means not_supported.
	Sessions exec.Sessions
	// Codec, if not nil, answers /codec/decode and /codec/encode for the tools of
	// Temporal.
	Codec http.Handler
	// Auth checks bearer tokens. If it is nil, every call is allowed, and the
	// gateway listens on loopback addresses only.
	Auth tokens.Authenticator
	// Tokens lists and revokes the tokens of Auth; nil means not_supported.
	Tokens run.BearerTokens
	// RoleGrants are the grants to users of Provider; nil means not_supported.
	RoleGrants run.RoleGrantsAPI
	// Browsers are the sessions of browsers; nil means that none can log in.
	Browsers login.Sessions
	// Provider logs users in, if it is not nil. Auth accepts its tokens.
	Provider *oidc.Provider
	// Audit writes the audit log; nil means that there is none.
	Audit *audit.Recorder
	// Keys are the keys of the relays. If they are set, an executor with a bound
	// token may claim only tasks that a relay handed to it.
	Keys   *tokens.Keys
	Logger *slog.Logger // required
	// Registry holds the metrics of the gateway and is served at /metrics; nil
	// means a registry of its own.
	Registry *prometheus.Registry
	// Stats returns the figures of the store for /metrics, and Archives those of
	// the stored archives. If one is nil, its metrics are left out.
	Stats    StatsFunc
	Archives ArchivesFunc
}

// Options are the settings of a Server. The zero value of a field means its
// default.
type Options struct {
	// Address is the listen address, host:port. New only checks it: without tokens
	// it must be a loopback address.
	Address string
	// Hosts are the names, with or without port, by which clients reach the
	// gateway. Loopback names and the listener's own address are always allowed.
	Hosts []string
	// BasePath is the path below which clients reach the gateway, such as /drover; ""
	// means the root.
	BasePath string
	// CodecOrigins are the origins from which browsers may use the codec.
	CodecOrigins []string
	// SecureCookies says that browsers reach the gateway over TLS, although it has no
	// TLS itself: a proxy has it.
	SecureCookies bool
	// TrustedProxies are the addresses and networks of the reverse proxies whose
	// X-Forwarded-For and X-Forwarded-Proto are true.
	TrustedProxies []string
	// TemporalRun is the URL of the workflow of a run in Temporal's UI, with {run} in
	// place of the id of the run; "" if there is none.
	TemporalRun string
	// AccessLog selects the requests that are logged at info: one of the levels of
	// package access; "" means access.Calls.
	AccessLog string
	// TLS makes Run serve https.
	TLS *tls.Config
	// MaxBody is the longest request body in bytes: run.MaxRequestBytes.
	MaxBody int64
	// RequestTimeout ends calls that do not stream: 30 s.
	RequestTimeout time.Duration
	// ReadTimeout bounds reading a whole request: 60 s, enough for the largest body
	// over a slow connection.
	ReadTimeout time.Duration
	// WriteTimeout bounds each write of a stream: 30 s. The gateway disconnects a
	// reader that takes nothing for this long, because it holds resources.
	WriteTimeout time.Duration
	// Heartbeat is how long an event stream may be idle before the gateway sends a
	// comment: 15 s. The comment keeps proxies from closing the stream and detects
	// lost clients.
	Heartbeat time.Duration
	// Recheck is the time between two checks whether the caller of an open stream may
	// still read it: 5 s.
	Recheck time.Duration
	// ShutdownTimeout is how long Run waits for open calls when it ends: 10 s.
	ShutdownTimeout time.Duration
}

func (o Options) withDefaults() Options {
	o.MaxBody = cmp.Or(o.MaxBody, run.MaxRequestBytes)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.Recheck = cmp.Or(o.Recheck, 5*time.Second)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	return o
}

// Server is the gateway. Its methods are safe for concurrent use.
type Server struct {
	*exec.Operations
	*login.Handlers
	*access.TokenOperations
	*access.RoleGrantOperations
	*audit.API

	runs        run.Service
	ready       func(context.Context) error
	executorAPI run.ExecutorAPI
	webhooks    run.Webhooks
	schedules   run.Schedules
	fleets      run.Fleets
	artifacts   run.Artifacts
	retention   run.RetentionAPI
	auth        tokens.Authenticator
	keys        *tokens.Keys
	logger      *slog.Logger
	metrics     *metrics
	access      *access.Log
	roles       *access.Roles
	watcher     *access.Watcher // nil without tokens
	streams     *streams
	scans       *logscan.Turns
	opts        Options
	echo        *echo.Echo
	ui          *ui.Handler
	base        basepath.Path
	proxies     proxies.Trusted
}

var _ ServerInterface = (*Server)(nil)

// New returns a Server that does not serve yet. It returns an error if the
// address is not loopback and there are no tokens.
func New(deps Deps, opts Options) (*Server, error) {
	if deps.Runs == nil || deps.Logger == nil {
		return nil, errors.New("create gateway: Runs and Logger are required")
	}
	if deps.Ready == nil {
		deps.Ready = deps.Runs.Ready
	}
	if deps.Auth == nil && opts.Address != "" && !hostcheck.IsLoopback(hostcheck.Name(opts.Address)) {
		return nil, errNoTokens(opts.Address)
	}
	ops, err := openapi.Read(api.Document())
	if err != nil {
		return nil, err
	}
	s := &Server{
		runs: deps.Runs, ready: deps.Ready, executorAPI: deps.ExecutorAPI, webhooks: deps.Webhooks, schedules: deps.Schedules, fleets: deps.Fleets, artifacts: deps.Artifacts, retention: deps.Retention,
		auth: deps.Auth, keys: deps.Keys, logger: deps.Logger,
		access: access.New(deps.Logger, opts.AccessLog, opts.BasePath, ops), streams: newStreams(), scans: logscan.NewTurns(runtime.GOMAXPROCS(0)), opts: opts.withDefaults(),
		base: basepath.Path(opts.BasePath),
	}
	resources := access.Resources{Run: deps.Runs.GroupOf}
	if deps.Schedules != nil {
		resources.Schedule = deps.Schedules.ScheduleGroup
	}
	if deps.Fleets != nil {
		resources.Fleet, resources.Pool = deps.Fleets.Fleet, deps.Runs.Pool
	}
	if s.roles, err = access.NewRoles(ops, resources); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(deps); err != nil {
		return nil, fmt.Errorf("register metrics of the gateway: %w", err)
	}
	if s.proxies, err = proxies.Parse(opts.TrustedProxies); err != nil {
		return nil, fmt.Errorf("read the trusted proxies: %w", err)
	}
	s.Handlers = login.New(login.Deps{
		Sessions: deps.Browsers, Provider: deps.Provider, Secure: s.secure, Caller: principal, BasePath: opts.BasePath,
		Began:  func(c echo.Context, subject, token string) error { return s.Began(c, subject, token) },
		Decode: func(c echo.Context, v any) error { return s.decode(c, v, strict) },
	})
	if deps.Auth != nil {
		s.watcher = &access.Watcher{
			Every: s.opts.Recheck, Authenticate: reauthenticate(deps.Auth, s.Recheck), Reauthenticate: reauthenticate(deps.Auth, s.Handlers.Reaffirm),
			Roles: s.roles, Problem: problemOf,
		}
		for _, rights := range []any{deps.Tokens, deps.RoleGrants} {
			if r, ok := rights.(access.Refresher); ok {
				s.watcher.Rights = append(s.watcher.Rights, r)
			}
		}
	}
	s.API = audit.New(deps.Audit, ops, audit.Server{
		Caller: func(c echo.Context) (subject, token string) { return principal(c).Name, principal(c).Name }, RequestID: requestID, BasePath: opts.BasePath,
		Abort: abortResponse, Stream: func(c echo.Context, media string) (func([]byte) error, error) {
			w, err := s.startStream(c, media)
			if err != nil {
				return nil, err
			}
			return w.send, nil
		},
	})
	s.TokenOperations = &access.TokenOperations{Tokens: deps.Tokens, Caller: principal, Reaffirm: s.watcher.Reaffirm, Describe: s.API.Describe, Decode: func(c echo.Context, v any) error { return s.decode(c, v, strict) }}
	s.RoleGrantOperations = &access.RoleGrantOperations{
		Grants: deps.RoleGrants, Caller: subject, Reaffirm: s.watcher.Reaffirm, Describe: s.API.Describe, Decode: func(c echo.Context, v any) error { return s.decode(c, v, strict) },
		Location: func(name string) string { return s.base.Join("/api/v1/rolegrants/" + url.PathEscape(name)) },
	}
	s.Operations = &exec.Operations{Sessions: deps.Sessions, Server: exec.Server{
		Subject: subject, Open: s.streams.open, Watch: s.watcher.Watch, CheckExecutor: checkBinding, Failed: executorError,
		Decode: func(c echo.Context, v any) error { return s.decode(c, v, lenient) },
		Refused: func(c echo.Context, err error) {
			p := problemOf(err, c.Request().Method)
			access.SetProblem(c, p)
			s.EndedWith(c, p.Status)
		},
		Streamed: func(c echo.Context) { c.Set(streamedKey, true) },
	}}
	if s.ui, err = ui.New(opts.BasePath); err != nil {
		return nil, err
	}
	s.echo = s.router(ops, deps.Codec)
	return s, nil
}

func errNoTokens(address string) error {
	return run.Errorf(run.CodeInvalid, "%s is reachable from other hosts: configure a token file, or a loopback address", address)
}

// Handler returns the gateway's handler, for use with another HTTP server than
// that of Run.
func (s *Server) Handler() http.Handler { return s.echo }

// router builds the middleware of each call and registers the handlers.
func (s *Server) router(ops map[string]openapi.Operation, codec http.Handler) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = s.proxies.Addresses()
	e.HTTPErrorHandler = s.handleError
	own := slices.Clone(s.opts.Hosts)
	if host := hostcheck.Name(s.opts.Address); host != "" && net.ParseIP(host) == nil {
		own = append(own, host)
	}
	e.Pre(s.base.Strip)
	e.Use(identify, s.observe, s.recoverPanics, newHosts(own, s.opts.CodecOrigins).middleware, s.base.Redirect, s.serveUI)
	checks := make(map[string][]echo.MiddlewareFunc, len(ops))
	for id, op := range ops {
		checks[id] = []echo.MiddlewareFunc{s.authorize(op), s.Record(op), s.checkRequest(op), s.checkBody(op)}
	}
	if codec != nil {
		s.serveCodec(e, codec)
	}
	RegisterHandlersWithOptions(e, s, RegisterHandlersOptions{OperationMiddlewares: checks})
	return e
}
