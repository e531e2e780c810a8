package session

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

const lastGateway = "http://gateway"

// lastEnv is the environment of a user with a context, whose token is in a file.
func lastEnv(t *testing.T) (env Env, tokenFile string) {
	t.Helper()
	dir := t.TempDir()
	env = Env{UserConfigDir: func() (string, error) { return dir, nil }}.WithDefaults()
	tokenFile = filepath.Join(dir, "token")
	_, _, err := AddContext(env, "x", Context{Server: lastGateway, TokenFile: tokenFile}, nil)
	require.NoError(t, err)
	return env, tokenFile
}

// loginOf returns a login of a user as a token file has it.
func loginOf(t *testing.T, issuer, user string, expires time.Time) string {
	t.Helper()
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub": %q, "exp": %d}`, user, expires.Unix()))
	text, err := json.Marshal(Login{Issuer: issuer, IDToken: "x." + claims + ".x", RefreshToken: expires.String(), Expires: expires})
	require.NoError(t, err)
	return string(text)
}

// TestLastRun_of_each_caller checks that no caller gets the last run of another one, and
// that each keeps its own when its token is renewed.
func TestLastRun_of_each_caller(t *testing.T) {
	t.Parallel()
	env, file := lastEnv(t)
	other := filepath.Join(t.TempDir(), "other")
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	// connection returns a connection with a token in the file of the context, in another
	// file, or neither.
	connection := func(inContext, inFile, flag string) *Connection {
		require.NoError(t, os.WriteFile(file, []byte(inContext), 0o600))
		require.NoError(t, os.WriteFile(other, []byte(inFile), 0o600))
		c := New(env)
		c.token = flag
		if inFile != "" {
			c.tokenFile = other
		}
		return c
	}
	bob := loginOf(t, "https://idp", "bob", now)
	callers := []struct {
		name                    string
		inContext, inFile, flag string
	}{
		{"the context", "drover_a", "", ""},
		{"a token beside the context", "drover_a", "", "drover_b"},
		{"a token file", "drover_a", "drover_c", ""},
		{"bob, logged in", bob, "", ""},
		{"alice, logged in in the same context", loginOf(t, "https://idp", "alice", now), "", ""},
		{"bob of another provider", loginOf(t, "https://other", "bob", now), "", ""},
		{"a token beside a login", bob, "", "drover_d"},
	}
	for i, x := range callers {
		_, err := connection(x.inContext, x.inFile, x.flag).lastRun()
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), x.name)
		require.NoError(t, connection(x.inContext, x.inFile, x.flag).RememberRun(fmt.Sprint("run-", i)))
	}
	for i, x := range callers {
		got, err := connection(x.inContext, x.inFile, x.flag).lastRun()
		require.NoError(t, err, x.name)
		require.Equal(t, fmt.Sprint("run-", i), got, x.name)
	}
	renewed := loginOf(t, "https://idp", "bob", now.Add(time.Hour))
	for name, c := range map[string]struct{ inContext, inFile string }{"in the context": {renewed, ""}, "in another file": {"drover_a", renewed}} {
		got, err := connection(c.inContext, c.inFile, "").lastRun()
		require.NoError(t, err, name)
		require.Equal(t, "run-3", got, name)
	}
	got, err := connection("drover_replaced", "", "").lastRun()
	require.NoError(t, err)
	require.Equal(t, "run-0", got)
}

// TestLastRun_bound checks that the file keeps the newest runs.
func TestLastRun_bound(t *testing.T) {
	t.Parallel()
	env, file := lastEnv(t)
	require.NoError(t, os.WriteFile(file, []byte("drover_a"), 0o600))
	last := func(i int) *Connection {
		c := New(env)
		c.token = fmt.Sprint("drover_", i)
		return c
	}
	for i := range 3 * maxLastRuns {
		require.NoError(t, last(i).RememberRun(fmt.Sprintf("01k8z3m6w4v6q2d1c9x7b%05d", i)))
		require.NoError(t, last(i).RememberRun(fmt.Sprintf("01k8z3m6w4v6q2d1c9x7c%05d", i)), "a run with the same token")
	}
	all, err := readLastRuns(filepath.Join(filepath.Dir(file), "drover", lastRunsFile))
	require.NoError(t, err)
	require.Len(t, all, maxLastRuns)
	for i := range 3 * maxLastRuns {
		_, err := last(i).lastRun()
		require.Equal(t, i < 2*maxLastRuns, err != nil, i)
	}
}
