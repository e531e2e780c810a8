//go:build linux

package fleeting_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
)

// writeScript writes an executable shell script.
func writeScript(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

// TestEnvironment launches a plugin that records its environment. It gets the
// default variables and the listed ones, and no credentials of this process.
func TestEnvironment(t *testing.T) {
	secret := map[string]string{}
	for _, name := range []string{
		"TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "PGPASSWORD", "PGSERVICEFILE", "VAULT_TOKEN", "AWS_SECRET_ACCESS_KEY", "DROVER_RECORDS__KEYS",
		"CI_SECRET_TOKEN", "HETZNER_TOKEN", "PATHOLOGY", "AZURE", "CLOUD_KEY",
	} {
		secret[name] = fmt.Sprintf("secret-%s-%d", name, os.Getpid())
		t.Setenv(name, secret[name])
	}
	for _, name := range []string{"HOME", "TMPDIR", "LC_TIME", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE"} {
		t.Setenv(name, os.TempDir())
	}
	for about, c := range map[string]struct {
		pass []string
		want []string
	}{
		"none named":   {nil, nil},
		"two named":    {[]string{"AWS_*", "CLOUD_KEY", "AZURE_*", "*", "ABSENT"}, []string{"AWS_SECRET_ACCESS_KEY", "CLOUD_KEY"}},
		"one, exactly": {[]string{"AWS_SECRET", "AZURE"}, []string{"AZURE"}},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "environment")
		plugin := writeScript(t, filepath.Join(dir, "plugin"), "env >> "+file+"; exit 1\n")
		_, err := fleeting.Open(t.Context(), fleeting.Options{Plugin: plugin, Dir: filepath.Join(dir, "group"), PassEnv: c.pass})
		require.ErrorIs(t, err, fleeting.ErrUnavailable, about)
		_, err = fleeting.Check(t.Context(), fleeting.Options{Plugin: plugin, PassEnv: c.pass}, false)
		require.Error(t, err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		got := "\n" + string(text)
		for name, value := range secret {
			want := strings.Contains(strings.Join(c.want, " "), name)
			require.Equal(t, want, strings.Contains(got, "\n"+name+"="+value+"\n"), "%s: %s", about, name)
			require.Equal(t, want, strings.Contains(got, value), "%s: %s", about, name)
		}
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "LC_TIME", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE"} {
			require.Contains(t, got, "\n"+name+"=", about)
		}
	}
}
