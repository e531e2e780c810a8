package oidc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
)

// newProvider returns the gateway's side of a provider.
func newProvider(t *testing.T, issuer string) *oidc.Provider {
	t.Helper()
	p, err := oidc.New(oidc.Options{
		Issuer: issuer, Name: "test", ClientID: testenv.IdentityClient, DeviceClientID: testenv.IdentityDeviceClient, Audiences: []string{"api"},
		Scopes: []string{"profile", "email"}, SubjectClaim: "email", SubjectPrefix: "oidc:", GroupsClaim: "groups",
		Bindings: []string{"group:developers=write", "user:test-user@zitadel.ch=exec"},
	})
	require.NoError(t, err)
	return p
}

// none knows no token.
func none(t *testing.T) tokens.Authenticator {
	t.Helper()
	list, err := tokens.NewList([]tokens.Token{{Name: "ci", Hash: tokens.Hash("drover_ci"), Scopes: []tokens.Scope{tokens.Read}}})
	require.NoError(t, err)
	return list
}

func TestAuthenticator_tokens_of_the_provider(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	auth := oidc.WithProvider(newProvider(t, identity.Issuer), none(t))
	p, ok := auth.Authenticate(identity.Sign(t, nil))
	require.True(t, ok, "%v", p.Refusal)
	require.Equal(t, "oidc:test-user@zitadel.ch", p.Name)
	require.Equal(t, []string{"developers"}, p.Groups)
	require.Equal(t, []tokens.Scope{tokens.Write, tokens.Exec}, p.Scopes)
	p, ok = auth.Authenticate("drover_ci")
	require.True(t, ok)
	require.Equal(t, "ci", p.Name)

	tests := map[string]struct {
		claims map[string]any
		code   run.Code // "" if the token is accepted
	}{
		"another_audience":         {claims: map[string]any{"aud": "other"}, code: run.CodeUnauthenticated},
		"no_audience":              {claims: map[string]any{"aud": nil}, code: run.CodeUnauthenticated},
		"the_client_of_the_CLI":    {claims: map[string]any{"aud": testenv.IdentityDeviceClient}},
		"an_audience_of_several":   {claims: map[string]any{"aud": []string{"other", "api"}}},
		"another_issuer":           {claims: map[string]any{"iss": "https://login.example.com"}, code: run.CodeUnauthenticated},
		"expired_within_the_skew":  {claims: map[string]any{"exp": -30}},
		"expired":                  {claims: map[string]any{"exp": -90}, code: run.CodeTokenExpired},
		"no_expiry":                {claims: map[string]any{"exp": nil}, code: run.CodeTokenExpired},
		"issued_within_the_skew":   {claims: map[string]any{"iat": 30}},
		"issued_in_the_future":     {claims: map[string]any{"iat": 90}, code: run.CodeUnauthenticated},
		"valid_within_the_skew":    {claims: map[string]any{"nbf": 30}},
		"not_valid_yet":            {claims: map[string]any{"nbf": 900}, code: run.CodeUnauthenticated},
		"no_user":                  {claims: map[string]any{"sub": nil}, code: run.CodeForbidden},
		"no_name":                  {claims: map[string]any{"email": nil}, code: run.CodeForbidden},
		"address_is_not_verified":  {claims: map[string]any{"email_verified": false}, code: run.CodeForbidden},
		"not_said_to_be_verified":  {claims: map[string]any{"email_verified": nil}, code: run.CodeForbidden},
		"verified_as_a_text":       {claims: map[string]any{"email_verified": "true"}},
		"no_binding":               {claims: map[string]any{"email": "eve@example.com", "groups": []string{"others"}}, code: run.CodeForbidden},
		"a_group_that_is_a_string": {claims: map[string]any{"email": "eve@example.com", "groups": "developers"}},
		"control_characters":       {claims: map[string]any{"email": "eve\n@example.com"}, code: run.CodeForbidden},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, ok := auth.Authenticate(identity.Sign(t, tt.claims))
			require.Equal(t, tt.code == "", ok, "%v", p.Refusal)
			if tt.code != "" {
				require.Equal(t, tt.code, run.CodeOf(p.Refusal), "%v", p.Refusal)
			}
		})
	}

	other := testenv.StartIdentity(t)
	p, ok = auth.Authenticate(other.Sign(t, map[string]any{"iss": identity.Issuer}))
	require.False(t, ok, "another provider signed it")
	require.Equal(t, run.CodeUnauthenticated, run.CodeOf(p.Refusal), "%v", p.Refusal)
}

func TestAuthenticator_keys_rotate(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	auth := oidc.WithProvider(newProvider(t, identity.Issuer), none(t))
	before := identity.Sign(t, nil)
	_, ok := auth.Authenticate(before)
	require.True(t, ok)
	identity.Control(t, "rotate", nil)
	p, ok := auth.Authenticate(identity.Sign(t, nil))
	require.True(t, ok, "the new key: %v", p.Refusal)
	p, ok = auth.Authenticate(before)
	require.False(t, ok, "the provider withdrew the key")
	require.Equal(t, run.CodeUnauthenticated, run.CodeOf(p.Refusal))

	// Tokens with names of keys that do not exist do not make the gateway flood the provider.
	forged := identity.Control(t, "sign?key=unknown", map[string]any{"iss": identity.Issuer, "aud": testenv.IdentityClient, "sub": "x", "exp": 60})
	for range 10 {
		p, ok = auth.Authenticate(forged)
		require.False(t, ok)
	}
	require.ErrorContains(t, p.Refusal, "a moment ago")
	p, ok = auth.Authenticate(identity.Sign(t, nil))
	require.True(t, ok, "%v", p.Refusal)
}

func TestAuthenticator_provider_down(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	token := identity.Sign(t, nil)
	identity.Stop()
	provider := newProvider(t, identity.Issuer)
	auth := oidc.WithProvider(provider, none(t))
	p, ok := auth.Authenticate(token)
	require.False(t, ok)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(p.Refusal))
	require.ErrorContains(t, p.Refusal, "connection refused")
	_, err := provider.Start(t.Context(), "http://127.0.0.1/login/callback")
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	_, ok = auth.Authenticate("drover_ci")
	require.True(t, ok, "other tokens do not need the provider")

	identity.Start(t)
	testenv.Await(t, func() (bool, string) {
		p, ok := auth.Authenticate(identity.Sign(t, nil))
		return ok, "the token is refused: " + errorText(p.Refusal)
	})
	identity.Stop()
	p, ok = auth.Authenticate(token)
	require.False(t, ok, "it has the key of before")
	require.Equal(t, run.CodeUnavailable, run.CodeOf(p.Refusal), "%v", p.Refusal)
}

func errorText(err error) string {
	if err == nil {
		return "no reason"
	}
	return err.Error()
}

func TestProvider_of_another_issuer(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	_, err := newProvider(t, identity.Issuer[:len(identity.Issuer)-1]).Start(t.Context(), "http://127.0.0.1/login/callback")
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	require.ErrorContains(t, err, "issuer", "the URL lacks the slash")
	_, err = oidc.New(oidc.Options{Bindings: []string{"developers", "group:x=owner", "group:=read", "team:x=read", "*=executor"}})
	for _, text := range []string{`"developers"`, `"owner"`, `"group:=read"`, `"team:x"`, `"executor"`} {
		require.ErrorContains(t, err, text)
	}
	var logged bytes.Buffer
	_, err = oidc.New(oidc.Options{
		Bindings: []string{"group:oidc:x=read", "user:oidc:ana@example.com=read"}, SubjectPrefix: "oidc:", Logger: slog.New(slog.NewJSONHandler(&logged, nil)),
	})
	require.NoError(t, err, "a gateway starts with such a binding")
	require.Equal(t, 1, strings.Count(logged.String(), "\n"), logged.String())
	require.Contains(t, logged.String(), `"binding":"user:oidc:ana@example.com","reason":"the user is named as the provider does, without oidc: (gateway.oidc.subject_prefix): ana@example.com"`)
	_, err = oidc.New(oidc.Options{Bindings: []string{"group:CN=ops,OU=it=admin", "user:ana@example.com=read", "*=read"}, Transport: http.DefaultTransport})
	require.NoError(t, err)
}

// transport answers calls in place of the token and the user info endpoint.
type transport func(path string) (answer any)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := f(r.URL.Path)
	if answer == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(answer)
	return w.Result(), err
}

// TestProvider_verified_addresses: an address is verified if the source that has it says
// so. The other source may mean another address.
func TestProvider_verified_addresses(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	const ana, bob = "ana@example.com", "bob@example.com"
	for name, tt := range map[string]struct {
		token map[string]any // claims of the ID token besides the usual ones; nil: without it
		info  map[string]any
		name  string // "" if the login is refused
	}{
		"the_token":                     {token: map[string]any{"email": ana}, name: ana},
		"the_info":                      {token: map[string]any{"email": nil, "email_verified": nil}, info: map[string]any{"email": bob, "email_verified": true}, name: bob},
		"the_info_of_the_same":          {token: map[string]any{"email": ana, "email_verified": nil}, info: map[string]any{"email": ana, "email_verified": true}, name: ana},
		"the_token_for_the_same":        {token: map[string]any{"email": ana, "groups": nil}, info: map[string]any{"email": ana, "groups": []string{"developers"}}, name: ana},
		"the_token_before_the_info":     {token: map[string]any{"email": ana, "groups": nil}, info: map[string]any{"email": bob, "email_verified": false, "groups": []string{"developers"}}, name: ana},
		"the_info_of_another":           {token: map[string]any{"email": ana, "email_verified": nil}, info: map[string]any{"email": bob, "email_verified": true}},
		"the_info_of_none":              {token: map[string]any{"email": ana, "email_verified": nil}, info: map[string]any{"email_verified": true}},
		"the_token_without_an_address":  {token: map[string]any{"email": nil}, info: map[string]any{"email": bob}},
		"the_token_and_the_info_differ": {token: map[string]any{"email": nil}, info: map[string]any{"email": bob, "email_verified": false}},
		"the_info_is_not_verified":      {token: map[string]any{"email": ana, "email_verified": nil}, info: map[string]any{"email": ana, "email_verified": false}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.token["nonce"] = "n"
			signed := identity.Sign(t, tt.token)
			info := map[string]any{"sub": testenv.IdentityUser}
			maps.Copy(info, tt.info)
			p, err := oidc.New(oidc.Options{
				Issuer: identity.Issuer, ClientID: testenv.IdentityClient, SubjectClaim: "email", GroupsClaim: "groups", Bindings: []string{"*=read"},
				Transport: transport(func(path string) any {
					switch path {
					case "/oauth/token":
						return map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": signed}
					case "/userinfo":
						return info
					default:
						return nil
					}
				}),
			})
			require.NoError(t, err)
			grant, err := p.Finish(t.Context(), oidc.Start{Nonce: "n"}, "http://127.0.0.1/login/callback", "code")
			if tt.name == "" {
				require.Equal(t, run.CodeForbidden, run.CodeOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.name, grant.Identity.Name)
		})
	}
}

// TestProvider_roles: a user has either scopes or roles, like a token. The scopes win, and
// a user with too many roles gets none.
func TestProvider_roles(t *testing.T) {
	t.Parallel()
	grant := func(subject, members string, role roles.Role, groups ...string) roles.Grant {
		return roles.Grant{Subject: subject, Members: members, Binding: roles.Binding{Role: role, Groups: groups}}
	}
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf("/g%d/**", i))
	}
	provider, err := oidc.New(oidc.Options{
		Issuer: "https://login.example.com", SubjectPrefix: "oidc:", Bindings: []string{"group:developers=write", "user:eve=exec"},
		Roles: roles.Policy{
			grant("", "web", roles.Submitter, "/acme/**"), grant("", "web-leads", roles.Approver, "/acme/**"), grant("ana", "", roles.Admin, "/**"),
			grant("", "developers", roles.Viewer, "/acme/**"), grant("eve", "", roles.Viewer, "/acme/**"),
			grant("", "many", roles.Viewer, many...), grant("", "more", roles.Viewer, "/more/**"),
		},
	})
	require.NoError(t, err)
	acme := []string{"/acme/**"}
	for name, tt := range map[string]struct {
		user    string
		groups  []string
		scopes  []tokens.Scope
		roles   roles.Bindings
		refused string
	}{
		"a_group":                  {user: "bob", groups: []string{"web"}, roles: roles.Bindings{{Role: roles.Submitter, Groups: acme}}},
		"two_groups":               {user: "bob", groups: []string{"web", "web-leads"}, roles: roles.Bindings{{Role: roles.Submitter, Groups: acme}, {Role: roles.Approver, Groups: acme}}},
		"a_subject":                {user: "ana", roles: roles.Bindings{{Role: roles.Admin, Groups: []string{"/**"}}}},
		"scopes_of_a_group_win":    {user: "bob", groups: []string{"web", "developers"}, scopes: []tokens.Scope{tokens.Write}},
		"scopes_of_a_user_win":     {user: "eve", groups: []string{"web"}, scopes: []tokens.Scope{tokens.Exec}},
		"the_name_has_no_prefix":   {user: "oidc:ana", refused: "no grant of a role"},
		"nothing_matches":          {user: "bob", groups: []string{"others"}, refused: "no binding matches"},
		"as_many_as_possible":      {user: "bob", groups: []string{"many"}, roles: roles.Bindings{{Role: roles.Viewer, Groups: slices.Sorted(slices.Values(many))}}},
		"more_than_can_be_checked": {user: "bob", groups: []string{"many", "more"}, refused: "the limit is 50"},
	} {
		p, err := provider.Principal(run.Identity{Issuer: "https://login.example.com", Name: tt.user, Groups: tt.groups})
		if tt.refused != "" {
			require.Equal(t, run.CodeForbidden, run.CodeOf(err), name)
			require.ErrorContains(t, err, tt.refused, name)
			require.Empty(t, p.Roles, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tt.scopes, p.Scopes, name)
		require.Equal(t, tt.roles, p.Roles, name)
		require.Equal(t, "oidc:"+tt.user, p.Name, name)
	}
}

// logIn logs the user in at the provider, as a browser does.
func logIn(t *testing.T, provider *oidc.Provider, identity *testenv.Identity, redirect string) tokens.Grant {
	t.Helper()
	start, err := provider.Start(t.Context(), redirect)
	require.NoError(t, err)
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), redirect) {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	visit := func(method, address string, form url.Values) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer
	}
	form := visit(http.MethodGet, start.URL, nil).Request.URL
	back, err := visit(http.MethodPost, identity.Issuer+"login/username", url.Values{
		"username": {testenv.IdentityUserName}, "password": {testenv.IdentityPassword}, "id": {form.Query().Get("authRequestID")},
	}).Location()
	require.NoError(t, err)
	require.Equal(t, start.State, back.Query().Get("state"), back)
	g, err := provider.Finish(t.Context(), start, redirect, back.Query().Get("code"))
	require.NoError(t, err)
	return g
}

// TestProvider_rotated_refresh_token: the provider accepts a refresh token once. The next one
// is known also if the rest of the answer cannot be used, so the login lasts.
func TestProvider_rotated_refresh_token(t *testing.T) {
	t.Parallel()
	const redirect = "http://127.0.0.1:1/login/callback"
	identity := testenv.StartIdentity(t, redirect)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(testenv.IdentitySecret), 0o600))
	provider, err := oidc.New(oidc.Options{
		Issuer: identity.Issuer, Name: "test", ClientID: testenv.IdentityClient, ClientSecretFile: secret,
		Scopes: []string{"profile", "email", "offline_access"}, SubjectClaim: "email", GroupsClaim: "groups",
	})
	require.NoError(t, err)
	began := logIn(t, provider, identity, redirect)
	require.NotEmpty(t, began.RefreshToken)
	refresh := func(g tokens.Grant) (tokens.Grant, []string, error) {
		var rotated []string
		next, err := provider.Refresh(t.Context(), g, func(refreshToken string) { rotated = append(rotated, refreshToken) })
		return next, rotated, err
	}
	g := began
	for _, tt := range []struct {
		name  string
		fault map[string]any
		code  run.Code
	}{
		{"user info fails", map[string]any{"status": http.StatusInternalServerError}, run.CodeUnavailable},
		{"a claim is missing", map[string]any{"no_email": true}, run.CodeForbidden},
	} {
		identity.Control(t, "userinfo", tt.fault)
		_, rotated, err := refresh(g)
		require.Equal(t, tt.code, run.CodeOf(err), "%s: %v", tt.name, err)
		require.Len(t, rotated, 1, tt.name)
		_, _, err = refresh(g)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err), "%s: the provider accepts the token once: %v", tt.name, err)
		g.RefreshToken = rotated[0]
	}
	identity.Control(t, "userinfo", map[string]any{})
	next, rotated, err := refresh(g)
	require.NoError(t, err)
	require.Equal(t, []string{next.RefreshToken}, rotated)
	require.Equal(t, began.Identity, next.Identity)
}
