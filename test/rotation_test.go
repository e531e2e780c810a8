package test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestRelay_new_certificate replaces the certificate of a relay, and its authority,
// while an executor runs tasks through it. No process is started again, until the
// relay is killed so that the executor must connect again.
func TestRelay_new_certificate(t *testing.T) {
	t.Parallel()
	parts := harness.StartRelayed(t, "host-8", "shell", "4")
	old := trusted(t, parts.CA)
	require.NoError(t, handshake(t, parts.Address, old))
	graph := tally{dir: t.TempDir(), tasks: 6, steps: 3, pause: "1"}
	id := parts.Submit(graph.spec("new-certificate")).ID
	awaitBegun(t, graph.dir, 2)

	parts.ReplaceCertificate()
	testenv.Await(t, waitTimeout, func() (bool, string) {
		err := handshake(t, parts.Address, trusted(t, parts.CA))
		return err == nil, fmt.Sprint(err)
	})
	require.Error(t, handshake(t, parts.Address, old))
	parts.Processes[harness.Relay].Kill()
	parts.Launch(harness.Relay).AwaitReady()

	r := parts.AwaitPhase(id, "finished", 2*time.Minute)
	graph.check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
	after := tally{dir: t.TempDir(), tasks: 4, steps: 1, pause: "0"}
	id = parts.Submit(after.spec("after-the-new-certificate")).ID
	after.check(t, parts.AwaitPhase(id, "finished", time.Minute), func(task, want string) { parts.AwaitLogs(id, task, want) })
	require.Contains(t, parts.Processes[harness.Executor].Output(), "read a changed file")
}

// trusted returns the certificates in a file, which may be read while it is written.
func trusted(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	return pool
}

func handshake(t *testing.T, address string, roots *x509.CertPool) error {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: harness.RelayName, NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
