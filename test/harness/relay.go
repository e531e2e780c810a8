package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Relay runs after StartRelayed and StartRelayedAt.
const Relay Part = "relay"

// RelayName is the DNS name in the certificate of the relay.
const RelayName = "relay.test"

// Relayed is a Drover in parts whose executor reaches Temporal only through a
// relay, over TLS.
type Relayed struct {
	*Parts
	Address   string // of the relay
	Telemetry string // of the relay
	CA        string // file with the CA certificate of the relay
	Keys      string // file with the keys of the relay
}

// StartRelayed starts all parts. The executor has the id and serves the pool, and
// its token is bound to both.
func StartRelayed(t testing.TB, id, pool, slots string) *Relayed {
	t.Helper()
	r := startRelayed(t, loopback, slots)
	token := filepath.Join(filepath.Dir(r.Keys), "executor.token")
	require.NoError(t, os.WriteFile(token, []byte(r.BoundToken(id, id, pool)), 0o600))
	r.env[Executor] = append(r.env[Executor],
		"DROVER_TEMPORAL__ADDRESS="+FreeAddress(t), // no server listens there
		"DROVER_EXECUTOR__ID="+id, "DROVER_EXECUTOR__POOL="+pool, "DROVER_EXECUTOR__TOKEN_FILE="+token,
		"DROVER_EXECUTOR__RELAY__ADDRESS="+r.Address, "DROVER_EXECUTOR__RELAY__CA_FILE="+r.CA, "DROVER_EXECUTOR__RELAY__SERVER_NAME="+RelayName,
	)
	r.Launch(Executor).AwaitReady()
	r.AwaitExecutor("online")
	return r
}

// StartRelayedAt starts all parts except the executor. Gateway and relay listen
// on host, an address of this machine that containers and others can reach.
func StartRelayedAt(t testing.TB, host string) *Relayed {
	t.Helper()
	r := startRelayed(t, host, "1")
	r.env[Fleet] = append(r.env[Fleet], "DROVER_FLEET__BOOTSTRAP__INSECURE_GATEWAY=true") // the gateway has no certificate
	return r
}

func startRelayed(t testing.TB, host, slots string) *Relayed {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "relay.keys")
	process := Start(t, dir, nil, "keys", "create", "relay", "--file", keys)
	<-process.done
	require.NoError(t, process.err, process.tail())
	p := startPartsAt(t, host, slots, map[Part][]string{Gateway: {"DROVER_GATEWAY__RELAY_KEY_FILE=" + keys}}, nil, nil, Temporal, Gateway, Control)
	r := &Relayed{Parts: p, Address: freeAddressOf(t, host), Telemetry: FreeAddress(t), CA: filepath.Join(dir, "relay.crt"), Keys: keys}
	WriteCertificate(t, r.CA, filepath.Join(dir, "relay.key"))
	p.env[Relay] = []string{
		"DROVER_TEMPORAL__ADDRESS=" + p.temporal, "DROVER_TELEMETRY__LISTEN=" + r.Telemetry,
		"DROVER_RELAY__LISTEN=" + r.Address, "DROVER_RELAY__TOKEN_FILE=" + filepath.Join(p.Dir, "tokens.yaml"), "DROVER_RELAY__KEY_FILE=" + keys,
		"DROVER_RELAY__TLS_CERT_FILE=" + r.CA, "DROVER_RELAY__TLS_KEY_FILE=" + filepath.Join(dir, "relay.key"),
	}
	p.Launch(Relay).AwaitReady()
	return r
}

// BoundToken creates an executor token that is bound to an id and a pool.
func (r *Relayed) BoundToken(name, executor, pool string) string {
	r.t.Helper()
	return r.newToken(filepath.Join(r.Dir, "tokens.yaml"), name, "executor", "--executor", executor, "--pool", pool)
}

// LaunchFleets starts a fleet worker that installs executors on instances over
// SSH. The executors keep all files below dir.
func (r *Relayed) LaunchFleets(dir string) *Process {
	r.t.Helper()
	r.env[Fleet] = append(r.env[Fleet],
		"DROVER_FLEET__BOOTSTRAP__KEY_FILE="+r.Keys, "DROVER_FLEET__BOOTSTRAP__GATEWAY_URL="+r.Server, "DROVER_FLEET__BOOTSTRAP__DIR="+dir,
		"DROVER_FLEET__BOOTSTRAP__RELAY__ADDRESS="+r.Address, "DROVER_FLEET__BOOTSTRAP__RELAY__CA_FILE="+r.CA,
		"DROVER_FLEET__BOOTSTRAP__RELAY__SERVER_NAME="+RelayName,
	)
	process := r.Launch(Fleet)
	process.AwaitReady()
	return process
}

// ReplaceCertificate replaces the certificate of the relay, which is its own
// authority, in its files.
func (r *Relayed) ReplaceCertificate() {
	r.t.Helper()
	WriteCertificate(r.t, r.CA, filepath.Join(filepath.Dir(r.CA), "relay.key"))
}

// Journals returns the journals of an executor, which contain the tokens of its
// tasks.
func (r *Relayed) Journals() []string {
	r.t.Helper()
	var texts []string
	require.NoError(r.t, filepath.WalkDir(filepath.Join(r.Dir, "executor"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, string(text))
		return err
	}))
	return texts
}

// WriteCertificate writes a self-signed certificate for RelayName and loopback, and
// its key.
func WriteCertificate(t testing.TB, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{RelayName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
