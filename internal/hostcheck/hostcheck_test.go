package hostcheck_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/hostcheck"
)

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// statusOf returns the status of a request over a connection with the given local
// address.
func statusOf(t *testing.T, h http.Handler, local, host, origin string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	address, err := net.ResolveTCPAddr("tcp", local)
	require.NoError(t, err)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(address)))
	r.Host = host
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestHosts_Handler(t *testing.T) {
	t.Parallel()
	h := hostcheck.New("UI.example.com.", "other:8080", "").Handler(http.HandlerFunc(ok))
	for _, c := range []struct {
		local, host, origin string
		ok                  bool
	}{
		{"127.0.0.1:80", "localhost:80", "", true},
		{"127.0.0.1:80", "ui.example.com:443", "", true},
		{"127.0.0.1:80", "other", "", true},
		{"127.0.0.1:80", "other", "https://other", true},
		{"192.0.2.1:80", "192.0.2.1", "", true},
		{"192.0.2.1:80", "192.0.2.2", "", false},
		{"192.0.2.1:80", "[::ffff:192.0.2.1]:80", "", true},
		{"127.0.0.1:80", "evil.example", "", false},
		{"127.0.0.1:80", "0.0.0.0:80", "", false},
		{"127.0.0.1:80", "", "", false},
		{"127.0.0.1:80", "localhost", "http://evil.example", false},
		{"127.0.0.1:80", "localhost", "null", false},
		{"127.0.0.1:80", "localhost", "http://localhost:81", false},
	} {
		require.Equal(t, c.ok, statusOf(t, h, c.local, c.host, c.origin) == http.StatusNoContent, c)
	}
}

// TestLoopbackHandler checks that requests over loopback must use loopback names,
// since only DNS rebinding leads to another. Requests over the network may use any
// name, since scrapers use the names in their configuration.
func TestLoopbackHandler(t *testing.T) {
	t.Parallel()
	h := hostcheck.LoopbackHandler(http.HandlerFunc(ok))
	for _, c := range []struct {
		local, host, origin string
		ok                  bool
	}{
		{"127.0.0.1:9090", "localhost:9090", "", true},
		{"[::1]:9090", "[::1]:9090", "", true},
		{"127.0.0.1:9090", "evil.example", "", false},
		{"127.0.0.1:9090", "localhost:9090", "http://evil.example", false},
		{"192.0.2.1:9090", "host-7.example.com:9090", "", true},
		{"192.0.2.1:9090", "host-7.example.com:9090", "http://evil.example", false},
	} {
		require.Equal(t, c.ok, statusOf(t, h, c.local, c.host, c.origin) == http.StatusNoContent, c)
	}
}
