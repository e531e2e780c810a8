package clients

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestIdentity: users log in with an OpenID Connect provider, in a browser and on the
// command line, and use its tokens. While it is down, the page says so, and tokens of
// Drover still work. A login that ends at the provider ends at the gateway.
func TestIdentity(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	identity := testenv.StartIdentity(t, "http://"+address+"/login/callback")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(testenv.IdentitySecret+"\n"), 0o600))
	granted := filepath.Join(t.TempDir(), "roles.yaml")
	require.NoError(t, os.WriteFile(granted, []byte("- {members: web, role: submitter, groups: [/acme/**]}\n"), 0o600))
	dev := harness.StartDev(t, []string{
		"DROVER_GATEWAY__OIDC__ISSUER=" + identity.Issuer, "DROVER_GATEWAY__OIDC__CLIENT_ID=" + testenv.IdentityClient,
		"DROVER_GATEWAY__OIDC__CLIENT_SECRET_FILE=" + secret, "DROVER_GATEWAY__OIDC__DEVICE_CLIENT_ID=" + testenv.IdentityDeviceClient,
		"DROVER_GATEWAY__OIDC__SCOPES=profile,email,offline_access", "DROVER_GATEWAY__OIDC__BINDINGS=group:developers=write",
		"DROVER_GATEWAY__OIDC__ROLES_FILE=" + granted,
		"DROVER_GATEWAY__OIDC__CONFIRM_EVERY=10s", "DROVER_GATEWAY__OIDC__NAME=Example",
	}, "--executor", "none", "--http", address)
	t.Cleanup(func() { require.NoError(t, dev.Stop()) })

	ana := newBrowser(t, dev.Server)
	status, body := ana.call(http.MethodGet, "/api/v1/session/options", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"name":"Example"`)
	status, body = ana.call(http.MethodPost, "/api/v1/session/provider", `{"return_to": "//evil.example"}`)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)

	// A login, whose answer is of use once, and only in the browser that began it.
	answer := ana.visit("/runs?phase=open")
	other := newBrowser(t, dev.Server)
	status, body = other.call(http.MethodPost, "/api/v1/session/provider/complete", answer)
	require.Equal(t, http.StatusUnauthorized, status, body)
	status, body = ana.call(http.MethodPost, "/api/v1/session/provider/complete", answer)
	require.Equal(t, http.StatusCreated, status, body)
	var done api.ProviderLoginDone
	require.NoError(t, json.Unmarshal([]byte(body), &done))
	require.Equal(t, "/runs?phase=open", done.ReturnTo)
	require.Equal(t, "oidc:test-user@zitadel.ch", done.Session.Subject)
	require.Equal(t, []string{"write"}, done.Session.Scopes)
	status, body = ana.call(http.MethodPost, "/api/v1/session/provider/complete", answer)
	require.Equal(t, http.StatusUnauthorized, status, body)
	ana.await(http.StatusOK, "oidc:test-user@zitadel.ch")
	files, err := filepath.Glob(filepath.Join(dev.Dir, "data", "records.db*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.False(t, harness.Grep(t, file, `"refresh_token"`), "%s: the tokens of the provider are sealed", file)
	}

	// The provider's refusal.
	status, body = other.call(http.MethodPost, "/api/v1/session/provider", `{}`)
	require.Equal(t, http.StatusOK, status, body)
	var begun api.ProviderLoginBegun
	require.NoError(t, json.Unmarshal([]byte(body), &begun))
	u, err := url.Parse(begun.URL)
	require.NoError(t, err)
	refusal, err := json.Marshal(api.ProviderAnswer{State: u.Query().Get("state"), Error: "access_denied", ErrorDescription: "not today"})
	require.NoError(t, err)
	status, body = other.call(http.MethodPost, "/api/v1/session/provider/complete", string(refusal))
	require.Equal(t, http.StatusUnauthorized, status, body)
	require.Contains(t, body, "access_denied not today")

	// The tokens of the provider.
	bearer := harness.NewClient(t, dev.Server, identity.Sign(t, nil))
	status, body, err = bearer.Do(t.Context(), http.MethodGet, "/api/v1/session", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "oidc:test-user@zitadel.ch")

	// The command line.
	environment := loginByDevice(t, identity, dev.Server)
	list := harness.Start(t, t.TempDir(), environment, "ps")
	output, err := list.AwaitEnd()
	require.NoError(t, err, output)

	// Its groups decide, as soon as the gateway asks again.
	identity.Control(t, "groups/"+testenv.IdentityUser, []string{"others"})
	ana.await(http.StatusForbidden, "no binding matches")
	identity.Control(t, "groups/"+testenv.IdentityUser, []string{"web"})
	ana.await(http.StatusOK, `"scopes":[]`)
	status, body, err = harness.NewClient(t, dev.Server, dev.Token).Do(t.Context(), http.MethodPut, "/api/v1/pools/shell", "application/json", `{"driver": "shell"}`)
	require.NoError(t, err)
	require.Less(t, status, 300, body)
	useRoles(t, identity, dev.Server, ana, granted)
	identity.Control(t, "groups/"+testenv.IdentityUser, []string{"developers"})
	ana.await(http.StatusOK, "oidc:test-user@zitadel.ch")

	// The provider is down.
	identity.Stop()
	testenv.Await(t, func() (bool, string) {
		status, body := other.call(http.MethodPost, "/api/v1/session/provider", `{}`)
		return status == http.StatusServiceUnavailable && strings.Contains(body, "Example cannot be used") && strings.Contains(body, "connection refused"), body
	})
	status, body = other.call(http.MethodPost, "/api/v1/session", `{"token": "`+dev.Token+`"}`)
	require.Equal(t, http.StatusCreated, status, body)
	ana.await(http.StatusOK, "oidc:test-user@zitadel.ch")

	// It has lost all logins.
	identity.Start(t)
	ana.await(http.StatusUnauthorized, "")

	// Log out at the provider too.
	status, body = ana.call(http.MethodPost, "/api/v1/session/provider/complete", ana.visit("/"))
	require.Equal(t, http.StatusCreated, status, body)
	status, body = ana.call(http.MethodDelete, "/api/v1/session?everywhere=true", "{}")
	require.Equal(t, http.StatusOK, status, body)
	var end api.SessionEnd
	require.NoError(t, json.Unmarshal([]byte(body), &end))
	require.True(t, strings.HasPrefix(end.LogoutURL, identity.Issuer), end.LogoutURL)
	location, _ := ana.get(end.LogoutURL)
	require.Equal(t, dev.Server+"/", location)
	ana.await(http.StatusUnauthorized, "")
}

// loginByDevice logs the user in on the command line, and returns the environment of its
// next commands.
func loginByDevice(t *testing.T, identity *testenv.Identity, server string) []string {
	t.Helper()
	environment := []string{"DROVER_CONTEXT=" + filepath.Join(t.TempDir(), "context.yaml")}
	login := harness.Start(t, t.TempDir(), environment, "login", server, "--oidc", "--name", "idp")
	var code string
	testenv.Await(t, func() (bool, string) {
		found := regexp.MustCompile(`enter the code (\S+)`).FindStringSubmatch(login.Output())
		if found == nil {
			return false, login.Output()
		}
		code = found[1]
		return true, ""
	})
	identity.Control(t, "approve/"+code+"/"+testenv.IdentityUser, nil)
	output, err := login.AwaitEnd()
	require.NoError(t, err, output)
	require.Contains(t, output, "You are oidc:test-user@zitadel.ch")
	require.Contains(t, output, "idp: "+server)
	return environment
}

// useRoles submits runs as a user with a role below /acme, in a browser, with a token of
// the provider and on the command line. Then the user loses the role, and what is open ends.
func useRoles(t *testing.T, identity *testenv.Identity, server string, ana *browser, granted string) {
	t.Helper()
	runOf := func(group string) string {
		return `{"name": "n` + strings.ReplaceAll(group, "/", "-") + `", "group": "` + group + `", "admission": "manual", "tasks": {"a": {"steps": [{"run": "true"}]}}}`
	}
	status, body := ana.call(http.MethodPost, "/api/v1/runs", runOf("/acme/web"))
	require.Equal(t, http.StatusCreated, status, body)
	status, body = ana.call(http.MethodPost, "/api/v1/runs", runOf("/other/web"))
	require.Equal(t, http.StatusForbidden, status, body)
	bearer := harness.NewClient(t, server, identity.Sign(t, map[string]any{"groups": []string{"web"}}))
	for group, want := range map[string]int{"/acme/api": http.StatusCreated, "/acmes/web": http.StatusForbidden} {
		status, body, err := bearer.Do(t.Context(), http.MethodPost, "/api/v1/runs", "application/json", runOf(group))
		require.NoError(t, err)
		require.Equal(t, want, status, body)
	}
	environment, dir := loginByDevice(t, identity, server), t.TempDir()
	for name, group := range map[string]string{"own": "/acme/cli", "foreign": "/other/web"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), []byte(runOf(group)), 0o600))
	}
	output, err := harness.Start(t, dir, environment, "run", filepath.Join(dir, "foreign.json")).AwaitEnd()
	require.Error(t, err)
	require.Contains(t, output, "does not have the role submitter in the group /other/web")
	follow := harness.Start(t, dir, environment, "run", filepath.Join(dir, "own.json"), "--follow")
	testenv.Await(t, func() (bool, string) {
		_, body := ana.call(http.MethodGet, "/api/v1/runs", "")
		return strings.Contains(body, "n-acme-cli"), body
	})

	events := ana.stream("/api/v1/events?from=now")
	require.NoError(t, os.WriteFile(granted, nil, 0o600))
	require.Contains(t, <-events, "event: problem\ndata: {")
	output, err = follow.AwaitEnd()
	require.Error(t, err)
	require.Contains(t, output, "no grant of a role")
	ana.await(http.StatusForbidden, "no grant of a role")
}

// stream opens a stream of events, whose text is sent when it has ended.
func (b *browser) stream(path string) <-chan string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.gateway+path, http.NoBody)
	require.NoError(b.t, err)
	answer, err := b.client.Do(r)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, answer.StatusCode)
	text := make(chan string, 1)
	go func() {
		defer answer.Body.Close()
		data, _ := io.ReadAll(answer.Body)
		text <- string(data)
	}()
	return text
}

// browser is a browser with the pages of a gateway.
type browser struct {
	t       *testing.T
	gateway string
	client  *http.Client
}

func newBrowser(t *testing.T, gateway string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{t: t, gateway: gateway, client: &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), gateway) {
			return http.ErrUseLastResponse // the web UI continues
		}
		return nil
	}}}
}

// call makes a call of a page of the gateway.
func (b *browser) call(method, path, body string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.gateway+path, strings.NewReader(body))
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", b.gateway)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

func (b *browser) do(r *http.Request) (int, string) {
	b.t.Helper()
	answer, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(b.t, err)
	return answer.StatusCode, string(data)
}

// get visits a page, and returns where the last redirect leads, or the last page.
func (b *browser) get(address string) (location, page string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, nil)
	require.NoError(b.t, err)
	return b.follow(r)
}

func (b *browser) follow(r *http.Request) (location, page string) {
	b.t.Helper()
	answer, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(b.t, err)
	if to := answer.Header.Get("Location"); to != "" {
		return to, string(data)
	}
	return answer.Request.URL.String(), string(data)
}

// visit begins a login and enters the password at the provider. It returns the body
// with which the page of the gateway completes the login.
func (b *browser) visit(returnTo string) string {
	b.t.Helper()
	status, body := b.call(http.MethodPost, "/api/v1/session/provider", `{"return_to": "`+returnTo+`"}`)
	require.Equal(b.t, http.StatusOK, status, body)
	var begun api.ProviderLoginBegun
	require.NoError(b.t, json.Unmarshal([]byte(body), &begun))
	require.Contains(b.t, begun.URL, "code_challenge_method=S256")
	form, _ := b.get(begun.URL)
	at, err := url.Parse(form)
	require.NoError(b.t, err)
	values := url.Values{"username": {testenv.IdentityUserName}, "password": {testenv.IdentityPassword}, "id": {at.Query().Get("authRequestID")}}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, at.Scheme+"://"+at.Host+"/login/username", strings.NewReader(values.Encode()))
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	back, page := b.follow(r)
	require.True(b.t, strings.HasPrefix(back, b.gateway+"/login/callback?"), "%s\n%s", back, page)
	at, err = url.Parse(back)
	require.NoError(b.t, err)
	text, err := json.Marshal(api.ProviderAnswer{State: at.Query().Get("state"), Code: at.Query().Get("code")})
	require.NoError(b.t, err)
	return string(text)
}

// await waits for the answer to who the user is.
func (b *browser) await(want int, text string) {
	b.t.Helper()
	testenv.Await(b.t, func() (bool, string) {
		status, body := b.call(http.MethodGet, "/api/v1/session", "")
		return status == want && strings.Contains(body, text), http.StatusText(status) + " " + body
	})
}
