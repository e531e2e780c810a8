package tokens_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/cli/tokens"
)

func gateway(t *testing.T, calls *[]string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*calls = append(*calls, r.Method+" "+r.URL.EscapedPath())
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"name":"a b","scopes":["read"],"revoked_at":"2026-01-02T03:04:05Z","revoked_by":"me"}`)
			return
		}
		_, _ = io.WriteString(w, `{"tokens":[
			{"name":"admin","scopes":["admin"],"last_used_at":"`+time.Now().Add(-time.Hour).Format(time.RFC3339)+`"},
			{"name":"ci","scopes":["read","write"],"expires_at":"2026-01-02T03:04:05Z"},
			{"name":"host-7","scopes":["executor"],"executor":"host-7","pool":"linux","revoked_at":"2026-01-02T03:04:05Z","revoked_by":"admin"}]}`)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestTokens(t *testing.T) {
	t.Parallel()
	var calls []string
	server := gateway(t, &calls)
	var out bytes.Buffer
	env := session.Env{Stdout: &out, Stderr: io.Discard, Location: time.UTC, LookupEnv: func(name string) (string, bool) {
		return server.URL, name == "DROVER_SERVER"
	}}.WithDefaults()
	list := tokens.ListCommand(env)
	list.SetArgs(nil)
	require.NoError(t, list.ExecuteContext(t.Context()))
	for _, want := range []string{"admin +admin +- +valid +", "ci +read,write +- +expired +.*never", "host-7 +executor +executor host-7, pool linux +revoked +"} {
		require.Regexp(t, want, out.String())
	}

	out.Reset()
	list = tokens.ListCommand(env)
	list.SetArgs([]string{"-o", "json"})
	require.NoError(t, list.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), `"revoked_by"`)

	out.Reset()
	conn := session.New(env)
	revoke := &cobra.Command{RunE: func(c *cobra.Command, _ []string) error { return tokens.Revoke(c, env, conn, "a b") }}
	conn.AddTo(revoke)
	revoke.SetArgs(nil)
	require.NoError(t, revoke.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), "token a b is revoked")
	require.Equal(t, "POST /api/v1/tokens/a%20b/revoke", calls[len(calls)-1])
}
