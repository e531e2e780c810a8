package relay_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// temporal is a server that accepts all calls and records them.
type temporal struct {
	workflowservice.UnimplementedWorkflowServiceServer

	mu    sync.Mutex
	calls []call
	// task is the answer to a poll. If wait is set, a poll waits until wait is
	// closed or the poll ends.
	task    *workflowservice.PollActivityTaskQueueResponse
	wait    chan struct{}
	waiting atomic.Int32 // polls
	// answersAfter is how long a heartbeat takes, in virtual time.
	answersAfter time.Duration
	err          error
}

// call is a call that reached Temporal.
type call struct {
	name    string
	request any
	headers metadata.MD
}

func (t *temporal) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	t.mu.Lock()
	t.calls = append(t.calls, call{name: path.Base(info.FullMethod), request: req, headers: md})
	err := t.err
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// takeCalls returns the calls that reached Temporal since the last call of takeCalls.
func (t *temporal) takeCalls() []call {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

func (t *temporal) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

func (t *temporal) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{
		ServerVersion: "1.2.3", Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{SdkMetadata: true},
	}, nil
}

func (t *temporal) DescribeNamespace(
	_ context.Context, in *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{
		NamespaceInfo: &namespacepb.NamespaceInfo{
			Name: in.GetNamespace(), Id: "id", OwnerEmail: "owner", Data: map[string]string{"a": "b"},
			Capabilities: &namespacepb.NamespaceInfo_Capabilities{WorkerPollCompleteOnShutdown: true, WorkerCommands: true, WorkerHeartbeats: true},
		},
		FailoverVersion: 7,
	}, nil
}

func (t *temporal) PollActivityTaskQueue(
	ctx context.Context, _ *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	if t.wait != nil {
		t.waiting.Add(1)
		defer t.waiting.Add(-1)
		select {
		case <-t.wait:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if t.task != nil {
		return t.task, nil
	}
	return &workflowservice.PollActivityTaskQueueResponse{
		TaskToken:        []byte("raw"),
		PollerGroupInfos: []*taskqueuepb.PollerGroupInfo{{Id: "g"}}, //nolint:staticcheck // deprecated, and still sent
	}, nil
}

func (t *temporal) RecordActivityTaskHeartbeat(
	ctx context.Context, _ *workflowservice.RecordActivityTaskHeartbeatRequest,
) (*workflowservice.RecordActivityTaskHeartbeatResponse, error) {
	if err := retry.Sleep(ctx, t.answersAfter); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &workflowservice.RecordActivityTaskHeartbeatResponse{CancelRequested: true}, nil
}

func (t *temporal) RespondActivityTaskCompleted(
	context.Context, *workflowservice.RespondActivityTaskCompletedRequest,
) (*workflowservice.RespondActivityTaskCompletedResponse, error) {
	return &workflowservice.RespondActivityTaskCompletedResponse{}, nil
}

func (t *temporal) RespondActivityTaskFailed(
	context.Context, *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	return &workflowservice.RespondActivityTaskFailedResponse{}, nil
}

func (t *temporal) RespondActivityTaskCanceled(
	context.Context, *workflowservice.RespondActivityTaskCanceledRequest,
) (*workflowservice.RespondActivityTaskCanceledResponse, error) {
	return &workflowservice.RespondActivityTaskCanceledResponse{}, nil
}

func (t *temporal) ShutdownWorker(context.Context, *workflowservice.ShutdownWorkerRequest) (*workflowservice.ShutdownWorkerResponse, error) {
	return &workflowservice.ShutdownWorkerResponse{}, nil
}

// env is a relay in front of a Temporal stub.
type env struct {
	temporal *temporal
	listener *bufconn.Listener
	registry *prometheus.Registry
	stop     func()
}

// setup holds the settings of an env that tests change.
type setup struct {
	auth    tokens.Authenticator
	keys    *tokens.Keys
	options relay.Options
	logger  *slog.Logger
}

func host(name, pool, set string) tokens.Token {
	return tokens.Token{
		Name: name, Hash: tokens.Hash(name), Scopes: []tokens.Scope{tokens.Executor},
		Binding: tokens.Binding{Executor: name, Pool: pool, Set: set},
	}
}

// someTokens returns tokens of the executors a and b of two pools, of the set s
// with the members s-..., and tokens that a relay refuses.
func someTokens(t testing.TB) *tokens.List {
	t.Helper()
	list := []tokens.Token{host("a", "linux", ""), host("b", "gpu", ""), host("s-1", "linux", "s"), host("t-1", "linux", "t")}
	several := host("s-2", "linux", "s")
	several.Executor = "s-*"
	list = append(list, several)
	poolless := host("poolless", "", "")
	list = append(list, poolless)
	for _, scope := range []tokens.Scope{tokens.Read, tokens.Write, tokens.Admin, tokens.Executor} {
		list = append(list, tokens.Token{Name: string(scope), Hash: tokens.Hash(string(scope)), Scopes: []tokens.Scope{scope}})
	}
	known, err := tokens.NewList(list)
	require.NoError(t, err)
	return known
}

func someKeys(t testing.TB) *tokens.Keys {
	t.Helper()
	keys, err := tokens.ParseKeys(tokens.NewKey())
	require.NoError(t, err)
	return keys
}

func newEnv(t testing.TB, s setup) *env {
	t.Helper()
	w := &env{temporal: &temporal{}, registry: prometheus.NewRegistry()}
	upstream := grpc.NewServer(grpc.UnaryInterceptor(w.temporal.intercept))
	workflowservice.RegisterWorkflowServiceServer(upstream, w.temporal)
	listener := listen()
	go func() { _ = upstream.Serve(listener) }()
	t.Cleanup(upstream.Stop)
	if s.auth == nil {
		s.auth = someTokens(t)
	}
	if s.keys == nil {
		s.keys = someKeys(t)
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.options.Namespace = "drover"
	r, err := relay.New(relay.Deps{
		Temporal: workflowservice.NewWorkflowServiceClient(connect(t, listener, nil, "")),
		Auth:     s.auth, Keys: s.keys, Logger: s.logger, Registry: w.registry,
	}, s.options)
	require.NoError(t, err)
	w.listener = listen()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, w.listener) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(w.stop)
	return w
}

// listen returns a listener in memory: in a bubble, time advances while a call waits.
func listen() *bufconn.Listener { return bufconn.Listen(64 << 10) }

// connect dials with a bearer token; "" means none.
func connect(t testing.TB, listener *bufconn.Listener, config *tls.Config, token string) *grpc.ClientConn {
	t.Helper()
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:relay", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(transport), grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as returns a client with the token of the given name.
func (w *env) as(t testing.TB, name string) workflowservice.WorkflowServiceClient {
	t.Helper()
	return workflowservice.NewWorkflowServiceClient(connect(t, w.listener, nil, name))
}

func pollOf(queue string) *workflowservice.PollActivityTaskQueueRequest {
	return &workflowservice.PollActivityTaskQueueRequest{
		Namespace: "drover", TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
	}
}

// taskOf polls a queue and returns the task token.
func (w *env) taskOf(t testing.TB, name, queue string) []byte {
	t.Helper()
	out, err := w.as(t, name).PollActivityTaskQueue(t.Context(), pollOf(queue))
	require.NoError(t, err)
	require.NotEmpty(t, out.GetTaskToken())
	return out.GetTaskToken()
}

func heartbeatOf(token []byte) *workflowservice.RecordActivityTaskHeartbeatRequest {
	return &workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: token}
}

func payloads(data string) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(data)}}}
}

func requireCode(t testing.TB, code codes.Code, err error, about ...any) {
	t.Helper()
	require.Equal(t, code.String(), status.Code(err).String(), append([]any{err}, about...)...)
}

// callContext returns a context that bounds a call.
func callContext(t testing.TB) context.Context {
	t.Helper()
	return testenv.Context(t)
}

// certificate creates a certificate for relay.test and its authority.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"relay.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
