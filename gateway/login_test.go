package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// oneSession knows one token and one secret.
type oneSession struct{ ended []bool }

func (o *oneSession) Begin(_ context.Context, token, _ string) (string, run.BrowserSession, error) {
	if token != "right" {
		return "", run.BrowserSession{}, run.Errorf(run.CodeUnauthenticated, "the bearer token is not known")
	}
	return "secret", run.BrowserSession{Name: "ana", Expires: time.Now().Add(time.Hour)}, nil
}

func (o *oneSession) Authenticate(_ context.Context, secret string) (tokens.Principal, run.BrowserSession, error) {
	if secret != "secret" || len(o.ended) > 0 {
		return tokens.Principal{}, run.BrowserSession{}, run.Errorf(run.CodeUnauthenticated, "the session has ended: log in again")
	}
	return tokens.Principal{Name: "ana", Scopes: []tokens.Scope{tokens.Write}}, run.BrowserSession{Expires: time.Now().Add(time.Hour)}, nil
}

func (o *oneSession) End(_ context.Context, _ string, everywhere bool) error {
	o.ended = append(o.ended, everywhere)
	return nil
}

func TestServer_sessions_of_browsers(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	sessions := &oneSession{}
	base := serve(t, gateway.Deps{Auth: list, Browsers: sessions}, gateway.Options{})
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
	require.Equal(t, http.StatusNoContent, a.status)
	require.Equal(t, []bool{true}, sessions.ended)
	require.True(t, strings.HasPrefix(a.header.Get("Set-Cookie"), cookie.Name+"=;"), a.header.Get("Set-Cookie"))
	call{path: path, header: with()}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
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

func TestServer_without_logins(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{}, gateway.Options{})
	call{method: http.MethodPost, path: "/api/v1/session", body: `{"token": "right"}`}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
	var s api.Session
	call{path: "/api/v1/session"}.do(t, base).read(t, &s)
	require.Equal(t, "local", s.Subject)
}
