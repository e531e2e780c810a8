package roles_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

const issuer = "https://login.example.com"

// fakeStore is a roles.Store without versions.
type fakeStore struct {
	mu    sync.Mutex
	lists []run.RoleGrants
	err   error // of all calls
	reads error // of reads
}

func (s *fakeStore) failReads(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = err
}

// ListRoleGrants implements roles.Store.
func (s *fakeStore) ListRoleGrants(context.Context) ([]run.RoleGrants, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lists), errors.Join(s.err, s.reads)
}

// PutRoleGrants implements roles.Store.
func (s *fakeStore) PutRoleGrants(_ context.Context, g run.RoleGrants, _ *int64) (run.RoleGrants, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.lists)
	s.lists = slices.DeleteFunc(s.lists, func(x run.RoleGrants) bool { return x.Name == g.Name })
	s.lists = append(s.lists, g)
	return g, len(s.lists) > n, s.err
}

// DeleteRoleGrants implements roles.Store.
func (s *fakeStore) DeleteRoleGrants(_ context.Context, name string, _ *int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = slices.DeleteFunc(s.lists, func(x run.RoleGrants) bool { return x.Name == name })
	return s.err
}

func (s *fakeStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) set(lists ...run.RoleGrants) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = lists
}

func listOf(name string, grants ...run.RoleGrant) run.RoleGrants {
	return run.RoleGrants{Name: name, Issuer: issuer, Grants: grants}
}

func toMembers(members, role string, groups ...string) run.RoleGrant {
	return run.RoleGrant{Members: members, Role: role, Groups: groups}
}

func toSubject(subject, role string, groups ...string) run.RoleGrant {
	return run.RoleGrant{Subject: subject, Role: role, Groups: groups}
}

func code(err error) run.Code { return run.CodeOf(err) }

// TestGrants_refresh: a gateway applies what it stored at once, and what another one stored
// within a few seconds. A failure of the store keeps what is known.
func TestGrants_refresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		store, log, opts := &fakeStore{}, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer}
		store.fail(run.Errorf(run.CodeUnavailable, "no answer"))
		first, second := roles.NewGrants(ctx, store, log, opts), roles.NewGrants(ctx, store, log, opts)
		for _, g := range []*roles.Grants{first, second} {
			go func() { _ = g.Run(ctx) }()
			_, err := g.BindingsOf("ana", nil)
			require.Equal(t, run.CodeUnavailable, code(err), "the grants are not known yet")
		}
		store.fail(nil)
		<-time.After(3 * time.Second)
		require.Empty(t, bindingsOf(t, second, "ana"))

		_, created, err := first.PutRoleGrants(ctx, listOf("web", toMembers("web", "submitter", "/acme/**")), nil, "ops")
		require.NoError(t, err)
		require.True(t, created)
		want := roles.Bindings{bound(roles.Submitter, "/acme/**")}
		require.Equal(t, want, bindingsOf(t, first, "ana", "web"))
		require.Empty(t, bindingsOf(t, first, "web", "ana"))
		<-time.After(3 * time.Second)
		require.Equal(t, want, bindingsOf(t, second, "ana", "web"))

		store.set()
		store.fail(run.Errorf(run.CodeUnavailable, "no answer"))
		<-time.After(30 * time.Second)
		require.Equal(t, want, bindingsOf(t, first, "ana", "web"), "the last known grants")
		<-time.After(time.Hour)
		_, err = first.BindingsOf("ana", []string{"web"})
		require.Equal(t, run.CodeUnavailable, code(err), "one of them may have been withdrawn")
		_, err = first.ListRoleGrants(ctx)
		require.Equal(t, run.CodeUnavailable, code(err))
		_, _, err = first.PutRoleGrants(ctx, listOf("web"), nil, "ops")
		require.Equal(t, run.CodeUnavailable, code(err))

		store.fail(nil)
		<-time.After(3 * time.Second)
		require.Empty(t, bindingsOf(t, first, "ana", "web"))
		require.Empty(t, bindingsOf(t, second, "ana", "web"))
		_, _, err = second.PutRoleGrants(ctx, listOf("web", toMembers("web", "viewer", "/acme/**")), nil, "ops")
		require.NoError(t, err)
		require.NoError(t, second.DeleteRoleGrants(ctx, "web", nil, "ops"))
		require.Empty(t, bindingsOf(t, second, "ana", "web"))
	})
}

// TestGrants_union: a user has the roles of all matching grants, in the file and stored ones.
func TestGrants_union(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "roles.yaml")
	require.NoError(t, durable.WriteFile(path, []byte("- {members: web, role: submitter, groups: [/acme/web/**]}\n- {subject: \"*\", role: viewer, groups: [/shared/**]}\n")))
	log := slog.New(slog.DiscardHandler)
	file, err := roles.OpenFile(path, "", log)
	require.NoError(t, err)
	store := &fakeStore{}
	store.set(listOf("a", toMembers("web", "submitter", "/acme/**")), listOf("b", toSubject("ana", "admin", "/x/**"), toSubject("*", "viewer", "/shared/a/**", "/y/**")),
		run.RoleGrants{Name: "c", Issuer: "https://example.org", Grants: []run.RoleGrant{toSubject("ana", "admin", "/**")}},
		listOf("d", run.RoleGrant{Subject: "ana", Members: "web", Role: "admin", Groups: []string{"/**"}}, toSubject("ana", "owner", "/**"), toSubject("ana", "admin", "/a*/**")))
	g := roles.NewGrants(t.Context(), store, log, roles.GrantsOptions{Issuer: issuer, File: file})
	everybody := bound(roles.Viewer, "/shared/**", "/y/**")
	require.Equal(t, roles.Bindings{everybody}, bindingsOf(t, g, "bob"))
	require.Equal(t, roles.Bindings{everybody}, bindingsOf(t, g, "*", "", "*", "ana"))
	require.Equal(t, roles.Bindings{everybody, bound(roles.Submitter, "/acme/**")}, bindingsOf(t, g, "bob", "web", "web"))
	require.Equal(t, roles.Bindings{everybody, bound(roles.Submitter, "/acme/**"), bound(roles.Admin, "/x/**")}, bindingsOf(t, g, "ana", "web"))

	v, err := g.ListRoleGrants(t.Context())
	require.NoError(t, err)
	require.Equal(t, issuer, v.Issuer)
	require.Len(t, v.File, 2)
	require.Equal(t, toSubject("*", "viewer", "/shared/**"), v.File[1])
	require.Len(t, v.Stored, 4)
	require.Equal(t, 3, v.Stored[3].Unknown, "grants that this version may misunderstand have no effect")
	require.Empty(t, v.Stored[3].Grants)
	_, err = g.GetRoleGrants(t.Context(), "b")
	require.NoError(t, err)
	_, err = g.GetRoleGrants(t.Context(), "x")
	require.Equal(t, run.CodeNotFound, code(err))
}

// many returns n patterns.
func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("/g%d/**", i)
	}
	return out
}

// TestGrants_limit: grants with which a user would have too many patterns, and so no access,
// are refused if they name the user or all users.
func TestGrants_limit(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	g := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer})
	put := func(name string, grants ...run.RoleGrant) []run.Fault {
		t.Helper()
		_, _, err := g.PutRoleGrants(t.Context(), listOf(name, grants...), nil, "ops")
		if err == nil {
			return nil
		}
		require.Equal(t, run.CodeInvalid, code(err))
		return err.(*run.Error).Faults //nolint:errorlint,forcetypeassert // as the code says
	}
	require.Empty(t, put("a", toSubject("ana", "viewer", many(30)...), toMembers("web", "viewer", many(30)...)))
	faults := put("b", toMembers("other", "viewer", "/x/**"), toSubject("ana", "submitter", many(30)...))
	require.Len(t, faults, 1)
	require.Equal(t, "grants[1].groups", faults[0].Path)
	require.Equal(t, "with the grants in force, user ana would have 60 patterns of groups, including patterns that others cover; the limit is 50", faults[0].Detail)
	faults = put("b", toSubject("*", "submitter", many(25)...))
	require.Len(t, faults, 2)
	require.Contains(t, faults[0].Detail, "each member of web would have 55 patterns")
	require.Equal(t, "grants[0].groups", faults[1].Path)
	faults = put("b", toSubject("*", "submitter", many(26)...), toSubject("*", "approver", many(25)...))
	require.Len(t, faults, 3)
	require.Contains(t, faults[1].Detail, "every user would have 51 patterns")
	require.Empty(t, put("b", toSubject("ana", "viewer", "/**")), "it stands for the other patterns")
	require.Empty(t, put("c", toSubject("ana", "viewer", "/b/**"), toMembers("x", "viewer", many(50)...)))
	store.set(append(store.lists, listOf("d", toMembers("x", "submitter", "/b/**")))...)
	require.Empty(t, put("c", toMembers("x", "viewer", many(50)...)), "it had too many before")
	require.Len(t, put("c", toMembers("x", "viewer", many(50)...), toMembers("x", "approver", "/b/**")), 1)
}

// TestGrants_limit_after_a_deletion: what covers many patterns may be deleted or replaced
// later, and the users must still have access then.
func TestGrants_limit_after_a_deletion(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(*roles.Grants) error{
		"deleted": func(g *roles.Grants) error { return g.DeleteRoleGrants(t.Context(), "a", nil, "ops") },
		"replaced": func(g *roles.Grants) error {
			_, _, err := g.PutRoleGrants(t.Context(), listOf("a"), nil, "ops")
			return err
		},
	} {
		g := roles.NewGrants(t.Context(), &fakeStore{}, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer})
		put := func(list string, grants ...run.RoleGrant) error {
			_, _, err := g.PutRoleGrants(t.Context(), listOf(list, grants...), nil, "ops")
			return err
		}
		require.NoError(t, put("a", toSubject("ana", "viewer", "/**")))
		require.NoError(t, put("b", toSubject("ana", "viewer", many(49)...)))
		require.Equal(t, run.CodeInvalid, code(put("c", toSubject("ana", "viewer", "/h/**", "/i/**"))), name)
		require.NoError(t, put("c", toSubject("ana", "viewer", many(49)...)), "the same patterns count once")
		require.NoError(t, withdraw(g))
		left := bindingsOf(t, g, "ana")
		require.NoError(t, left.Validate(), name)
		require.Len(t, left[0].Groups, 49)
	}
}

// TestGrants_of_others: a list that another gateway stored is not replaced if that would
// give its roles to other people, or lose grants.
func TestGrants_of_others(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	newer := listOf("newer", toSubject("ana", "viewer", "/a/**"))
	newer.Unknown = 2
	store.set(run.RoleGrants{Name: "foreign", Issuer: "https://example.org", Grants: []run.RoleGrant{toSubject("ana", "admin", "/**")}}, newer)
	g := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer})
	for name, want := range map[string]string{"foreign": "are for the users of https://example.org", "newer": "2 grants that a newer version"} {
		_, _, err := g.PutRoleGrants(t.Context(), listOf(name, toSubject("ana", "admin", "/**")), nil, "ops")
		require.Equal(t, run.CodeConflict, code(err), name)
		require.ErrorContains(t, err, want)
		require.NoError(t, g.DeleteRoleGrants(t.Context(), name, nil, "ops"))
		_, created, err := g.PutRoleGrants(t.Context(), listOf(name, toSubject("ana", "admin", "/**")), nil, "ops")
		require.NoError(t, err)
		require.True(t, created)
	}
}

// TestGrants_size: gateways read all grants every few seconds, so all of them together have
// a limit.
func TestGrants_size(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	g := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer})
	var big []run.RoleGrant
	for i := range 100 {
		grant := toMembers(fmt.Sprintf("team-%d", i), "viewer")
		for j := range 50 {
			grant.Groups = append(grant.Groups, fmt.Sprintf("/%s%02d/**", strings.Repeat("a", 100), j))
		}
		big = append(big, grant)
	}
	_, _, err := g.PutRoleGrants(t.Context(), listOf("a", big...), nil, "ops")
	require.NoError(t, err)
	_, _, err = g.PutRoleGrants(t.Context(), listOf("a", big[1:]...), nil, "ops")
	require.NoError(t, err, "it replaces the other")
	_, _, err = g.PutRoleGrants(t.Context(), listOf("b", big...), nil, "ops")
	require.Equal(t, run.CodeExhausted, code(err))
}

// TestGrants_stored_but_not_applied: a client learns that its change has no effect yet.
func TestGrants_stored_but_not_applied(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	g := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer})
	_, _, err := g.PutRoleGrants(t.Context(), listOf("web", toMembers("web", "viewer", "/acme/**")), nil, "ops")
	require.NoError(t, err)
	store.failReads(run.Errorf(run.CodeUnavailable, "no answer"))
	err = g.DeleteRoleGrants(t.Context(), "web", nil, "ops")
	require.Equal(t, run.CodeUnavailable, code(err))
	require.ErrorContains(t, err, "the change is stored")
}

func TestGrants_overridden(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	g := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer, Overridden: `"*=read" in gateway.oidc.bindings`})
	_, _, err := g.PutRoleGrants(t.Context(), listOf("web"), nil, "ops")
	require.Equal(t, run.CodeNotSupported, code(err))
	require.ErrorContains(t, err, `"*=read" in gateway.oidc.bindings gives a scope to all users`)
}

func TestCheckGrants(t *testing.T) {
	t.Parallel()
	require.Empty(t, roles.CheckGrants([]run.RoleGrant{toSubject("*", "viewer", "/**"), toMembers("CN=ops,OU=it", "admin", many(50)...)}))
	long := string(make([]byte, run.MaxRoleSubject+1))
	for want, g := range map[string]run.RoleGrant{
		"grants[0] required":             {Role: "admin", Groups: []string{"/**"}},
		"grants[0] contradiction":        {Subject: "a", Members: "b", Role: "admin", Groups: []string{"/**"}},
		"grants[0].subject over_limit":   toSubject(long, "admin", "/**"),
		"grants[0].subject bad_format":   toSubject("a\n", "admin", "/**"),
		"grants[0].members bad_format":   toMembers(" a", "admin", "/**"),
		"grants[0].role required":        toSubject("a", "", "/**"),
		"grants[0].role bad_value":       toSubject("a", "Admin", "/**"),
		"grants[0].groups required":      toSubject("a", "admin"),
		"grants[0].groups over_limit":    toSubject("a", "admin", many(51)...),
		"grants[0].groups[1] bad_format": toSubject("a", "admin", "/**", "/acme"),
	} {
		faults := roles.CheckGrants([]run.RoleGrant{g})
		require.Len(t, faults, 1, want)
		require.Equal(t, want, faults[0].Path+" "+string(faults[0].Code))
		require.NotEmpty(t, faults[0].Detail)
	}
	require.Equal(t, "grants", roles.CheckGrants(slices.Repeat([]run.RoleGrant{toSubject("a", "admin", "/**")}, run.MaxRoleGrants+1))[0].Path)
}

// TestGrants_with_the_prefix: Drover shows a user as oidc:ana@example.com, and the provider
// names the same user without the prefix. A grant with it would never match.
func TestGrants_with_the_prefix(t *testing.T) {
	t.Parallel()
	for prefix, refused := range map[string]bool{"oidc:": true, "sso:": true, "": false, "ci-": false, "auth0|": false, "sso/": false} {
		store := &fakeStore{}
		g := roles.NewGrants(t.Context(), store, slog.New(slog.DiscardHandler), roles.GrantsOptions{Issuer: issuer, UserPrefix: prefix})
		_, _, err := g.PutRoleGrants(t.Context(), listOf("web", toMembers(prefix+"web", "viewer", "/**"), toSubject(prefix+"ana", "viewer", "/**")), nil, "ops")
		if !refused {
			require.NoError(t, err, "%q: other names may begin so", prefix)
			continue
		}
		require.Equal(t, run.CodeInvalid, code(err), prefix)
		require.Equal(t, []run.Fault{{
			Path: "grants[1].subject", Code: run.FaultBadValue, Detail: "the user is named as the provider does, without " + prefix + " (gateway.oidc.subject_prefix): ana",
		}}, err.(*run.Error).Faults) //nolint:errorlint,forcetypeassert // as the code says
		_, _, err = g.PutRoleGrants(t.Context(), listOf("web", toSubject("ana", "viewer", "/**"), toSubject("*", "viewer", "/**")), nil, "ops")
		require.NoError(t, err)
	}
}
