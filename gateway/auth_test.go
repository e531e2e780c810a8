package gateway_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
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

// TestServer_tokens_of_one_name: a revocation by name is for all tokens that have it, the
// entry of the token file and the token that a client created before. No client creates a
// token with the name of another subject.
func TestServer_tokens_of_one_name(t *testing.T) {
	t.Parallel()
	store, log := newStore(t), slog.New(slog.DiscardHandler)
	start := func(names ...string) string {
		var entries []tokens.Token
		for _, name := range names {
			entries = append(entries, tokens.Token{Name: name, Hash: tokens.Hash("file-" + name), Scopes: []tokens.Scope{tokens.Admin}})
		}
		list, err := tokens.NewList(entries)
		require.NoError(t, err)
		registry := tokens.NewRegistry(t.Context(), list, store, log)
		registry.UserPrefix = "oidc:"
		return serve(t, gateway.Deps{Auth: registry, Tokens: registry}, gateway.Options{})
	}
	post := func(base, path, body string) answer {
		return call{method: http.MethodPost, path: path, body: body, header: map[string]string{"Authorization": "Bearer file-ops"}}.do(t, base)
	}
	statusOf := func(base, token string) int {
		return call{path: "/api/v1/tokens", header: map[string]string{"Authorization": "Bearer " + token}}.do(t, base).status
	}
	base := start("ops")
	for _, name := range []string{"local", "schedule:nightly", "oidc:ana@example.com"} {
		got := post(base, "/api/v1/tokens", `{"name": "`+name+`", "scopes": ["read"]}`)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
		require.Contains(t, got.body, `is reserved: `)
	}
	got := post(base, "/api/v1/tokens", `{"name": "ci", "scopes": ["admin"]}`)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	var created api.NewToken
	require.NoError(t, json.Unmarshal([]byte(got.body), &created))

	base = start("ops", "ci")
	for _, token := range []string{"file-ci", created.Token, "file-ops"} {
		require.Equal(t, http.StatusOK, statusOf(base, token))
	}
	got = post(base, "/api/v1/tokens/ci/revoke", "{}")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, http.StatusUnauthorized, statusOf(base, "file-ci"))
	require.Equal(t, http.StatusUnauthorized, statusOf(base, created.Token))
	require.Equal(t, http.StatusOK, statusOf(base, "file-ops"))
	other := start("ops", "ci")
	require.Equal(t, http.StatusUnauthorized, statusOf(other, "file-ci"), "also at other gateways")
	require.Equal(t, http.StatusUnauthorized, statusOf(other, created.Token))
}
