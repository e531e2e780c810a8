package tokens

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// TestRegistry_creates: a created token is accepted at its gateway at once, and at the
// others within ten seconds, with its bindings, until it expires or is revoked.
func TestRegistry_creates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		store, logger := newFakeRecords(), slog.New(slog.DiscardHandler)
		list := listOf(t, entry("ops", "one"))
		first, second := NewRegistry(ctx, list, store, logger), NewRegistry(ctx, list, store, logger)
		for _, r := range []*Registry{first, second} {
			go func() { _ = r.Run(ctx) }()
		}
		bindings := []run.RoleBinding{{Role: "viewer", Groups: []string{"/acme/**"}}}
		secret, made, err := first.CreateToken(ctx, run.BearerToken{Name: "ci", Bindings: bindings, Expires: time.Now().Add(time.Hour)}, "ops")
		require.NoError(t, err)
		require.Equal(t, bindings, made.Bindings)
		p, ok := first.Authenticate(secret)
		require.True(t, ok)
		require.Equal(t, "ci", p.Name)
		require.True(t, p.Roles.Allows(roles.View, "/acme/web"))
		require.True(t, p.Restricted())
		require.Equal(t, run.CodeUnauthenticated, code(second, secret))
		<-time.After(10 * time.Second)
		require.Empty(t, code(second, secret))
		_, ok = second.AuthenticateHash(Hash(secret))
		require.True(t, ok)
		all, err := second.ListTokens(ctx)
		require.NoError(t, err)
		require.Len(t, all, 2)

		<-time.After(time.Hour)
		require.Equal(t, run.CodeTokenExpired, code(second, secret))
		secret, _, err = first.CreateToken(ctx, run.BearerToken{Name: "deploy", Scopes: []string{"write"}}, "ops")
		require.NoError(t, err)
		require.Empty(t, code(first, secret))
		_, err = first.RevokeToken(ctx, "deploy", "ops")
		require.NoError(t, err)
		require.Equal(t, run.CodeTokenRevoked, code(first, secret))
		<-time.After(10 * time.Second)
		require.Equal(t, run.CodeTokenRevoked, code(second, secret))
	})
}

func TestRegistry_creates_not(t *testing.T) {
	t.Parallel()
	r := NewRegistry(t.Context(), listOf(t, entry("ops", "one")), newFakeRecords(), slog.New(slog.DiscardHandler))
	_, _, err := r.CreateToken(t.Context(), run.BearerToken{Name: "ci", Scopes: []string{"read"}}, "ops")
	require.NoError(t, err)
	both := []run.RoleBinding{{Role: "viewer", Groups: []string{"/**"}}}
	for want, x := range map[string]run.BearerToken{
		"named ci": {Name: "ci", Scopes: []string{"read"}}, "named ops": {Name: "ops", Scopes: []string{"read"}}, "no scopes": {Name: "a"},
		"both scopes": {Name: "a", Scopes: []string{"read"}, Bindings: both}, "token files": {Name: "a", Scopes: []string{"executor"}},
		"not a role": {Name: "a", Bindings: []run.RoleBinding{{Role: "owner", Groups: []string{"/**"}}}}, "no name": {Bindings: both},
		"expired already": {Name: "a", Bindings: both, Expires: time.Now().Add(-time.Second)},
	} {
		_, _, err := r.CreateToken(t.Context(), x, "ops")
		require.ErrorContains(t, err, want)
	}
}

// TestRegistry_revokes_all_of_a_name: an entry of a token file may have the name of a
// token that a client created before.
func TestRegistry_revokes_all_of_a_name(t *testing.T) {
	t.Parallel()
	store, logger := newFakeRecords(), slog.New(slog.DiscardHandler)
	secret, _, err := NewRegistry(t.Context(), listOf(t, entry("ops", "one")), store, logger).
		CreateToken(t.Context(), run.BearerToken{Name: "ci", Scopes: []string{"write"}}, "ops")
	require.NoError(t, err)
	var log bytes.Buffer
	r := NewRegistry(t.Context(), listOf(t, entry("ops", "one"), entry("ci", "two")), store, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	require.Empty(t, code(r, secret))
	require.Empty(t, code(r, "two"))
	all, err := r.ListTokens(t.Context())
	require.NoError(t, err)
	var listed []string
	for _, x := range all {
		listed = append(listed, x.Name+" by "+x.CreatedBy)
	}
	require.ElementsMatch(t, []string{"ci by ops", "ci by ", "ops by "}, listed, "both are shown")
	require.Equal(t, 1, strings.Count(log.String(), "name=ci"), "once: %s", log.String())
	require.NoError(t, r.Refresh(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "name=ci"), "once: %s", log.String())
	require.NotContains(t, log.String(), "name=ops")
	_, err = r.RevokeToken(t.Context(), "ci", "ops")
	require.NoError(t, err)
	require.Equal(t, run.CodeTokenRevoked, code(r, "two"))
	require.Equal(t, run.CodeTokenRevoked, code(r, secret))
	require.Empty(t, code(r, "one"))
}

// TestRegistry_reserves_names: a token with the name of another kind of subject would be
// that subject in approvals, secrets and idempotency keys. Tokens from before are logged.
func TestRegistry_reserves_names(t *testing.T) {
	t.Parallel()
	reserved := map[string]string{
		"local": "clients of a gateway without tokens", "schedule:nightly": "runs of schedules", "oidc:ana@example.com": "gateway.oidc.subject_prefix", "oidc:": "gateway.oidc.subject_prefix",
	}
	store := newFakeRecords()
	store.records[Hash("old")] = run.TokenRecord{Name: "schedule:old", Hash: Hash("old"), Entry: &run.TokenEntry{Scopes: []string{"read"}}}
	entries := []Token{entry("ops", "one")}
	for name := range reserved {
		entries = append(entries, entry(name, name))
	}
	var log bytes.Buffer
	r := NewRegistry(t.Context(), listOf(t, entries...), store, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	r.UserPrefix = "oidc:"
	for range 2 {
		require.NoError(t, r.Refresh(t.Context()))
	}
	for name := range reserved {
		require.Empty(t, code(r, name), "entries of files stay valid")
		require.Equal(t, 1, strings.Count(log.String(), "name="+name+" "), "%s: %s", name, log.String())
	}
	require.Empty(t, code(r, "old"))
	require.Equal(t, 1, strings.Count(log.String(), "name=schedule:old "), log.String())
	require.NotContains(t, log.String(), "name=ops")

	r = NewRegistry(t.Context(), listOf(t, entry("ops", "one")), newFakeRecords(), slog.New(slog.DiscardHandler))
	r.UserPrefix = "oidc:"
	for name, why := range reserved {
		_, _, err := r.CreateToken(t.Context(), run.BearerToken{Name: name, Scopes: []string{"read"}}, "ops")
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), name)
		require.ErrorContains(t, err, why, name)
	}
	for _, name := range []string{"locally", "schedules", "oidc", "ana@example.com"} {
		_, _, err := r.CreateToken(t.Context(), run.BearerToken{Name: name, Scopes: []string{"read"}}, "ops")
		require.NoError(t, err)
	}
	r.UserPrefix = ""
	_, _, err := r.CreateToken(t.Context(), run.BearerToken{Name: "oidc:ana", Scopes: []string{"read"}}, "ops")
	require.NoError(t, err, "without a prefix, no name is a user's")
}

// TestRegistry_creates_a_limited_number: each gateway has all created tokens in memory.
func TestRegistry_creates_a_limited_number(t *testing.T) {
	t.Parallel()
	store := newFakeRecords()
	for i := range 9_999 {
		name := "t" + strconv.Itoa(i)
		store.records[Hash(name)] = run.TokenRecord{Name: name, Hash: Hash(name), Entry: &run.TokenEntry{Scopes: []string{"read"}}}
	}
	r := NewRegistry(t.Context(), listOf(t, entry("ops", "one")), store, slog.New(slog.DiscardHandler))
	_, _, err := r.CreateToken(t.Context(), run.BearerToken{Name: "last", Scopes: []string{"read"}}, "ops")
	require.NoError(t, err)
	_, _, err = r.CreateToken(t.Context(), run.BearerToken{Name: "more", Scopes: []string{"read"}}, "ops")
	require.Equal(t, run.CodeExhausted, run.CodeOf(err))
	_, err = r.RevokeToken(t.Context(), "last", "ops")
	require.NoError(t, err)
	_, _, err = r.CreateToken(t.Context(), run.BearerToken{Name: "more", Scopes: []string{"read"}}, "ops")
	require.NoError(t, err)
}
