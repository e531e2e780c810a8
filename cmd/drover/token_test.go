package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// runTokens runs the command tokens, and returns its output.
func runTokens(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	env := session.Env{Stdout: &out, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }}.WithDefaults()
	cmd := tokensCommand(env)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return strings.TrimSpace(out.String()), err
}

func TestTokens_create_with_bindings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	inFile, err := runTokens(t, "create", "--name", "acme", "--bind", "submitter=/acme/**,/shared/**", "--file", file)
	require.NoError(t, err)
	admin, err := runTokens(t, "create", "--name", "ops", "--scopes", "admin", "--file", file)
	require.NoError(t, err)
	for _, args := range [][]string{
		{"--bind", "owner=/acme/**"}, {"--bind", "viewer"}, {"--bind", "viewer=/acme"}, {"--bind", "viewer=/**", "--scopes", "read"},
	} {
		_, err = runTokens(t, append([]string{"create", "--name", "other", "--file", file}, args...)...)
		require.Error(t, err, args)
	}

	logger := slog.New(slog.DiscardHandler)
	listed, err := tokens.OpenFile(file, logger)
	require.NoError(t, err)
	p, ok := listed.Authenticate(inFile)
	require.True(t, ok)
	require.True(t, p.Roles.Allows(roles.Submit, "/shared/x"))

	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	registry := tokens.NewRegistry(t.Context(), listed, store, logger)
	g, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, Auth: registry, Tokens: registry, Logger: logger}, gateway.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	at := []string{"--server", server.URL, "--token"}
	made, err := runTokens(t, append([]string{"create", "--name", "web", "--bind", "viewer=/acme/web/**", "--expires-in", "1h"}, append(at, admin)...)...)
	require.NoError(t, err)
	p, ok = registry.Authenticate(made)
	require.True(t, ok)
	require.Equal(t, roles.Bindings{{Role: roles.Viewer, Groups: []string{"/acme/web/**"}}}, p.Roles)
	_, err = runTokens(t, append([]string{"create", "--name", "more", "--bind", "admin=/**"}, append(at, made)...)...)
	require.ErrorContains(t, err, "does not have the role admin")

	list, err := runTokens(t, append([]string{"list"}, append(at, admin)...)...)
	require.NoError(t, err)
	require.Contains(t, list, "viewer of /acme/web/**")
	require.Contains(t, list, "submitter of /acme/** /shared/**")
	_, err = runTokens(t, append([]string{"revoke", "web"}, append(at, admin)...)...)
	require.NoError(t, err)
	_, ok = registry.Authenticate(made)
	require.False(t, ok)
}

// TestTokens_create_in_a_file_reserves_names: the names that a gateway refuses to create are
// refused for its token file too.
func TestTokens_create_in_a_file_reserves_names(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	for name, why := range map[string]string{
		"local": "clients of a gateway without tokens", "schedule:nightly": "runs of schedules", "oidc:ana@example.com": "gateway.oidc.subject_prefix",
		strings.Repeat("x", run.MaxNameLength+1): "at most", "a\nb": "no control characters",
	} {
		_, err := runTokens(t, "create", "--name", name, "--file", file)
		require.ErrorContains(t, err, why, name)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), name)
		require.NoFileExists(t, file)
	}
	_, err := runTokens(t, "create", "--name", "locally", "--file", file)
	require.NoError(t, err)
}
