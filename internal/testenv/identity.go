package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/freeport"
)

// The clients of the provider, and a user.
const (
	IdentityClient       = "drover"
	IdentitySecret       = "secret"
	IdentityDeviceClient = "drover-cli"
	IdentityUser         = "id1" // with the address test-user@zitadel.ch, in the group developers
	IdentityUserName     = "test-user@127.0.0.1"
	IdentityPassword     = "verysecure"
)

// Identity is an OpenID Connect provider, the program test/identity, which ends with
// the test.
type Identity struct {
	Issuer string

	binary, address, redirects string
	process                    *exec.Cmd
}

// StartIdentity returns a provider that sends browsers back to the given URLs.
func StartIdentity(t testing.TB, redirects ...string) *Identity {
	t.Helper()
	port, err := freeport.On(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	p := &Identity{
		binary: BuildProgram(t, filepath.Join("test", "identity"), "github.com/drover-run/drover/test/identity"), address: "127.0.0.1:" + strconv.Itoa(port),
		redirects: strings.Join(redirects, ","),
	}
	p.Issuer = "http://" + p.address + "/"
	p.Start(t)
	t.Cleanup(p.Stop)
	return p
}

// Start starts the provider again after Stop, with another key and without logins.
func (p *Identity) Start(t testing.TB) {
	t.Helper()
	var output bytes.Buffer
	p.process = exec.CommandContext(context.WithoutCancel(t.Context()), p.binary, "-with-input", "-listen", p.address, "-redirect", p.redirects)
	_, err := p.process.StdinPipe() // it ends with the test, also if the test is killed
	require.NoError(t, err)
	p.process.Stdout, p.process.Stderr = &output, &output
	require.NoError(t, p.process.Start())
	Await(t, func() (bool, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Issuer+".well-known/openid-configuration", nil)
		require.NoError(t, err)
		answer, err := identityClient().Do(r)
		if err != nil {
			return false, "the provider: " + err.Error()
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK, answer.Status
	})
}

// Stop kills the provider.
func (p *Identity) Stop() {
	_ = p.process.Process.Kill() // it has no data
	_ = p.process.Wait()
}

// Control makes a call for tests (see test/identity/main.go), and returns the answer.
func (p *Identity) Control(t testing.TB, path string, body any) string {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Issuer+"control/"+path, bytes.NewReader(text))
	require.NoError(t, err)
	answer, err := identityClient().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", path, data)
	return string(data)
}

// Sign returns a token that the provider signs with its current key. The claims exp,
// nbf and iat are in seconds from now; others replace those of the user.
func (p *Identity) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	all := map[string]any{
		"iss": p.Issuer, "sub": IdentityUser, "aud": IdentityClient, "email": "test-user@zitadel.ch", "email_verified": true,
		"groups": []string{"developers"}, "exp": 300, "iat": 0,
	}
	for name, v := range claims {
		if v == nil {
			delete(all, name)
			continue
		}
		all[name] = v
	}
	return p.Control(t, "sign", all)
}

// identityClient calls the provider.
func identityClient() *http.Client { return &http.Client{Timeout: patience} }
