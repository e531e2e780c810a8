package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

// newProvider returns the gateway's side of a provider, whose group platform has the scope
// admin.
func newProvider(t *testing.T, identity *testenv.Identity, granted roles.Subjects) *oidc.Provider {
	t.Helper()
	p, err := oidc.New(oidc.Options{
		Issuer: identity.Issuer, Name: "test", ClientID: testenv.IdentityClient, SubjectClaim: "email", SubjectPrefix: "oidc:", GroupsClaim: "groups",
		Bindings: []string{"group:platform=admin"}, Roles: granted, Transport: &http.Transport{DisableKeepAlives: true},
	})
	require.NoError(t, err)
	return p
}

// userToken returns a token of the provider for a user.
func userToken(t *testing.T, identity *testenv.Identity, email string, groups ...string) string {
	t.Helper()
	return identity.Sign(t, map[string]any{"email": email, "sub": email, "groups": groups, "exp": 3600})
}

// newUsers returns tenants whose principals are users of a provider. The name of each is
// that of a group of users with the role: every second grant is in a file, and the others are
// stored in the records.
func newUsers(t *testing.T, identity *testenv.Identity) tenants {
	t.Helper()
	auth, token := tenantUsers(t, identity)
	return tenantsOf(t, auth, token)
}

// tenantUsers returns the authenticator of these users, and the token of each.
func tenantUsers(t *testing.T, identity *testenv.Identity) (tokens.Authenticator, func(principal string) string) {
	t.Helper()
	var file strings.Builder
	stored := run.RoleGrants{Name: "tenants", UpdatedBy: "ops"}
	signed := map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(principals())) {
		b := principals()[name]
		if i%2 == 0 {
			fmt.Fprintf(&file, "- {members: %s, role: %s, groups: [%q]}\n", name, b.Role, b.Groups[0])
		} else {
			stored.Grants = append(stored.Grants, run.RoleGrant{Members: name, Role: string(b.Role), Groups: b.Groups})
		}
		signed[name] = userToken(t, identity, name+"@example.com", name)
	}
	path := filepath.Join(t.TempDir(), "roles.yaml")
	require.NoError(t, durable.WriteFile(path, []byte(file.String())))
	log := slog.New(slog.DiscardHandler)
	filed, err := roles.OpenFile(path, "", log)
	require.NoError(t, err)
	granted := newGrants(t, newStore(t), roles.GrantsOptions{Issuer: identity.Issuer, File: filed})
	_, _, err = granted.PutRoleGrants(t.Context(), stored, nil, "ops")
	require.NoError(t, err)
	none, err := tokens.NewList(nil)
	require.NoError(t, err)
	return oidc.WithProvider(newProvider(t, identity, granted), none), func(name string) string { return signed[name] }
}

// newGrants returns stored grants that are read again as in a gateway: they are in force for
// some minutes only.
func newGrants(t *testing.T, store roles.Store, opts roles.GrantsOptions) *roles.Grants {
	t.Helper()
	granted := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), opts)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = granted.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return granted
}

// newStore returns empty records.
func newStore(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// TestServer_roles_of_users: users of a provider have the roles that a file grants to them
// and to their groups, in browsers and with tokens of the provider. A change of the file
// changes what they may do, also in open streams.
func TestServer_roles_of_users(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	path := filepath.Join(t.TempDir(), "roles.yaml")
	grant := func(text string) {
		t.Helper()
		require.NoError(t, durable.WriteFile(path, []byte(text)))
	}
	grant("- {members: web, role: submitter, groups: [/acme/**]}\n- {subject: ana@example.com, role: admin, groups: [/**]}\n")
	log := slog.New(slog.DiscardHandler)
	granted, err := roles.OpenFile(path, "", log)
	require.NoError(t, err)
	provider := newProvider(t, identity, granted)
	store := newStore(t)
	bucket, err := blobs.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	e := engine.New(engine.Deps{Store: store, Logs: bucket, Logger: log})
	_, err = e.Register(t.Context(), run.Executor{ID: "host-1", Pool: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Slots: 1, JournalID: "j1"})
	require.NoError(t, err)
	none, err := tokens.NewList(nil)
	require.NoError(t, err)
	browsers := tokens.NewBrowsers(tokens.NewRegistry(t.Context(), none, store, log), store, time.Hour, time.Hour, log)
	browsers.Confirmation = tokens.Confirmation{Provider: provider, Every: time.Hour, Grace: time.Hour}
	base := serve(t, gateway.Deps{Runs: e, Auth: oidc.WithProvider(provider, none), Browsers: browsers, Provider: provider}, gateway.Options{Recheck: 10 * time.Millisecond})

	login, err := browsers.BeginIdentity(t.Context(), tokens.Grant{Identity: run.Identity{Issuer: identity.Issuer, Subject: "bob", Name: "bob@example.com", Groups: []string{"web"}}}, "")
	require.NoError(t, err)
	callers := map[string]map[string]string{
		"browser": {"Cookie": "drover_session=" + login.Secret},
		"bearer":  {"Authorization": "Bearer " + userToken(t, identity, "bob@example.com", "web")},
	}
	ana := map[string]string{"Authorization": "Bearer " + userToken(t, identity, "ana@example.com")}
	platform := map[string]string{"Authorization": "Bearer " + userToken(t, identity, "eve@example.com", "platform", "web")}
	stranger := map[string]string{"Authorization": "Bearer " + userToken(t, identity, "eve@example.com", "others")}
	submit := func(group string, header map[string]string) answer {
		return call{method: http.MethodPost, path: "/api/v1/runs", body: specOf(group), header: header}.do(t, base)
	}
	get := func(path string, header map[string]string) answer {
		return call{path: path, header: header}.do(t, base)
	}

	for name, header := range map[string]map[string]string{"a subject": ana, "a user with a scope, also with a role": platform} {
		require.Equal(t, http.StatusCreated, submit(theirs, header).status, name)
		require.Equal(t, http.StatusOK, get("/api/v1/executors", header).status, name)
	}
	require.Contains(t, get("/api/v1/session", platform).body, `"scopes":["admin"]`)
	refused := get("/api/v1/runs", stranger)
	require.Contains(t, refused.problem(t, http.StatusForbidden, run.CodeForbidden).Detail, "no grant of a role")
	_, err = browsers.BeginIdentity(t.Context(), tokens.Grant{Identity: run.Identity{Issuer: identity.Issuer, Subject: "eve", Name: "eve@example.com"}}, "")
	require.Equal(t, run.CodeForbidden, run.CodeOf(err))

	streams := map[string]*stream{}
	for name, header := range callers {
		require.Equal(t, http.StatusCreated, submit(ours, header).status, name)
		got := submit(theirs, header)
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
		list := get("/api/v1/runs", header)
		require.Equal(t, http.StatusOK, list.status, name)
		require.Contains(t, list.body, ours, name)
		require.NotContains(t, list.body, theirs, name)
		got = get("/api/v1/executors", header)
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
		who := get("/api/v1/session", header).body
		require.Contains(t, who, `"subject":"oidc:bob@example.com"`, name)
		require.Contains(t, who, `"scopes":[]`, name)
		streams[name] = open(t, base+"/api/v1/events?from=now", header)
	}

	await := func(header map[string]string, want string) {
		t.Helper()
		testenv.Await(t, func() (bool, string) {
			got := get("/api/v1/runs", header)
			return strings.Contains(got.body, want) && (want != theirs || !strings.Contains(got.body, ours)), got.body
		})
	}
	end := func(s *stream) string {
		t.Helper()
		e := s.next(t)
		for e.name != "problem" { // of the runs above
			e = s.next(t)
		}
		return e.data
	}
	grant("- {members: web, role: viewer, groups: [/other/**]}\n")
	for name, header := range callers {
		require.Contains(t, end(streams[name]), "the groups that oidc:bob@example.com may see have changed", name)
		await(header, theirs)
		streams[name] = open(t, base+"/api/v1/events?from=now", header)
	}
	grant("- {members: web, role: viewer, groups: [/other]}\n- not a grant")
	for name, header := range callers {
		require.Contains(t, get("/api/v1/runs", header).body, theirs, "%s: the broken file changes nothing", name)
	}
	grant("")
	for name, header := range callers {
		require.Contains(t, end(streams[name]), `"code":"forbidden"`, name)
		await(header, "no grant of a role")
	}
}
