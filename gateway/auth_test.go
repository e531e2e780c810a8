package gateway_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func tokens(t *testing.T) *gateway.Tokens {
	t.Helper()
	var list []gateway.Token
	for _, s := range []gateway.Scope{gateway.ScopeRead, gateway.ScopeWrite, gateway.ScopeAdmin, gateway.ScopeExecutor} {
		list = append(list, gateway.Token{Name: string(s), Hash: gateway.HashToken("secret-" + string(s)), Scopes: []gateway.Scope{s}})
	}
	set, err := gateway.NewTokens(list)
	require.NoError(t, err)
	return set
}

// Every call of the contract is made with every token: whether it is let
// through depends on its scope alone.
func TestServer_scopes(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"none":     {"", "wrong", "read", "write", "admin", "executor"},
		"read":     {"read", "write", "admin"},
		"write":    {"write", "admin"},
		"admin":    {"admin"},
		"executor": {"executor", "admin"},
	}
	base := serve(t, gateway.Deps{Desk: &runtest.Desk{}, Auth: tokens(t)}, gateway.Options{})
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			for _, token := range []string{"", "wrong", "read", "write", "admin", "executor"} {
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
	base := serve(t, gateway.Deps{Auth: tokens(t)}, gateway.Options{})
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

func TestNewTokens_refuses(t *testing.T) {
	t.Parallel()
	good := gateway.Token{Name: "a", Hash: gateway.HashToken("x"), Scopes: []gateway.Scope{gateway.ScopeRead}}
	for want, change := range map[string]func(*gateway.Token){
		"no name":   func(t *gateway.Token) { t.Name = "" },
		"hash":      func(t *gateway.Token) { t.Hash = "hunter2" },
		"no scopes": func(t *gateway.Token) { t.Scopes = nil },
		"root":      func(t *gateway.Token) { t.Scopes = []gateway.Scope{"root"} },
		"twice":     func(*gateway.Token) {},
	} {
		bad := good
		if want != "twice" {
			bad.Name = "b"
		}
		change(&bad)
		_, err := gateway.NewTokens([]gateway.Token{good, bad})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestNewToken_is_random(t *testing.T) {
	t.Parallel()
	a, b := gateway.NewToken(), gateway.NewToken()
	require.NotEqual(t, a, b)
	require.Greater(t, len(a), 40)
}

func TestTokenFile_reloads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	entry := func(token string) string {
		return "- name: me\n  hash: " + gateway.HashToken(token) + "\n  scopes: [read]\n"
	}
	write(entry("one"))
	file, err := gateway.OpenTokenFile(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	p, ok := file.Authenticate("one")
	require.True(t, ok)
	require.Equal(t, gateway.Principal{Name: "me", Scopes: []gateway.Scope{gateway.ScopeRead}}, p)

	write("- name: [")
	knows := func(token string) func() (bool, string) {
		return func() (bool, string) {
			_, ok := file.Authenticate(token)
			return ok, "not known yet: " + token
		}
	}
	testenv.Await(t, 5*time.Second, knows("one")) // a bad file changes nothing
	write(entry("two") + "# longer\n")
	testenv.Await(t, 5*time.Second, knows("two"))
	_, ok = file.Authenticate("one")
	require.False(t, ok)
}

func TestOpenTokenFile_refuses(t *testing.T) {
	t.Parallel()
	_, err := gateway.OpenTokenFile(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(path, []byte("- {name: a, token: hunter2}\n"), 0o600))
	_, err = gateway.OpenTokenFile(path, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "token")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestNew_without_tokens(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:8080": true, "127.9.9.9:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:80": false, "drover.example.com:80": false,
	} {
		_, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{Address: address})
		require.Equal(t, ok, err == nil, address)
		_, err = gateway.New(gateway.Deps{Runs: &runtest.Service{}, Logger: slog.New(slog.DiscardHandler), Auth: tokens(t)}, gateway.Options{Address: address})
		require.NoError(t, err, address)
	}
}
