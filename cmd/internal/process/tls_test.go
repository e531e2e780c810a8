package process

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-run/drover/internal/reload"
	"github.com/drover-run/drover/internal/testenv"
)

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.pem, _ = issue(t, name, nil)
	return a
}

func issue(t *testing.T, name string, by *authority) (cert *x509.Certificate, key *ecdsa.PrivateKey, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// write issues a certificate and writes it with its key.
func (a *authority) write(t *testing.T, certFile, keyFile string) {
	t.Helper()
	_, _, cert, key := issue(t, "leaf", a)
	writeFile(t, certFile, cert)
	writeFile(t, keyFile, key)
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func writeFile(t *testing.T, file string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

// listen returns a listener in memory, so that time is virtual while a connection waits.
func listen() *bufconn.Listener { return bufconn.Listen(64 << 10) }

// TestServerTLS replaces the certificate of a listener, one file after the other. A change
// takes effect within the interval of the checks.
func TestServerTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		first, second := newAuthority(t, "first"), newAuthority(t, "second")
		first.write(t, cert, key)
		config, err := ServerTLS(cert, key, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		plain := listen()
		listener := tls.NewListener(plain, config)
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "hello")
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() { _ = listener.Close(); <-served })
		dial := func(a *authority) error {
			conn, err := plain.DialContext(t.Context())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			return tls.Client(conn, &tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1"}).HandshakeContext(t.Context())
		}
		require.NoError(t, dial(first))
		require.Error(t, dial(second))

		_, _, newCert, newKey := issue(t, "leaf", second)
		writeFile(t, cert, newCert)
		<-time.After(reload.Interval)
		require.NoError(t, dial(first), "the key does not match yet")
		writeFile(t, key, newKey[:len(newKey)/2])
		<-time.After(reload.Interval)
		require.NoError(t, dial(first), "the key is not complete yet")
		writeFile(t, key, newKey)
		<-time.After(reload.Interval)
		require.NoError(t, dial(second))
		require.Error(t, dial(first))

		_, err = ServerTLS(cert, filepath.Join(dir, "none"), slog.New(slog.DiscardHandler))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// TestTemporalTLS moves a server from one authority to another: its certificate, and
// the clients that it accepts. The client reads its files again.
func TestTemporalTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key, ca := filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"), filepath.Join(dir, "ca.crt")
		first, second := newAuthority(t, "first"), newAuthority(t, "second")
		first.write(t, cert, key)
		writeFile(t, ca, first.pem)
		var listener atomic.Pointer[bufconn.Listener]
		listener.Store(listen())
		stop := serveHealth(t, listener.Load(), first)

		options, err := profileOptions(envconfig.ClientConfigProfile{
			Address: "127.0.0.1:7233", TLS: &envconfig.ClientConfigTLS{ClientCertPath: cert, ClientKeyPath: key, ServerCACertPath: ca},
		}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return listener.Load().DialContext(ctx) }))
		c, err := client.NewLazyClient(options)
		require.NoError(t, err)
		defer c.Close()
		check := func() error {
			_, err := c.CheckHealth(testenv.Context(t), nil)
			return err
		}
		require.NoError(t, check())

		stop() // its connections end, as at the end of their age
		listener.Store(listen())
		stop = serveHealth(t, listener.Load(), second)
		defer stop()
		require.Error(t, check(), "the old certificate is revoked, and the server's is not known")
		writeFile(t, ca, append(second.pem, first.pem...))
		<-time.After(time.Minute) // several attempts of the client to connect
		require.Error(t, check(), "the old certificate is revoked")
		second.write(t, cert, key)
		testenv.Await(t, func() (bool, string) { // its next attempt
			err := check()
			return err == nil, fmt.Sprint(err)
		})

		_, err = profileOptions(envconfig.ClientConfigProfile{TLS: &envconfig.ClientConfigTLS{ServerCACertPath: filepath.Join(dir, "none")}}, slog.New(slog.DiscardHandler))
		require.Error(t, err)
	})
}

// systemInfo answers the first call of a client.
type systemInfo struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (systemInfo) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

// serveHealth serves the health checks of Temporal for clients of an authority.
func serveHealth(t *testing.T, listener net.Listener, a *authority) (stop func()) {
	t.Helper()
	_, _, certPEM, keyPEM := issue(t, "server", a)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	checks := health.NewServer()
	checks.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, checks)
	workflowservice.RegisterWorkflowServiceServer(server, systemInfo{})
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	return func() { server.Stop(); <-served }
}

func TestAuthorities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ca.crt")
		_, err := Authorities(file, "", slog.New(slog.DiscardHandler))
		require.ErrorIs(t, err, os.ErrNotExist)
		writeFile(t, file, []byte("no certificate"))
		_, err = Authorities(file, "", slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "it has no certificate")
		a := newAuthority(t, "first")
		writeFile(t, file, a.pem)
		current, err := Authorities(file, "relay.test", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.True(t, current().RootCAs.Equal(a.pool()))
		require.Equal(t, "relay.test", current().ServerName)
		second := newAuthority(t, "second")
		writeFile(t, file, second.pem)
		<-time.After(reload.Interval)
		require.True(t, current().RootCAs.Equal(second.pool()))
		system, err := Authorities("", "", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Nil(t, system().RootCAs)
	})
}
