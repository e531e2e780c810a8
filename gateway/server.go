package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/hostcheck"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/tokens"
)

// Deps is what a Server needs.
type Deps struct {
	Runs run.Service // required
	Desk run.Desk    // nil: executors are not served
	// Webhooks are served where they are not nil.
	Webhooks run.Webhooks
	// Schedules likewise.
	Schedules run.Schedules
	// Fleets likewise.
	Fleets run.Fleets
	// Artifacts likewise.
	Artifacts run.Artifacts
	// Retention likewise.
	Retention run.RetentionOffice
	// Codec answers /codec/decode and /codec/encode for Temporal's own tools,
	// where it is not nil.
	Codec http.Handler
	// Auth knows the bearer tokens. Without it every call is allowed, and
	// only loopback addresses may be listened on.
	Auth tokens.Authenticator
	// Keys are those of the relays. With them an executor whose token is bound
	// may only claim what a relay handed to it.
	Keys   *tokens.Keys
	Logger *slog.Logger // required
	// Registry takes the gateway's metrics, and is what /metrics shows; nil
	// means one of its own.
	Registry *prometheus.Registry
	// Stats gives the figures of the store for /metrics, and Archives those of the
	// archives that are stored; nil: there are none.
	Stats    StatsFunc
	Archives ArchivesFunc
}

// Options are the settings of a Server. The zero value of each means its
// default.
type Options struct {
	// Address is what will be listened on, host:port. It is there to be
	// checked: without tokens it must be loopback.
	Address string
	// Hosts are the names, with or without port, by which clients reach the
	// gateway; loopback names and the listener's own address always count.
	Hosts []string
	// CodecOrigins are the origins from which browsers may use the codec.
	CodecOrigins []string
	// TLS makes Run serve https.
	TLS *tls.Config
	// MaxBody is the longest request body in bytes: run.MaxRequestBytes.
	MaxBody int64
	// RequestTimeout ends calls that do not stream: 30 s.
	RequestTimeout time.Duration
	// ReadTimeout is for reading a whole request: 60 s, enough for the
	// longest body over a slow line.
	ReadTimeout time.Duration
	// WriteTimeout is for each write of a stream: 30 s. A reader that takes
	// nothing for so long is cut off, so that it holds nothing up.
	WriteTimeout time.Duration
	// Heartbeat is the pause after which an idle event stream gets a comment,
	// so that proxies keep it open and lost clients are noticed: 15 s.
	Heartbeat time.Duration
	// ShutdownTimeout is how long Run lets calls finish when it ends: 10 s.
	ShutdownTimeout time.Duration
}

func (o Options) withDefaults() Options {
	o.MaxBody = orDefault(o.MaxBody, run.MaxRequestBytes)
	o.RequestTimeout = orDefault(o.RequestTimeout, 30*time.Second)
	o.ReadTimeout = orDefault(o.ReadTimeout, time.Minute)
	o.WriteTimeout = orDefault(o.WriteTimeout, 30*time.Second)
	o.Heartbeat = orDefault(o.Heartbeat, 15*time.Second)
	o.ShutdownTimeout = orDefault(o.ShutdownTimeout, 10*time.Second)
	return o
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Server is the gateway. Its methods are safe for concurrent use.
type Server struct {
	runs      run.Service
	desk      run.Desk
	webhooks  run.Webhooks
	schedules run.Schedules
	fleets    run.Fleets
	artifacts run.Artifacts
	retention run.RetentionOffice
	auth      tokens.Authenticator
	keys      *tokens.Keys
	logger    *slog.Logger
	metrics   *metrics
	streams   *streams
	opts      Options
	echo      *echo.Echo
}

var _ ServerInterface = (*Server)(nil)

// New returns a Server that does not serve yet. It fails where the address is
// open to others and there are no tokens.
func New(deps Deps, opts Options) (*Server, error) {
	if deps.Runs == nil || deps.Logger == nil {
		return nil, errors.New("making the gateway: Runs and Logger are required")
	}
	if deps.Auth == nil && opts.Address != "" && !hostcheck.IsLoopback(hostcheck.Name(opts.Address)) {
		return nil, errNoTokens(opts.Address)
	}
	ops, err := readContract(api.Document())
	if err != nil {
		return nil, err
	}
	s := &Server{
		runs: deps.Runs, desk: deps.Desk, webhooks: deps.Webhooks, schedules: deps.Schedules, fleets: deps.Fleets, artifacts: deps.Artifacts, retention: deps.Retention,
		auth: deps.Auth, keys: deps.Keys, logger: deps.Logger,
		streams: newStreams(), opts: opts.withDefaults(),
	}
	if s.metrics, err = newMetrics(deps); err != nil {
		return nil, fmt.Errorf("registering the metrics of the gateway: %w", err)
	}
	s.echo = s.router(ops, deps.Codec)
	return s, nil
}

func errNoTokens(address string) error {
	return run.Errorf(run.CodeInvalid, "%s can be reached by others: it needs a token file, or a loopback address", address)
}

// Handler returns the gateway's handler, for a server other than Run's.
func (s *Server) Handler() http.Handler { return s.echo }

// router puts together what each call passes through before its handler.
func (s *Server) router(ops map[string]operation, codec http.Handler) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = s.handleError
	own := slices.Clone(s.opts.Hosts)
	if host := hostcheck.Name(s.opts.Address); host != "" && net.ParseIP(host) == nil {
		own = append(own, host)
	}
	e.Use(identify, s.observe, s.recoverPanics, newHosts(own, s.opts.CodecOrigins).middleware)
	checks := make(map[string][]echo.MiddlewareFunc, len(ops))
	for id, op := range ops {
		checks[id] = []echo.MiddlewareFunc{s.authorize(op), s.checkRequest(op), s.checkBody(op)}
	}
	if codec != nil {
		s.serveCodec(e, codec)
	}
	RegisterHandlersWithOptions(e, s, RegisterHandlersOptions{OperationMiddlewares: checks})
	return e
}
