package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// oneSession knows one token and one secret.
type oneSession struct{ ended []bool }

func (o *oneSession) Begin(_ context.Context, token, _ string) (tokens.Login, error) {
	if token != "right" {
		return tokens.Login{}, run.Errorf(run.CodeUnauthenticated, "the bearer token is not known")
	}
	return tokens.Login{
		Secret: "secret", Principal: tokens.Principal{Name: "ana", Scopes: []tokens.Scope{tokens.Write}},
		Session: run.BrowserSession{Name: "ana", Expires: time.Now().Add(time.Hour)},
	}, nil
}

func (o *oneSession) Authenticate(_ context.Context, secret string) (tokens.Principal, run.BrowserSession, error) {
	if secret != "secret" || len(o.ended) > 0 {
		return tokens.Principal{}, run.BrowserSession{}, run.Errorf(run.CodeUnauthenticated, "the session has ended: log in again")
	}
	return tokens.Principal{Name: "ana", Scopes: []tokens.Scope{tokens.Write}}, run.BrowserSession{Expires: time.Now().Add(time.Hour)}, nil
}

func (o *oneSession) Recheck(ctx context.Context, secret string) (tokens.Principal, error) {
	p, _, err := o.Authenticate(ctx, secret)
	return p, err
}

func (o *oneSession) Reaffirm(ctx context.Context, secret string) (tokens.Principal, error) {
	return o.Recheck(ctx, secret)
}

func (o *oneSession) BeginIdentity(context.Context, tokens.Grant, string) (tokens.Login, error) {
	return tokens.Login{}, nil
}

func (o *oneSession) End(_ context.Context, _ string, everywhere bool) (tokens.Grant, error) {
	o.ended = append(o.ended, everywhere)
	return tokens.Grant{}, nil
}

func TestServer_sessions_of_browsers(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	sessions := &oneSession{}
	runs := &runtest.Service{ListFunc: func(context.Context, run.ListQuery) (run.Page, error) { return run.Page{}, nil }}
	base := serve(t, gateway.Deps{Runs: runs, Auth: list, Browsers: sessions}, gateway.Options{})
	const path = "/api/v1/session"
	call{path: path}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
	call{method: http.MethodPost, path: path, body: `{"token": "wrong"}`}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
	call{method: http.MethodPost, path: path, body: `{"token": "right"}`, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}.do(t, base).
		problem(t, http.StatusForbidden, run.CodeForbidden)
	a := call{method: http.MethodPost, path: path, body: `{"token": "right"}`}.do(t, base)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.NotContains(t, a.body, "secret")
	require.Contains(t, a.body, `"write"`)
	require.Equal(t, "drover_session", cookie.Name)
	require.False(t, cookie.Secure, "browsers store no secure cookie of a gateway without TLS")

	with := func(more ...string) map[string]string {
		h := map[string]string{"Cookie": cookie.Name + "=" + cookie.Value}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	var s api.Session
	call{path: path, header: with()}.do(t, base).read(t, &s)
	require.Equal(t, "ana", s.Subject)
	require.Equal(t, []string{"write"}, s.Scopes)
	require.False(t, s.ExpiresAt.IsZero())
	require.Equal(t, http.StatusOK, call{path: "/api/v1/runs", header: with()}.do(t, base).status)
	call{path: "/api/v1/tokens", header: with()}.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
	// A page of another origin that makes the browser send the cookie changes nothing.
	call{method: http.MethodPost, path: "/api/v1/runs/" + runID + "/stop", body: "{}", header: with("Sec-Fetch-Site", "cross-site")}.do(t, base).
		problem(t, http.StatusForbidden, run.CodeForbidden)
	// A bearer token decides alone.
	call{path: path, header: with("Authorization", "Bearer wrong")}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
	call{path: path, header: map[string]string{"Cookie": cookie.Name + "=other"}}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)

	call{method: http.MethodDelete, path: path, header: with("Sec-Fetch-Site", "cross-site")}.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
	a = call{method: http.MethodDelete, path: path + "?everywhere=true", header: with()}.do(t, base)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, []bool{true}, sessions.ended)
	require.True(t, strings.HasPrefix(a.header.Get("Set-Cookie"), cookie.Name+"=;"), a.header.Get("Set-Cookie"))
	call{path: path, header: with()}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
}

// TestServer_session_of_roles: the answer has the bindings, by which the web UI knows what
// to offer.
func TestServer_session_of_roles(t *testing.T) {
	t.Parallel()
	bound := roles.Bindings{{Role: roles.Submitter, Groups: []string{"/acme/**"}}, {Role: roles.Viewer, Groups: []string{"/shared/**", "/x/**"}}}
	list, err := tokens.NewList([]tokens.Token{
		{Name: "acme", Hash: tokens.Hash("acme"), Roles: bound}, {Name: "all", Hash: tokens.Hash("all"), Scopes: []tokens.Scope{tokens.Write}},
	})
	require.NoError(t, err)
	base := serve(t, gateway.Deps{Auth: list}, gateway.Options{})
	get := func(token string) answer {
		return call{path: "/api/v1/session", header: map[string]string{"Authorization": "Bearer " + token}}.do(t, base)
	}
	require.JSONEq(t, `{"subject": "acme", "scopes": [], "bindings": [{"role": "submitter", "groups": ["/acme/**"]}, {"role": "viewer", "groups": ["/shared/**", "/x/**"]}]}`, get("acme").body)
	require.JSONEq(t, `{"subject": "all", "scopes": ["write"]}`, get("all").body)
}

func TestServer_limits_logins(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	base := serve(t, gateway.Deps{Auth: list, Browsers: &oneSession{}}, gateway.Options{})
	login := call{method: http.MethodPost, path: "/api/v1/session", body: `{"token": "wrong"}`}
	for range 10 {
		login.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
	}
	a := login.do(t, base)
	a.problem(t, http.StatusTooManyRequests, run.CodeExhausted)
	require.NotEmpty(t, a.header.Get("Retry-After"))
}

func TestServer_behind_a_proxy(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	forwarded := func(client string) call {
		return call{method: http.MethodPost, path: "/api/v1/session", body: `{"token": "right"}`, header: map[string]string{
			"X-Forwarded-For": client, "X-Forwarded-Proto": "https",
		}}
	}
	trusting := serve(t, gateway.Deps{Auth: list, Browsers: &oneSession{}}, gateway.Options{TrustedProxies: []string{"127.0.0.0/8"}})
	a := forwarded("192.0.2.1").do(t, trusting)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, "__Host-drover", cookie.Name)
	require.True(t, cookie.Secure)
	for range 9 {
		require.Equal(t, http.StatusCreated, forwarded("192.0.2.1").do(t, trusting).status)
	}
	forwarded("192.0.2.1").do(t, trusting).problem(t, http.StatusTooManyRequests, run.CodeExhausted)
	require.Equal(t, http.StatusCreated, forwarded("192.0.2.2").do(t, trusting).status, "each client has a limit of its own")

	other := serve(t, gateway.Deps{Auth: list, Browsers: &oneSession{}}, gateway.Options{TrustedProxies: []string{"10.0.0.0/8"}})
	for i := range 10 {
		a = forwarded(fmt.Sprintf("192.0.2.%d", i)).do(t, other)
		require.True(t, strings.HasPrefix(a.header.Get("Set-Cookie"), "drover_session="), a.header.Get("Set-Cookie"))
	}
	forwarded("192.0.2.99").do(t, other).problem(t, http.StatusTooManyRequests, run.CodeExhausted)

	_, err = gateway.New(gateway.Deps{Runs: &runtest.Service{}, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{TrustedProxies: []string{"proxy"}})
	require.ErrorContains(t, err, "neither an address nor a network")
}

func TestServer_without_logins(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{}, gateway.Options{})
	call{method: http.MethodPost, path: "/api/v1/session", body: `{"token": "right"}`}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
	var s api.Session
	call{path: "/api/v1/session"}.do(t, base).read(t, &s)
	require.Equal(t, "local", s.Subject)
}

// TestServer_logins_while_the_provider_is_down: open login pages ask again until the provider
// is back, and then users can log in, also if many of them share an address.
func TestServer_logins_while_the_provider_is_down(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	none, err := tokens.NewList(nil)
	require.NoError(t, err)
	granted, err := roles.ReadPolicy(nil)
	require.NoError(t, err)
	identity.Stop()
	provider := newProvider(t, identity, granted)
	base := serve(t, gateway.Deps{Auth: oidc.WithProvider(provider, none), Browsers: &oneSession{}, Provider: provider}, gateway.Options{})
	login := call{method: http.MethodPost, path: "/api/v1/session/provider", body: "{}"}
	for range 30 {
		login.do(t, base).problem(t, http.StatusServiceUnavailable, run.CodeUnavailable)
	}
	identity.Start(t)
	testenv.Await(t, func() (bool, string) {
		got := login.do(t, base)
		if got.status != http.StatusOK {
			got.problem(t, http.StatusServiceUnavailable, run.CodeUnavailable)
		}
		return got.status == http.StatusOK, got.body
	})
	for range 20 {
		got := login.do(t, base)
		if got.status != http.StatusOK {
			require.Empty(t, got.header.Get("Set-Cookie"))
			got.problem(t, http.StatusTooManyRequests, run.CodeExhausted)
			return
		}
	}
	require.Fail(t, "logins that begin have no limit")
}

// TestServer_without_a_token: anybody may call these operations, so none of them holds much
// memory, and each that begins or ends a login has a bound on its rate.
func TestServer_without_a_token(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	none, err := tokens.NewList(nil)
	require.NoError(t, err)
	granted, err := roles.ReadPolicy(nil)
	require.NoError(t, err)
	provider := newProvider(t, identity, granted)
	tried := 0
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.Extensions["x-scope"] != "none" || method == http.MethodGet {
				continue
			}
			tried++
			base := serve(t, gateway.Deps{Auth: oidc.WithProvider(provider, none), Browsers: &oneSession{}, Provider: provider}, gateway.Options{})
			request := call{method: method, path: path, body: `{"unknown": "` + strings.Repeat("a", 64<<10) + `"}`}
			got := request.do(t, base)
			require.Contains(t, got.problem(t, http.StatusRequestEntityTooLarge, run.CodeTooLarge).Detail, "65536 bytes", path)
			if op.OperationID == "endSession" { // it reads no body
				continue
			}
			request.header = map[string]string{"Content-Encoding": "gzip"}
			request.body = packed(t, request.body)
			got = request.do(t, base)
			got.problem(t, http.StatusUnsupportedMediaType, run.CodeUnsupportedMedia)
			got = request.held(t, base, func() {})
			got.problem(t, http.StatusUnsupportedMediaType, run.CodeUnsupportedMedia)
			request.header, request.body = nil, `{"unknown": "`+strings.Repeat("a", 64<<10)+`"}`
			got = request.held(t, base, func() {}) // its length is not known before
			got.problem(t, http.StatusRequestEntityTooLarge, run.CodeTooLarge)
			request.body = "{}"
			for range 20 {
				got = request.do(t, base)
			}
			got.problem(t, http.StatusTooManyRequests, run.CodeExhausted)
			require.NotEmpty(t, got.header.Get("Retry-After"), path)
		}
	}
	require.Equal(t, 4, tried)
}
