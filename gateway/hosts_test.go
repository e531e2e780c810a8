package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
)

func TestServer_hosts(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{}, gateway.Options{Hosts: []string{"Drover.Example.com", "gateway:8080", "10.1.2.3"}})
	for host, ok := range map[string]bool{
		"":                     true, // the host that the client connected to
		"localhost":            true,
		"localhost:1234":       true,
		"LOCALHOST.":           true,
		"127.0.0.1:1":          true,
		"[::1]:8080":           true,
		"drover.example.com":   true,
		"drover.example.com:9": true,
		"gateway":              true,
		"10.1.2.3:80":          true,
		"evil.example.com":     false,
		"10.1.2.4":             false,
		"localhost.evil.com":   false,
		"127.0.0.1.evil.com":   false,
		"xdrover.example.com":  false,
	} {
		c := call{path: "/healthz"}
		if host != "" {
			c.header = map[string]string{"Host": host}
		}
		got := c.do(t, base)
		if ok {
			require.Equal(t, http.StatusOK, got.status, host)
			continue
		}
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
	}
}

func TestServer_origins(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{}, gateway.Options{})
	host := strings.TrimPrefix(base, "http://")
	for origin, ok := range map[string]bool{
		base:                     true,
		"https://" + host:        true, // a proxy may terminate TLS
		"http://127.0.0.1:1":     false,
		"http://localhost":       false,
		"http://evil.example":    false,
		"null":                   false,
		"http://" + host + ".de": false,
	} {
		got := call{path: "/api/v1/pools", header: map[string]string{"Origin": origin}}.do(t, base)
		if ok {
			require.Equal(t, http.StatusOK, got.status, origin)
			continue
		}
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
	}
}

func TestServer_request_id(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{}, gateway.Options{})
	given := call{path: "/healthz", header: map[string]string{"X-Request-Id": "abc-1"}}.do(t, base)
	require.Equal(t, "abc-1", given.header.Get("X-Request-Id"))
	for _, bad := range []string{"a b", strings.Repeat("x", 65), "<script>"} {
		made := call{path: "/healthz", header: map[string]string{"X-Request-Id": bad}}.do(t, base)
		require.Regexp(t, "^[a-z0-9]{26}$", made.header.Get("X-Request-Id"))
	}
}
