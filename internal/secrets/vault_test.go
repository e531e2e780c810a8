package secrets_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/secrets"
	"github.com/drover-run/drover/run"
)

// fakeVault is a fake of the part of Vault's API that package secrets uses (its
// documentation: auth/approle, and KV secrets engine version 2). It can inject
// faults.
type fakeVault struct {
	mu      sync.Mutex
	token   string // the valid token
	id      string // the secret id of the role "drover"
	secrets map[string]map[string]any
	fault   int // the status of all responses, if not 0
	logins  int
}

func (f *fakeVault) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // the client may be gone
	}
	refuse := func(status int, text string) { answer(status, map[string]any{"errors": []string{text}}) }
	switch {
	case f.fault != 0:
		refuse(f.fault, "injected")
	case r.URL.Path == "/v1/auth/approle/login":
		var login struct {
			RoleID   string `json:"role_id"`
			SecretID string `json:"secret_id"`
		}
		if json.NewDecoder(r.Body).Decode(&login) != nil || login.RoleID != "drover" || login.SecretID != f.id {
			refuse(http.StatusBadRequest, "invalid role or secret ID")
			return
		}
		f.logins++
		answer(http.StatusOK, map[string]any{"auth": map[string]any{"client_token": f.token}})
	case r.Header.Get("X-Vault-Token") != f.token:
		refuse(http.StatusForbidden, "permission denied")
	case r.URL.Path == "/v1/secret/data/drover/barred":
		refuse(http.StatusForbidden, "permission denied")
	case r.URL.Path == "/v1/secret/data/drover/deleted":
		answer(http.StatusNotFound, map[string]any{"data": map[string]any{"data": nil, "metadata": map[string]any{"version": 1, "deletion_time": "2026-01-01T00:00:00Z"}}})
	case f.secrets[r.URL.Path] == nil:
		answer(http.StatusNotFound, map[string]any{"errors": []string{}})
	default:
		answer(http.StatusOK, map[string]any{"data": map[string]any{"data": f.secrets[r.URL.Path], "metadata": map[string]any{"version": 3}}})
	}
}

// newVault returns a fake, and a set whose provider "vault" uses it.
func newVault(t *testing.T) (*fakeVault, *secrets.Set, string) {
	t.Helper()
	f := &fakeVault{token: rand.Text(), id: rand.Text(), secrets: map[string]map[string]any{
		"/v1/secret/data/drover/app/db": {"password": rand.Text(), "port": 5432, "hosts": []string{"a", "b"}},
		"/v1/secret/data/other":         {"password": "not for runs"},
	}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "secret-id")
	require.NoError(t, os.WriteFile(file, []byte(f.id+"\n"), 0o600))
	s, err := open(t, "providers: {vault: {type: vault, prefix: drover/, address: '"+server.URL+"', approle: {role_id: drover, secret_id_file: "+file+"}}}")
	require.NoError(t, err)
	return f, s, file
}

func TestVault(t *testing.T) {
	t.Parallel()
	f, s, _ := newVault(t)
	db := f.secrets["/v1/secret/data/drover/app/db"]
	for name, c := range map[string]struct {
		name, key string
		value     any
		code      run.Code
		text      string
	}{
		"text":      {"app/db", "password", db["password"], "", ""},
		"number":    {"app/db", "port", "5432", "", ""},
		"list":      {"app/db", "hosts", `["a","b"]`, "", ""},
		"no key":    {"app/db", "user", "", run.CodeNotFound, `secret/drover/app/db has no key "user"`},
		"key unset": {"app/db", "", "", run.CodeInvalid, "named by name and key"},
		"no secret": {"app/x", "password", "", run.CodeNotFound, "Vault has no secret/drover/app/x"},
		"above":     {"other", "password", "", run.CodeNotFound, "Vault has no secret/drover/other"},
		"deleted":   {"deleted", "password", "", run.CodeNotFound, "deleted"},
		"barred":    {"barred", "password", "", run.CodeForbidden, "does not let the gateway read secret/drover/barred"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := resolve(t, s, "/a/b", run.SecretRef{Provider: "vault", Name: c.name, Key: c.key})
			require.Equal(t, c.code, run.CodeOf(err), "%v", err)
			if c.text != "" {
				require.ErrorContains(t, err, c.text)
				return
			}
			require.Equal(t, c.value, value)
		})
	}
}

func TestVault_faults(t *testing.T) {
	t.Parallel()
	f, s, file := newVault(t)
	ref := run.SecretRef{Provider: "vault", Name: "app/db", Key: "port"}
	get := func() (string, error) { return resolve(t, s, "/a/b", ref) }
	value, err := get()
	require.NoError(t, err)
	require.Equal(t, "5432", value)
	_, err = get()
	require.NoError(t, err)
	require.Equal(t, 1, f.logins, "a token is used as long as it is valid")

	f.set(func() { f.token = rand.Text() }) // the client's token expired
	_, err = get()
	require.NoError(t, err)
	require.Equal(t, 2, f.logins)

	f.set(func() { f.token, f.id = rand.Text(), rand.Text() })
	_, err = get()
	require.Equal(t, run.CodeForbidden, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "Vault refuses the gateway's role")
	require.NoError(t, os.WriteFile(file, []byte(f.id), 0o600)) // replaced while the process runs
	_, err = get()
	require.NoError(t, err)

	f.set(func() { f.fault = http.StatusBadRequest })
	_, err = get()
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	require.NotContains(t, err.Error(), f.token)
	f.set(func() { f.fault = 0 })
	_, err = get()
	require.NoError(t, err)
}

func TestVault_token_file(t *testing.T) {
	t.Parallel()
	f, _, _ := newVault(t)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "token")
	s, err := open(t, "providers: {vault: {type: vault, prefix: drover/, address: '"+server.URL+"', token_file: "+file+"}}")
	require.NoError(t, err)
	ref := run.SecretRef{Provider: "vault", Name: "app/db", Key: "port"}
	_, err = resolve(t, s, "/a/b", ref)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "the file does not exist yet: %v", err)
	require.NoError(t, os.WriteFile(file, []byte(f.token+"\n"), 0o600))
	value, err := resolve(t, s, "/a/b", ref)
	require.NoError(t, err)
	require.Equal(t, "5432", value)
	server.Close()
	_, err = resolve(t, s, "/a/b", ref)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
}
