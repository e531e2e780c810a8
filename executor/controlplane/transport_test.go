package controlplane_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/controlplane"
	"github.com/drover-run/drover/run"
)

// TestClient_authorities replaces the authorities that a client trusts, while it has
// a connection.
func TestClient_authorities(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	right, wrong := x509.NewCertPool(), x509.NewCertPool()
	right.AddCert(server.Certificate())
	var trusted atomic.Pointer[x509.CertPool]
	c, err := controlplane.New(server.URL, func() string { return "" }, controlplane.Options{Authorities: trusted.Load})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, pool := range []*x509.CertPool{wrong, right, wrong, nil, right} {
		trusted.Store(pool)
		_, err := c.ClaimStates(t.Context(), "e", nil)
		if pool == right {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		require.ErrorContains(t, err, "certificate")
	}
}
