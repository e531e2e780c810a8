package kill

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
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
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 6, Steps: 3, Pause: "1"}
	id := parts.Submit(graph.Spec("new-certificate")).ID
	harness.AwaitBegun(t, graph.Dir, 2)

	parts.ReplaceCertificate()
	testenv.Await(t, func() (bool, string) {
		err := handshake(t, parts.Address, trusted(t, parts.CA))
		return err == nil, fmt.Sprint(err)
	})
	require.Error(t, handshake(t, parts.Address, old))
	parts.Processes[harness.Relay].Kill()
	parts.Launch(harness.Relay).AwaitReady()

	r := parts.AwaitPhase(id, "finished")
	graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
	after := harness.Tally{Dir: t.TempDir(), Tasks: 4, Steps: 1, Pause: "0"}
	id = parts.Submit(after.Spec("after-the-new-certificate")).ID
	after.Check(t, parts.AwaitPhase(id, "finished"), func(task, want string) { parts.AwaitLogs(id, task, want) })
	require.Contains(t, parts.Processes[harness.Executor].Output(), "read a changed file")
}

// TestGateway_new_certificate does the same with the gateway of an executor, whose
// task runs meanwhile.
func TestGateway_new_certificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, address := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), harness.FreeAddress(t)
	harness.WriteCertificate(t, cert, key)
	parts := harness.StartParts(t, "1", map[harness.Part][]string{harness.Gateway2: {
		"DROVER_GATEWAY__LISTEN=" + address, "DROVER_GATEWAY__TLS_CERT_FILE=" + cert, "DROVER_GATEWAY__TLS_KEY_FILE=" + key,
	}})
	parts.Launch(harness.Gateway2).AwaitReady()
	executor := harness.Start(t, parts.Dir, []string{
		"DROVER_TEMPORAL__ADDRESS=" + parts.Temporal(), "DROVER_EXECUTOR__DRIVER=shell", "DROVER_EXECUTOR__TOKEN_FILE=" + filepath.Join(parts.Dir, "executor.token"),
		"DROVER_EXECUTOR__GATEWAY_URL=https://" + address, "DROVER_EXECUTOR__GATEWAY_CA_FILE=" + cert,
	}, "start", "executor", "--id", "secure", "--pool", "secure", "--state-dir", filepath.Join(dir, "state"))
	executor.AwaitReady()
	old := trusted(t, cert)
	id := parts.Submit(fmt.Sprintf("name: secure\ngroup: /test/certificates\ntasks: {a: {pool: secure, steps: [{run: 'touch %[1]s/begun; until test -e %[1]s/end; do sleep 0.1; done; echo done'}]}}\n", dir)).ID
	testenv.Await(t, func() (bool, string) {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil, fmt.Sprint(err)
	})

	harness.WriteCertificate(t, cert, key)
	testenv.Await(t, func() (bool, string) {
		err := handshake(t, address, trusted(t, cert))
		return err == nil, fmt.Sprint(err)
	})
	require.Error(t, handshake(t, address, old))
	parts.Processes[harness.Gateway2].Kill()
	parts.Launch(harness.Gateway2).AwaitReady()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	require.Equal(t, api.ResultSuccess, parts.AwaitPhase(id, api.PhaseFinished).Result)
	parts.AwaitLogs(id, "a", "done\n")
	require.Contains(t, executor.Output(), "read a changed file")
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
