package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

const browserAccept = "text/html,application/xhtml+xml,*/*;q=0.8"

// get makes a request as a browser, and follows no redirect.
func get(t *testing.T, address string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", browserAccept)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, header: response.Header, body: string(data)}
}

func TestServer_base_path(t *testing.T) {
	t.Parallel()
	runs := &runtest.Service{ListFunc: func(context.Context, run.ListQuery) (run.Page, error) { return run.Page{}, nil }}
	const page = `<div id="root">`
	for _, tt := range []struct {
		base, path string
		status     int
		contains   string // in the body, or in Location
	}{
		{base: "", path: "/", status: http.StatusOK, contains: page},
		{base: "", path: "/healthz", status: http.StatusOK, contains: "ok"},
		{base: "", path: "/api/v1/runs", status: http.StatusOK, contains: `"runs"`},
		{base: "", path: "/drover/api/v1/runs", status: http.StatusOK, contains: page},

		{base: "/drover", path: "/drover/", status: http.StatusOK, contains: page},
		{base: "/drover", path: "/drover/runs/" + runID + "/tasks/build.js", status: http.StatusOK, contains: page},
		{base: "/drover", path: "/drover/runs/x/tasks/a%2Fb", status: http.StatusOK, contains: page},
		{base: "/drover", path: "/drover/api/v1/runs?limit=5", status: http.StatusOK, contains: `"runs"`},
		{base: "/drover", path: "/drover/api/v1/unknown.path", status: http.StatusNotFound, contains: "no such path"},
		{base: "/drover", path: "/drover/healthz", status: http.StatusOK, contains: "ok"},
		{base: "/drover", path: "/drover/readyz", status: http.StatusOK, contains: "ok"},
		{base: "/drover", path: "/drover/metrics", status: http.StatusOK, contains: "drover_gateway"},
		{base: "/drover", path: "/drover/schemas/run.json", status: http.StatusOK, contains: "$schema"},
		{base: "/drover", path: "/drover/openapi.yaml", status: http.StatusOK, contains: "openapi"},
		{base: "/drover", path: "/drover/icon.svg", status: http.StatusOK, contains: "<svg"},
		{base: "/drover", path: "/drover/assets/missing.js", status: http.StatusNotFound, contains: "no such path"},

		{base: "/drover", path: "/drover", status: http.StatusFound, contains: "/drover/"},
		{base: "/drover", path: "/drover?phase=open", status: http.StatusFound, contains: "/drover/?phase=open"},
		{base: "/drover", path: "/", status: http.StatusFound, contains: "/drover/runs"},

		// Of load balancers, executors, and proxies that remove the base path.
		{base: "/drover", path: "/healthz", status: http.StatusOK, contains: "ok"},
		{base: "/drover", path: "/readyz", status: http.StatusOK, contains: "ok"},
		{base: "/drover", path: "/api/v1/runs", status: http.StatusOK, contains: `"runs"`},
		{base: "/drover", path: "/runs", status: http.StatusOK, contains: page},
		{base: "/drover", path: "/drovers/healthz.txt", status: http.StatusNotFound, contains: "no such path"},

		{base: "/ci/drover", path: "/ci/drover/api/v1/runs", status: http.StatusOK, contains: `"runs"`},
		{base: "/ci/drover", path: "/ci/drover", status: http.StatusFound, contains: "/ci/drover/"},
	} {
		t.Run(tt.base+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			got := get(t, serve(t, gateway.Deps{Runs: runs}, gateway.Options{BasePath: tt.base})+tt.path)
			require.Equal(t, tt.status, got.status, got.body)
			if tt.status == http.StatusFound {
				require.Equal(t, tt.contains, got.header.Get("Location"))
				return
			}
			require.Contains(t, got.body, tt.contains)
		})
	}
}

// No header of a client moves the gateway.
func TestServer_base_path_of_headers(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/drover"} {
		server := serve(t, gateway.Deps{}, gateway.Options{BasePath: base, TrustedProxies: []string{"127.0.0.0/8"}})
		got := call{path: base + "/runs", header: map[string]string{"Accept": browserAccept, "X-Forwarded-Prefix": "/evil"}}.do(t, server)
		require.Equal(t, http.StatusOK, got.status)
		require.NotContains(t, got.body, "evil")
		require.Contains(t, got.body, `<meta name="drover-base" content="`+base+`" />`)
		require.Contains(t, got.header.Get("Content-Security-Policy"), "base-uri 'none'")
	}
}

// The checks of hosts and origins come before the redirects.
func TestServer_base_path_checks_hosts(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{}, gateway.Options{BasePath: "/drover", Hosts: []string{"ci.example.com"}})
	for _, path := range []string{"/", "/drover", "/drover/", "/drover/api/v1/runs"} {
		call{path: path, header: map[string]string{"Host": "evil.example.com"}}.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
	}
	call{path: "/drover/api/v1/links", header: map[string]string{"Origin": "https://evil.example.com"}}.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
	require.Equal(t, http.StatusOK, call{path: "/drover/api/v1/links", header: map[string]string{"Host": "ci.example.com", "Origin": "https://ci.example.com"}}.do(t, base).status)
}

func TestServer_base_path_of_locations(t *testing.T) {
	t.Parallel()
	runs := &runtest.Service{RestartFunc: func(context.Context, run.RestartRequest) (run.Run, error) {
		return run.Run{ID: "01jd0000000000000000000001"}, nil
	}}
	base := serve(t, gateway.Deps{Runs: runs}, gateway.Options{BasePath: "/drover"})
	for _, prefix := range []string{"/drover", ""} {
		got := call{method: http.MethodPost, path: prefix + "/api/v1/runs/" + runID + "/restart", body: `{"from": "start"}`}.do(t, base)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		require.Equal(t, "/drover/api/v1/runs/01jd0000000000000000000001", got.header.Get("Location"))
	}
}

// proxy is a reverse proxy with TLS that passes the paths of its servers on, or removes
// what comes before a path.
func proxy(t *testing.T, servers map[string]string, strip bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for prefix, server := range servers {
		to, err := url.Parse(server)
		require.NoError(t, err)
		var handler http.Handler = &httputil.ReverseProxy{
			Transport: &http.Transport{DisableKeepAlives: true},
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.SetXForwarded()
				r.Out.Host = r.In.Host
			},
		}
		if strip {
			handler = http.StripPrefix(prefix, handler)
		}
		mux.Handle(prefix+"/", handler)
	}
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	return server
}

// ownSession knows one token and a secret of its own.
type ownSession struct {
	secret string
	ended  bool
}

func (o *ownSession) login() tokens.Login {
	return tokens.Login{
		Secret: o.secret, Principal: tokens.Principal{Name: "ana", Scopes: []tokens.Scope{tokens.Write}}, Session: run.BrowserSession{Expires: time.Now().Add(time.Hour)},
	}
}

func (o *ownSession) Begin(context.Context, string, string) (tokens.Login, error) {
	return o.login(), nil
}

func (o *ownSession) BeginIdentity(context.Context, tokens.Grant, string) (tokens.Login, error) {
	return o.login(), nil
}

func (o *ownSession) Authenticate(_ context.Context, secret string) (tokens.Principal, run.BrowserSession, error) {
	if secret != o.secret || o.ended {
		return tokens.Principal{}, run.BrowserSession{}, run.Errorf(run.CodeUnauthenticated, "the session has ended: log in again")
	}
	return o.login().Principal, o.login().Session, nil
}

func (o *ownSession) Recheck(ctx context.Context, secret string) (tokens.Principal, error) {
	p, _, err := o.Authenticate(ctx, secret)
	return p, err
}

func (o *ownSession) Reaffirm(ctx context.Context, secret string) (tokens.Principal, error) {
	return o.Recheck(ctx, secret)
}

func (o *ownSession) End(context.Context, string, bool) (tokens.Grant, error) {
	o.ended = true
	return tokens.Grant{}, nil
}

// Two gateways of one host have sessions of their own, also if one has the root.
func TestServer_base_path_of_sessions(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	options := func(base string) gateway.Options {
		return gateway.Options{BasePath: base, TrustedProxies: []string{"127.0.0.0/8"}}
	}
	servers, sessions := map[string]string{}, map[string]*ownSession{}
	for _, base := range []string{"", "/a", "/a/b", "/ab"} {
		sessions[base] = &ownSession{secret: "secret of " + strings.ReplaceAll(base, "/", "-")}
		servers[base] = serve(t, gateway.Deps{Auth: list, Browsers: sessions[base]}, options(base))
	}
	front := proxy(t, servers, false)
	browser := front.Client()
	browser.Transport.(*http.Transport).DisableKeepAlives = true
	browser.Jar, err = cookiejar.New(nil)
	require.NoError(t, err)
	request := func(method, path string) answer {
		t.Helper()
		body := ""
		if method == http.MethodPost {
			body = `{"token": "right"}`
		}
		r, err := http.NewRequestWithContext(t.Context(), method, front.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := browser.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return answer{status: response.StatusCode, header: response.Header, body: string(data)}
	}
	names := map[string]string{"": "__Host-drover", "/a": "__Secure-drover~a", "/a/b": "__Secure-drover~a~b", "/ab": "__Secure-drover~ab"}
	for base := range servers {
		got := request(http.MethodPost, base+"/api/v1/session")
		require.Equal(t, http.StatusCreated, got.status, got.body)
		cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
		require.NoError(t, err)
		require.Equal(t, names[base], cookie.Name)
		require.True(t, cookie.Secure && cookie.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
		require.Empty(t, cookie.Domain)
		if base == "" {
			require.Equal(t, "/", cookie.Path)
		} else {
			require.Equal(t, base, cookie.Path)
		}
	}
	for base := range servers {
		require.Equal(t, http.StatusOK, request(http.MethodGet, base+"/api/v1/session").status, base)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/other/", nil)
	require.NoError(t, err)
	require.Len(t, browser.Jar.Cookies(r.URL), 1, "only the gateway at the root has its cookie at other paths")

	require.Equal(t, http.StatusOK, request(http.MethodDelete, "/a/api/v1/session").status)
	for base := range servers {
		want := http.StatusOK
		if base == "/a" {
			want = http.StatusUnauthorized
		}
		require.Equal(t, want, request(http.MethodGet, base+"/api/v1/session").status, base)
		require.Equal(t, base == "/a", sessions[base].ended, base)
	}
}

// A proxy that removes the base path has the same pages, and no endless redirect.
func TestServer_base_path_that_a_proxy_removes(t *testing.T) {
	t.Parallel()
	gatewayURL := serve(t, gateway.Deps{}, gateway.Options{BasePath: "/drover", TrustedProxies: []string{"127.0.0.0/8"}})
	front := proxy(t, map[string]string{"/drover": gatewayURL}, true)
	browser := front.Client()
	browser.Transport.(*http.Transport).DisableKeepAlives = true
	for _, path := range []string{"/drover", "/drover/", "/drover/runs/" + runID} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Accept", browserAccept)
		response, err := browser.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, path)
		require.Contains(t, string(body), `content="/drover"`)
		require.True(t, strings.HasPrefix(response.Request.URL.Path, "/drover/"), response.Request.URL.Path)
	}
}

// The provider sends browsers back below the base path, and no login leaves it.
func TestServer_base_path_of_provider_logins(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	provider, err := oidc.New(oidc.Options{Issuer: identity.Issuer, Name: "test", ClientID: testenv.IdentityClient, SubjectClaim: "email"})
	require.NoError(t, err)
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	deps := gateway.Deps{Auth: list, Browsers: &ownSession{}, Provider: provider}
	begin := func(base, returnTo string) answer {
		t.Helper()
		body, err := json.Marshal(api.ProviderLogin{ReturnTo: returnTo})
		require.NoError(t, err)
		server := serve(t, deps, gateway.Options{BasePath: base, Hosts: []string{"ci.example.com"}, SecureCookies: true})
		return call{method: http.MethodPost, path: base + "/api/v1/session/provider", body: string(body), header: map[string]string{"Host": "ci.example.com"}}.do(t, server)
	}
	for base, want := range map[string]string{"": "https://ci.example.com/login/callback", "/drover": "https://ci.example.com/drover/login/callback"} {
		for _, page := range []string{"", base + "/", base + "/runs?phase=open", base + "/runs/x/tasks/a%2Fb"} {
			got := begin(base, page)
			var begun api.ProviderLoginBegun
			got.read(t, &begun)
			to, err := url.Parse(begun.URL)
			require.NoError(t, err)
			require.Equal(t, want, to.Query().Get("redirect_uri"))
		}
		cookie, err := http.ParseSetCookie(begin(base, "").header.Get("Set-Cookie"))
		require.NoError(t, err)
		require.Equal(t, map[string]string{"": "__Host-drover_login /", "/drover": "__Secure-drover_login~drover /drover"}[base], cookie.Name+" "+cookie.Path)
	}
	for _, page := range []string{
		"/", "/runs", "/drover", "/drovers/", "//drover/", "/drover/../other", "/drover/%2e%2E/other", "/drover/a%2fb/../../other", "/drover/./x", "https://evil.example.com/drover/",
	} {
		begin("/drover", page).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	}
	begin("", "/%2e%2e//evil.example.com").problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
}
