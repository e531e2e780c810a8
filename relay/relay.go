// Package relay is a proxy in front of Temporal for executors that are not
// trusted. Temporal's own roles cannot restrict an executor to its queues: a
// client that may poll may also signal and terminate. A relay admits polls of
// an executor's own queues, and heartbeats and results of tasks that it handed
// to that executor.
//
// A relay keeps no state. It wraps each task token with a proof of its owner,
// so every relay with the same keys can unwrap the token.
package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress their messages
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/drover-run/drover/internal/tokens"
)

const (
	// maxMessage bounds a message from an executor: a result holds at most the
	// states of 256 steps and a reason.
	maxMessage = 1 << 20
	// maxHeaders bounds the headers of a call: a token and the SDK's own.
	maxHeaders = 16 << 10
	// maxStreams bounds the calls on one connection; further calls wait at the
	// client.
	maxStreams = 512
	// handshakeTimeout bounds the handshake of a connection.
	handshakeTimeout = 10 * time.Second
	// Executors ping every 30 s; the relay closes connections that ping more
	// often than minPingInterval.
	minPingInterval = 10 * time.Second
	// The relay closes a connection that has had no call for maxIdle.
	maxIdle = 5 * time.Minute
	// A client that does not answer a ping is gone, and so are its polls.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
)

var (
	errStopping = errors.New("the relay is stopping")
	errRevoked  = errors.New("the bearer token was revoked or changed")
)

// Deps holds the dependencies of a Relay.
type Deps struct {
	Temporal workflowservice.WorkflowServiceClient // required
	Auth     tokens.Authenticator                  // required
	Keys     *tokens.Keys                          // required
	Logger   *slog.Logger                          // required
	Registry prometheus.Registerer                 // registers the metrics; nil: not registered
}

// Options are the settings of a Relay. The zero value of each means its
// default.
type Options struct {
	// Namespace is the only namespace that the relay serves; required.
	Namespace string
	// TLS is the configuration of the listener for executors.
	TLS *tls.Config
	// AllowPlain allows a listener that is neither TLS nor loopback, for
	// networks without eavesdroppers: bearer tokens cross the network.
	AllowPlain bool
	// MaxPolls is how many polls of one credential may be open at a time: 200.
	MaxPolls int
	// MaxCalls is how many other calls of one credential may be active at a
	// time: 200.
	MaxCalls int
	// Recheck is the interval at which the tokens of open polls are checked: 1
	// s.
	Recheck time.Duration
	// ShutdownTimeout is how long Run waits for active calls when it ends: 10
	// s.
	ShutdownTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxPolls == 0 {
		o.MaxPolls = 200
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = 200
	}
	if o.Recheck == 0 {
		o.Recheck = time.Second
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = 10 * time.Second
	}
	return o
}

// Relay is the server. Run it once.
type Relay struct {
	admission *admission
	server    *grpc.Server
	health    *health.Server
	opts      Options
	logger    *slog.Logger
}

// New returns a Relay that does not serve yet.
func New(deps Deps, opts Options) (*Relay, error) {
	if deps.Temporal == nil || deps.Auth == nil || deps.Keys == nil || deps.Logger == nil || opts.Namespace == "" {
		return nil, errors.New("create the relay: Temporal, Auth, Keys, Logger and Namespace are required")
	}
	opts = opts.withDefaults()
	metrics := newMetrics()
	if deps.Registry != nil {
		if err := deps.Registry.Register(metrics); err != nil {
			return nil, fmt.Errorf("register the metrics of the relay: %w", err)
		}
	}
	d := newAdmission(deps.Auth, metrics, deps.Logger, opts)
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(d.unary), grpc.StreamInterceptor(d.stream), grpc.UnknownServiceHandler(d.unknown),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxIdle, Time: pingAfter, Timeout: pingTimeout}),
	}
	if opts.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(opts.TLS)))
	}
	r := &Relay{admission: d, server: grpc.NewServer(options...), health: health.NewServer(), opts: opts, logger: deps.Logger}
	workflowservice.RegisterWorkflowServiceServer(r.server, &service{
		temporal: deps.Temporal, keys: deps.Keys, admission: d, namespace: opts.Namespace, metrics: metrics,
	})
	healthpb.RegisterHealthServer(r.server, r.health)
	r.health.SetServingStatus(workflowservice.WorkflowService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	return r, nil
}

// Run serves on the listener, which it closes, until ctx ends. It then ends
// open polls, so that executors switch to another relay.
func (r *Relay) Run(ctx context.Context, listener net.Listener) error {
	if r.opts.TLS == nil && !r.opts.AllowPlain && !loopback(listener.Addr()) {
		return errors.Join(
			fmt.Errorf("the relay would serve %s without TLS: tokens would cross the network in the clear", listener.Addr()),
			listener.Close())
	}
	var group sync.WaitGroup
	defer group.Wait()
	watching, stopWatching := context.WithCancelCause(ctx)
	defer stopWatching(errStopping)
	group.Go(func() { r.admission.watch(watching) })
	stopped := make(chan struct{})
	group.Go(func() {
		defer close(stopped)
		<-watching.Done()
		r.stop()
	})
	err := r.server.Serve(listener)
	if ctx.Err() == nil {
		return fmt.Errorf("serve the relay: %w", err)
	}
	<-stopped
	return nil
}

// stop waits for active calls, up to ShutdownTimeout.
func (r *Relay) stop() {
	r.health.Shutdown()
	r.admission.endPolls(errStopping)
	timer := time.AfterFunc(r.opts.ShutdownTimeout, r.server.Stop)
	defer timer.Stop()
	r.server.GracefulStop()
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
