package clients

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestTokens: a token that an operator revokes is refused at once, also after a
// restart of the gateway, and one with an expiry after that time, each with a code
// of its own. Package internal/tokens tests several gateways.
func TestTokens(t *testing.T) {
	t.Parallel()
	parts := harness.StartParts(t, "1", nil)
	revoked, leaving := parts.TokenFor("ci", "read"), parts.TokenFor("leaving", "write")
	file := filepath.Join(parts.Dir, "tokens.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	first, last, ok := strings.Cut(string(text), "- name: leaving\n")
	require.True(t, ok)
	expires := time.Now().Add(10 * time.Second).UTC()
	require.NoError(t, os.WriteFile(file, []byte(first+"- name: leaving\n  expires: "+expires.Format(time.RFC3339)+"\n"+last), 0o600))

	answer := func(token string) string {
		status, body, err := harness.NewClient(t, parts.Server, token).Do(t.Context(), http.MethodGet, "/api/v1/runs", "", "")
		if err != nil {
			return err.Error()
		}
		if status == http.StatusUnauthorized {
			return body
		}
		return http.StatusText(status)
	}
	await := func(token, want string) {
		t.Helper()
		testenv.Await(t, func() (bool, string) {
			got := answer(token)
			return strings.Contains(got, want), got
		})
	}
	await(revoked, "OK")
	status, body, err := parts.Do(t.Context(), http.MethodPost, "/api/v1/tokens/ci/revoke", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, answer(revoked), `"token_revoked"`, "at once at the gateway that revoked it")
	parts.Processes[harness.Gateway].Kill()
	parts.Launch(harness.Gateway).AwaitReady()
	await(revoked, `"token_revoked"`)
	await(leaving, `"token_expired"`)
	require.Contains(t, answer("unknown"), `"unauthenticated"`)

	status, body, err = parts.Do(t.Context(), http.MethodGet, "/api/v1/tokens", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	for _, part := range []string{`"name":"ci"`, `"revoked_by":"admin"`, `"expires_at"`, `"last_used_at"`} {
		require.Contains(t, body, part)
	}
	require.NotContains(t, body, "sha256")
	status, _, err = harness.NewClient(t, parts.Server, parts.TokenFor("reader", "write")).Do(t.Context(), http.MethodGet, "/api/v1/tokens", "", "")
	require.NoError(t, err)
	require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, status, "only operators list tokens; the gateway may not know the token yet")
}
