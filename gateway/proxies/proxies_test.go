package proxies_test

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway/proxies"
)

func TestTrusted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		trusted, forwarded []string
		peer, proto        string
		tls                bool
		address            string
		secure             bool
	}{
		"no_proxies":              {peer: "192.0.2.1:99", forwarded: []string{"198.51.100.7"}, proto: "https", address: "192.0.2.1"},
		"direct_TLS":              {peer: "192.0.2.1:99", tls: true, address: "192.0.2.1", secure: true},
		"trusted_proxy":           {trusted: []string{"192.0.2.0/24"}, peer: "192.0.2.1:99", forwarded: []string{"198.51.100.7"}, proto: "https", address: "198.51.100.7", secure: true},
		"trusted_address":         {trusted: []string{"::1", "127.0.0.1"}, peer: "[::1]:99", forwarded: []string{"198.51.100.7"}, proto: "http", address: "198.51.100.7"},
		"other_client":            {trusted: []string{"10.0.0.0/8"}, peer: "192.0.2.1:99", forwarded: []string{"198.51.100.7"}, proto: "https", address: "192.0.2.1"},
		"the_client_adds_headers": {trusted: []string{"192.0.2.0/24"}, peer: "192.0.2.1:99", forwarded: []string{"203.0.113.9, 198.51.100.7", "192.0.2.5"}, proto: "https, http", address: "198.51.100.7"},
		"not_an_address":          {trusted: []string{"192.0.2.0/24"}, peer: "192.0.2.1:99", forwarded: []string{"<script>"}, address: "192.0.2.1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trusted, err := proxies.Parse(tt.trusted)
			require.NoError(t, err)
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = tt.peer
			for _, f := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			if tt.proto != "" {
				r.Header.Set("X-Forwarded-Proto", tt.proto)
			}
			if tt.tls {
				r.TLS = &tls.ConnectionState{}
			}
			require.Equal(t, tt.address, trusted.Addresses()(r))
			require.Equal(t, tt.secure, trusted.Secure(r))
		})
	}
}

func TestParse_faults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "proxy.example.com", "10.0.0.0/33", "10.0.0.1:80"} {
		_, err := proxies.Parse([]string{text})
		require.ErrorContains(t, err, "neither an address nor a network", text)
	}
}
