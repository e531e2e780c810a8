package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync"
)

// trusting is a transport that trusts certificate authorities which may be
// replaced. New connections trust the current ones.
type trusting struct {
	authorities func() *x509.CertPool

	mu        sync.Mutex
	trusted   *x509.CertPool // by the transport
	transport *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *trusting) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(r)
}

// CloseIdleConnections is called by http.Client and Client.Close.
func (t *trusting) CloseIdleConnections() { t.current().CloseIdleConnections() }

func (t *trusting) current() *http.Transport {
	authorities := t.authorities()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.transport == nil || authorities != t.trusted {
		if t.transport != nil {
			t.transport.CloseIdleConnections() // those in use are closed when they were idle for a minute
		}
		t.trusted, t.transport = authorities, newTransport()
		t.transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	}
	return t.transport
}
