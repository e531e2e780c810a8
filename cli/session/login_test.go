package session

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestSavedLogin_rotated_refresh_token: a provider that accepts a refresh token once, and
// whose ID token cannot be used, does not end the login.
func TestSavedLogin_rotated_refresh_token(t *testing.T) {
	t.Parallel()
	valid, broken := "r", true
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp": %d}`, time.Now().Add(time.Hour).Unix()))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("refresh_token") != valid {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `{"error": "invalid_grant"}`)
			return
		}
		valid += "+"
		id := "x." + claims + ".x"
		if broken {
			id = "not a token"
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "a", "token_type": "Bearer", "refresh_token": %q, "id_token": %q}`, valid, id)
	}))
	t.Cleanup(provider.Close)
	saved := savedLogin{path: filepath.Join(t.TempDir(), "token"), server: "http://gateway", transport: &http.Transport{DisableKeepAlives: true}, now: time.Now}
	require.NoError(t, Login{ClientID: "drover-cli", TokenURL: provider.URL, IDToken: "expired", RefreshToken: valid}.Write(saved.path))
	_, err := saved.token(t.Context())
	require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
	require.ErrorContains(t, err, "cannot be read")
	broken = false
	token, err := saved.token(t.Context())
	require.NoError(t, err)
	require.Contains(t, token, claims)
}
