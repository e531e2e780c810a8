package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/gateway/audit"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

// granting is a gateway that applies stored grants of roles, beside others on the same
// records.
type granting struct {
	base  string
	audit *memoryLog
}

const grantsPath = "/api/v1/rolegrants/"

// startGranting starts a gateway. Its tokens are writer with the scope write, and tenant
// with the role admin in /acme/**. file is its file of grants, "" for none.
func startGranting(t *testing.T, identity *testenv.Identity, store roles.Store, file string) granting {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	opts := roles.GrantsOptions{Issuer: identity.Issuer, UserPrefix: "oidc:"}
	if file != "" {
		path := filepath.Join(t.TempDir(), "roles.yaml")
		require.NoError(t, durable.WriteFile(path, []byte(file)))
		var err error
		opts.File, err = roles.OpenFile(path, "", log)
		require.NoError(t, err)
	}
	granted := newGrants(t, store, opts)
	listed, err := tokens.NewList([]tokens.Token{
		{Name: "writer", Hash: tokens.Hash("writer"), Scopes: []tokens.Scope{tokens.Write, tokens.Exec}},
		{Name: "tenant", Hash: tokens.Hash("tenant"), Roles: roles.Bindings{{Role: roles.Admin, Groups: []string{"/acme/**"}}}},
	})
	require.NoError(t, err)
	provider := newProvider(t, identity, granted)
	g := granting{audit: &memoryLog{}}
	recorder, err := audit.NewRecorder(g.audit, prometheus.NewRegistry(), log)
	require.NoError(t, err)
	service := eventService(make(chan run.Event), make(chan run.EventQuery, 100), make(chan struct{}))
	service.ListFunc = func(context.Context, run.ListQuery) (run.Page, error) { return run.Page{}, nil }
	g.base = serve(t, gateway.Deps{
		Runs: service, Auth: oidc.WithProvider(provider, listed), Provider: provider, RoleGrants: granted, Audit: recorder,
	}, gateway.Options{Recheck: 10 * time.Millisecond})
	return g
}

func (g granting) call(t *testing.T, method, path, body, token string) answer {
	t.Helper()
	return call{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, g.base)
}

// awaitAccess waits until a user may list runs, or may not.
func (g granting) awaitAccess(t *testing.T, token string, status int) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		got := g.call(t, http.MethodGet, "/api/v1/runs", "", token)
		return got.status == status, fmt.Sprint(got.status, got.body)
	})
}

// TestServer_role_grants: a grant that is put at one gateway gives a user a role at all, and
// its deletion takes the role away and ends the user's streams.
func TestServer_role_grants(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	store := newStore(t)
	here, there := startGranting(t, identity, store, ""), startGranting(t, identity, store, "- {subject: ana@example.com, role: viewer, groups: [/shared/**]}\n")
	admin := userToken(t, identity, "eve@example.com", "platform")
	ana, bob := userToken(t, identity, "ana@example.com", "docs"), userToken(t, identity, "bob@example.com", "web")
	for _, g := range []granting{here, there} {
		g.awaitAccess(t, bob, http.StatusForbidden)
	}
	here.awaitAccess(t, ana, http.StatusForbidden)
	there.awaitAccess(t, ana, http.StatusOK)

	got := here.call(t, http.MethodPut, grantsPath+"web", `{"grants": [{"members": "web", "role": "submitter", "groups": ["/acme/**"]}], "note": "the web team"}`, admin)
	var put api.RoleGrants
	got.read(t, &put)
	require.Equal(t, http.StatusCreated, got.status)
	require.Equal(t, grantsPath+"web", got.header.Get("Location"))
	require.Equal(t, "oidc:eve@example.com", put.UpdatedBy)
	require.Equal(t, identity.Issuer, put.Issuer)
	require.Equal(t, http.StatusOK, here.call(t, http.MethodGet, "/api/v1/runs", "", bob).status, "at once at the gateway of the call")
	there.awaitAccess(t, bob, http.StatusOK)
	for _, g := range []granting{here, there} {
		who := g.call(t, http.MethodGet, "/api/v1/session", "", bob).body
		require.Contains(t, who, `"bindings":[{"groups":["/acme/**"],"role":"submitter"}]`)
		refused := g.call(t, http.MethodPost, "/api/v1/runs", specOf(theirs), bob)
		refused.problem(t, http.StatusForbidden, run.CodeForbidden)
		refused = g.call(t, http.MethodPut, grantsPath+"mine", `{"grants": [{"subject": "bob@example.com", "role": "admin", "groups": ["/**"]}]}`, bob)
		refused.problem(t, http.StatusForbidden, run.CodeForbidden)
	}
	here.awaitAccess(t, ana, http.StatusForbidden)

	streams := []*stream{}
	for _, g := range []granting{here, there} {
		streams = append(streams, open(t, g.base+"/api/v1/events?from=now", map[string]string{"Authorization": "Bearer " + bob}))
	}
	require.Equal(t, http.StatusNoContent, here.call(t, http.MethodDelete, grantsPath+"web", "{}", admin).status)
	require.Equal(t, http.StatusForbidden, here.call(t, http.MethodGet, "/api/v1/runs", "", bob).status, "at once at the gateway of the call")
	there.awaitAccess(t, bob, http.StatusForbidden)
	for _, s := range streams {
		e := s.next(t)
		for e.name == "start" {
			e = s.next(t)
		}
		require.Equal(t, "problem", e.name)
		require.Contains(t, e.data, `"code":"forbidden"`)
	}
	there.awaitAccess(t, ana, http.StatusOK)

	var recorded []string
	for _, r := range here.audit.take() {
		if r.Kind == "rolegrant" {
			recorded = append(recorded, strings.TrimSpace(fmt.Sprintf("%s %s %s by %s %s", r.Action, r.Resource.ID, r.Result, r.Subject, r.Details)))
		}
	}
	require.Equal(t, []string{
		`putRoleGrants web success by oidc:eve@example.com [{"groups":["/acme/**"],"members":"web","role":"submitter"}]`, "putRoleGrants mine refused by oidc:bob@example.com", "deleteRoleGrants web success by oidc:eve@example.com",
	}, recorded)
}

// TestServer_role_grants_versions: a change may name the version that it replaces.
func TestServer_role_grants_versions(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	g := startGranting(t, identity, newStore(t), "- {subject: ana@example.com, role: viewer, groups: [/shared/**]}\n")
	admin := userToken(t, identity, "eve@example.com", "platform")
	put := func(body string) answer {
		t.Helper()
		return g.call(t, http.MethodPut, grantsPath+"web", body, admin)
	}
	const grant = `"grants": [{"subject": "*", "role": "viewer", "groups": ["/acme/**"]}]`
	require.Contains(t, put(`{"version": 7, `+grant+`}`).problem(t, http.StatusConflict, run.CodeConflict).Detail, "deleted")
	var first, second, same api.RoleGrants
	put(`{"version": 0, `+grant+`}`).read(t, &first)
	require.Contains(t, put(`{"version": 0, `+grant+`}`).problem(t, http.StatusConflict, run.CodeConflict).Detail, "exist already")
	put(fmt.Sprintf(`{"version": %d, "note": "x", %s}`, first.Version, grant)).read(t, &second)
	require.Greater(t, second.Version, first.Version)
	put(`{"note": "x", `+grant+`}`).read(t, &same)
	require.Equal(t, second, same, "nothing changed")
	stale := put(fmt.Sprintf(`{"version": %d, %s}`, first.Version, grant))
	require.Contains(t, stale.problem(t, http.StatusConflict, run.CodeConflict).Detail, "oidc:eve@example.com changed the role grants web")
	stale = g.call(t, http.MethodDelete, fmt.Sprintf("%sweb?version=%d", grantsPath, first.Version), "{}", admin)
	stale.problem(t, http.StatusConflict, run.CodeConflict)

	var all api.RoleGrantsList
	g.call(t, http.MethodGet, "/api/v1/rolegrants", "", admin).read(t, &all)
	require.Equal(t, []api.RoleGrants{second}, all.Rolegrants)
	require.Equal(t, identity.Issuer, all.Issuer)
	require.Equal(t, []api.RoleGrant{{Subject: "ana@example.com", Role: "viewer", Groups: []string{"/shared/**"}}}, all.File)
	g.call(t, http.MethodGet, grantsPath+"web", "", admin).read(t, &same)
	require.Equal(t, second, same)
	require.Equal(t, http.StatusNoContent, g.call(t, http.MethodDelete, fmt.Sprintf("%sweb?version=%d", grantsPath, second.Version), "{}", admin).status)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		gone := g.call(t, method, grantsPath+"web", "{}", admin)
		gone.problem(t, http.StatusNotFound, run.CodeNotFound)
	}
}

func TestServer_role_grants_bad_input(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	g := startGranting(t, identity, newStore(t), "")
	admin := userToken(t, identity, "eve@example.com", "platform")
	long := strings.Repeat("a", 201)
	manyNumbers := `{"grants": [` + strings.Repeat("5,", 200) + `5]}`
	for body, want := range map[string]string{
		`{}`:                                 "grants required",
		`{"grants": null}`:                   "grants required",
		`{"grants": {}}`:                     "grants wrong_type",
		`{"grants": [], "note": 5}`:          "note wrong_type",
		`{"grants": [], "version": "a"}`:     "version bad_value",
		`{"grants": [], "version": null}`:    "version bad_value",
		`{"grants": [], "version": -1}`:      "version bad_value",
		`{"grants": [], "grant": []}`:        "grant unknown_field",
		`{"grants": [], "note": "a\u0000b"}`: "note bad_format",
		`{"grants": [5]}`:                    "grants[0] wrong_type",
		`{"grants": [null]}`:                 "grants[0] wrong_type",
		`{"grants": [{"Subject": "a", "role": "admin", "groups": ["/**"]}]}`:                                                                                     "grants[0].Subject unknown_field",
		`{"grants": [{"subject": "a", "rol": "admin", "groups": ["/**"]}]}`:                                                                                      "grants[0].rol unknown_field",
		`{"grants": [{"subject": ["a"], "role": "admin", "groups": ["/**"]}]}`:                                                                                   "grants[0].subject wrong_type",
		`{"grants": [{"subject": "a", "role": null, "groups": ["/**"]}]}`:                                                                                        "grants[0].role wrong_type",
		`{"grants": [{"subject": "a", "role": "admin", "groups": "/**"}]}`:                                                                                       "grants[0].groups wrong_type",
		`{"grants": [{"subject": "a", "role": "admin", "groups": [1]}]}`:                                                                                         "grants[0].groups wrong_type",
		`{"grants": [{"role": "admin", "groups": ["/**"]}]}`:                                                                                                     "grants[0] required",
		`{"grants": [{"subject": "a", "members": "b", "role": "admin", "groups": ["/**"]}]}`:                                                                     "grants[0] contradiction",
		`{"grants": [{"subject": "a", "role": "owner", "groups": ["/**"]}]}`:                                                                                     "grants[0].role bad_value",
		`{"grants": [{"subject": "a", "groups": ["/**"]}]}`:                                                                                                      "grants[0].role required",
		`{"grants": [{"subject": "a", "role": "admin", "groups": []}]}`:                                                                                          "grants[0].groups required",
		`{"grants": [{"subject": "a", "role": "admin", "groups": ["/**", "/acme"]}]}`:                                                                            "grants[0].groups[1] bad_format",
		`{"grants": [{"subject": "` + long + `", "role": "admin", "groups": ["/**"]}]}`:                                                                          "grants[0].subject over_limit",
		`{"grants": [{"subject": "oidc:a", "role": "admin", "groups": ["/**"]}]}`:                                                                                "grants[0].subject bad_value",
		`{"grants": [{"members": "a\tb", "role": "admin", "groups": ["/**"]}]}`:                                                                                  "grants[0].members bad_format",
		`{"grants": [` + strings.Repeat(`{"subject": "a", "role": "admin", "groups": ["/**"]},`, 200) + `{"subject": "a", "role": "admin", "groups": ["/**"]}]}`: "grants over_limit",
		`{"grants": [], "note": "` + strings.Repeat("a", 1001) + `"}`:                                                                                            "note over_limit",
		manyNumbers: "grants over_limit",
	} {
		p := g.call(t, http.MethodPut, grantsPath+"web", body, admin).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
		require.Len(t, p.Errors, 1, body)
		require.Equal(t, want, p.Errors[0].Path+" "+p.Errors[0].Code, "%s: %s", body, p.Errors[0].Detail)
		require.NotEmpty(t, p.Errors[0].Detail)
	}
	name := g.call(t, http.MethodPut, grantsPath+"Web", `{"grants": []}`, admin)
	require.Equal(t, "name", name.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid).Errors[0].Path)
	version := g.call(t, http.MethodDelete, grantsPath+"web?version=0", "{}", admin)
	version.problem(t, http.StatusBadRequest, run.CodeInvalid)
	for _, token := range []string{"writer", "tenant"} {
		for _, c := range []answer{
			g.call(t, http.MethodPut, grantsPath+"web", `{"grants": []}`, token), g.call(t, http.MethodDelete, grantsPath+"web", "{}", token),
			g.call(t, http.MethodGet, grantsPath+"web", "", token), g.call(t, http.MethodGet, "/api/v1/rolegrants", "", token),
		} {
			c.problem(t, http.StatusForbidden, run.CodeForbidden)
		}
	}
	var all api.RoleGrantsList
	g.call(t, http.MethodGet, "/api/v1/rolegrants", "", admin).read(t, &all)
	require.Empty(t, all.Rolegrants)

	none := serve(t, gateway.Deps{}, gateway.Options{})
	for _, c := range []call{
		{path: "/api/v1/rolegrants"},
		{path: grantsPath + "web"},
		{method: http.MethodPut, path: grantsPath + "web", body: `{"grants": []}`},
		{method: http.MethodDelete, path: grantsPath + "web", body: "{}"},
	} {
		got := c.do(t, none)
		got.problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
	}
}

// brokenStore fails until it is repaired.
type brokenStore struct {
	roles.Store

	mu  sync.Mutex
	err error
}

// ListRoleGrants implements roles.Store.
func (s *brokenStore) ListRoleGrants(ctx context.Context) ([]run.RoleGrants, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.ListRoleGrants(ctx)
}

func (s *brokenStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// TestServer_role_grants_store_fails: users keep the roles that are known. Before any are,
// they get 503, apart from those with scopes.
func TestServer_role_grants_store_fails(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	store := &brokenStore{Store: newStore(t), err: errors.New("no answer")}
	_, _, err := store.PutRoleGrants(t.Context(), run.RoleGrants{
		Name: "web", Issuer: identity.Issuer, UpdatedBy: "ops", Grants: []run.RoleGrant{{Members: "web", Role: "viewer", Groups: []string{"/acme/**"}}},
	}, nil)
	require.NoError(t, err)
	g := startGranting(t, identity, store, "")
	bob := userToken(t, identity, "bob@example.com", "web")
	got := g.call(t, http.MethodGet, "/api/v1/runs", "", bob)
	got.problem(t, http.StatusServiceUnavailable, run.CodeUnavailable)
	g.awaitAccess(t, userToken(t, identity, "eve@example.com", "platform"), http.StatusOK)
	g.awaitAccess(t, "tenant", http.StatusOK)
	store.fail(nil)
	g.awaitAccess(t, bob, http.StatusOK)
	store.fail(errors.New("no answer"))
	got = g.call(t, http.MethodGet, "/api/v1/rolegrants", "", userToken(t, identity, "eve@example.com", "platform"))
	require.GreaterOrEqual(t, got.status, 500)
	require.Equal(t, http.StatusOK, g.call(t, http.MethodGet, "/api/v1/runs", "", bob).status)
}

// heldBody is a body that arrives after something else has happened. Its client sends it
// when the gateway, which has admitted the call, begins to read it.
type heldBody struct {
	io.Reader

	before sync.Once
	do     func()
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.before.Do(b.do)
	return b.Reader.Read(p)
}

// heldLog is a log that does something else before it stores a record that describes given
// rights.
type heldLog struct {
	memoryLog

	before sync.Once
	do     func()
}

// AppendAudit implements auditlog.Log.
func (l *heldLog) AppendAudit(ctx context.Context, all []auditlog.Record) error {
	if slices.ContainsFunc(all, func(r auditlog.Record) bool { return r.Details != "" }) {
		l.before.Do(l.do)
	}
	return l.memoryLog.AppendAudit(ctx, all)
}

// TestServer_lost_rights: a caller who has lost the right to give rights at another gateway,
// also while the body of the call arrives or its record is written, gives and takes none.
func TestServer_lost_rights(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	log := slog.New(slog.DiscardHandler)
	store := newStore(t)
	none, err := tokens.NewList(nil)
	require.NoError(t, err)
	type one struct {
		granted  *roles.Grants
		registry *tokens.Registry
		browsers *tokens.Browsers
		base     string
	}
	start := func(described func()) one { // a gateway that reads the records when it begins, and then not by itself
		g := one{granted: roles.NewGrants(t.Context(), store, log, roles.GrantsOptions{Issuer: identity.Issuer}), registry: tokens.NewRegistry(t.Context(), none, store, log)}
		g.browsers = tokens.NewBrowsers(g.registry, store, time.Hour, time.Hour, log)
		provider := newProvider(t, identity, g.granted)
		recorder, err := audit.NewRecorder(&heldLog{do: described}, prometheus.NewRegistry(), log)
		require.NoError(t, err)
		g.base = serve(t, gateway.Deps{
			Auth: oidc.WithProvider(provider, g.registry), Provider: provider, RoleGrants: g.granted, Tokens: g.registry, Browsers: g.browsers, Audit: recorder,
		}, gateway.Options{})
		return g
	}
	ana := userToken(t, identity, "ana@example.com", "admins")
	boss := run.BearerToken{Name: "boss", Scopes: []string{"admin"}}
	var session tokens.Login
	for name, tt := range map[string]struct {
		status int
		code   run.Code
		give   func(one) (header, value string, _ error)
		lose   func(one) error
	}{
		"role": {http.StatusForbidden, run.CodeForbidden, func(g one) (string, string, error) {
			_, _, err := g.granted.PutRoleGrants(t.Context(), run.RoleGrants{Name: "admins", Grants: []run.RoleGrant{{Members: "admins", Role: "admin", Groups: []string{"/**"}}}}, nil, "ops")
			return "Authorization", "Bearer " + ana, err
		}, func(g one) error { return g.granted.DeleteRoleGrants(t.Context(), "admins", nil, "ops") }},
		"token": {http.StatusUnauthorized, run.CodeTokenRevoked, func(g one) (string, string, error) {
			secret, _, err := g.registry.CreateToken(t.Context(), boss, "ops")
			return "Authorization", "Bearer " + secret, err
		}, func(g one) error { _, err := g.registry.RevokeToken(t.Context(), "boss", "ops"); return err }},
		"session": {http.StatusUnauthorized, run.CodeUnauthenticated, func(g one) (string, string, error) {
			secret, _, err := g.registry.CreateToken(t.Context(), boss, "ops")
			require.NoError(t, err)
			session, err = g.browsers.Begin(t.Context(), secret, "")
			return "Cookie", "drover_session=" + session.Secret, err
		}, func(g one) error { _, err := g.browsers.End(t.Context(), session.Secret, false); return err }},
	} {
		for _, c := range []struct {
			call
			described bool // its record is written again before the change
		}{
			{call{method: http.MethodPut, path: grantsPath + "admins", body: `{"grants": [{"members": "admins", "role": "admin", "groups": ["/**"]}]}`}, false},
			{call{method: http.MethodPut, path: grantsPath + "admins", body: `{"grants": [{"members": "admins", "role": "admin", "groups": ["/**"]}]}`}, true},
			{call{method: http.MethodDelete, path: grantsPath + "web", body: "{}"}, false},
			{call{method: http.MethodPost, path: "/api/v1/tokens", body: `{"name": "mine", "scopes": ["admin"]}`}, false},
			{call{method: http.MethodPost, path: "/api/v1/tokens", body: `{"name": "mine", "scopes": ["admin"]}`}, true},
			{call{method: http.MethodPost, path: "/api/v1/tokens/ci/revoke", body: "{}"}, false},
		} {
			store = newStore(t)
			here := start(nil)
			_, _, err := here.granted.PutRoleGrants(t.Context(), run.RoleGrants{Name: "web", Grants: []run.RoleGrant{}}, nil, "ops")
			require.NoError(t, err)
			_, _, err = here.registry.CreateToken(t.Context(), run.BearerToken{Name: "ci", Scopes: []string{"read"}}, "ops")
			require.NoError(t, err)
			header, value, err := tt.give(here)
			require.NoError(t, err)
			c.header = map[string]string{header: value}
			arriving, described := func() { require.NoError(t, tt.lose(here)) }, func() {}
			if c.described {
				arriving, described = described, arriving
			}
			there := start(described)
			got := c.held(t, there.base, arriving)
			require.Equal(t, tt.status, got.status, "%s: %s %s, described %t: %s", name, c.method, c.path, c.described, got.body)
			got.problem(t, tt.status, tt.code)
			after := start(nil)
			lists, err := after.granted.ListRoleGrants(t.Context())
			require.NoError(t, err)
			require.Len(t, lists.Stored, 1)
			require.Equal(t, "web", lists.Stored[0].Name)
			known, err := after.registry.ListTokens(t.Context())
			require.NoError(t, err)
			for _, x := range known {
				require.NotEqual(t, "mine", x.Name)
				require.True(t, x.Name == "boss" || x.RevokedAt.IsZero(), x.Name)
			}
		}
	}
}

// held makes a call whose body arrives after a function has returned.
func (c call) held(t *testing.T, base string, before func()) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, &heldBody{Reader: strings.NewReader(c.body), do: before})
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Expect", "100-continue")
	for k, v := range c.header {
		r.Header.Set(k, v)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Hour}}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, header: response.Header, body: string(data)}
}
