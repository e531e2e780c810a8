package gateway_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func testTokens(t *testing.T) *tokens.List {
	t.Helper()
	var list []tokens.Token
	for _, s := range []tokens.Scope{tokens.Read, tokens.Write, tokens.Exec, tokens.Admin, tokens.Executor} {
		list = append(list, tokens.Token{Name: string(s), Hash: tokens.Hash("secret-" + string(s)), Scopes: []tokens.Scope{s}})
	}
	known, err := tokens.NewList(list)
	require.NoError(t, err)
	return known
}

// Calls every operation of the contract with every token: the scope of the token
// alone decides whether the call is allowed.
func TestServer_scopes(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"none":     {"", "wrong", "read", "write", "exec", "admin", "executor"},
		"read":     {"read", "write", "admin"},
		"write":    {"write", "admin"},
		"exec":     {"exec", "admin"},
		"admin":    {"admin"},
		"executor": {"executor", "admin"},
	}
	base := serve(t, gateway.Deps{ExecutorAPI: &runtest.ExecutorAPI{}, Auth: testTokens(t)}, gateway.Options{})
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			for _, token := range []string{"", "wrong", "read", "write", "exec", "admin", "executor"} {
				t.Run(op.OperationID+"/"+token, func(t *testing.T) {
					t.Parallel()
					c := call{method: method, path: strings.NewReplacer("{id}", runID, "{task}", "a", "{name}", "p").Replace(path)}
					if token != "" {
						c.header = map[string]string{"Authorization": "Bearer secret-" + token}
					}
					got := c.do(t, base)
					switch {
					case slices.Contains(allowed[op.Extensions["x-scope"].(string)], token):
						require.NotContains(t, []int{401, 403}, got.status, got.body)
					case token == "" || token == "wrong":
						got.problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
						require.Contains(t, got.header.Get("WWW-Authenticate"), "Bearer")
					default:
						got.problem(t, http.StatusForbidden, run.CodeForbidden)
					}
				})
			}
		}
	}
}

func TestServer_authorization_header(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Auth: testTokens(t)}, gateway.Options{})
	for header, status := range map[string]int{
		"Bearer secret-read":   http.StatusOK,
		"bearer  secret-read":  http.StatusOK,
		"Bearer":               http.StatusUnauthorized,
		"Bearer ":              http.StatusUnauthorized,
		"secret-read":          http.StatusUnauthorized,
		"Basic c2VjcmV0":       http.StatusUnauthorized,
		"Bearer secret-rea":    http.StatusUnauthorized,
		"Bearer secret-read x": http.StatusUnauthorized,
	} {
		got := call{path: "/api/v1/pools", header: map[string]string{"Authorization": header}}.do(t, base)
		require.Equal(t, status, got.status, header)
		require.NotContains(t, got.body, "secret", header)
	}
}

func TestNew_without_tokens(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:8080": true, "127.9.9.9:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:80": false, "drover.example.com:80": false,
	} {
		_, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{Address: address})
		require.Equal(t, ok, err == nil, address)
		_, err = gateway.New(gateway.Deps{Runs: &runtest.Service{}, Logger: slog.New(slog.DiscardHandler), Auth: testTokens(t)}, gateway.Options{Address: address})
		require.NoError(t, err, address)
	}
}
