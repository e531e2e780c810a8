package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/registry"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestRegistryAuth(t *testing.T) {
	t.Parallel()
	alice := run.Auth{Username: "alice", Password: "secret"}
	for _, c := range []struct {
		name, host string
		auth       map[string]run.Auth
		want       registry.AuthConfig
	}{
		{"none for this host", "ghcr.io", map[string]run.Auth{"quay.io": alice}, registry.AuthConfig{}},
		{
			"by host", "ghcr.io",
			map[string]run.Auth{"ghcr.io": alice},
			registry.AuthConfig{Username: "alice", Password: "secret", ServerAddress: "ghcr.io"},
		},
		{
			"with port", "localhost:5000",
			map[string]run.Auth{"localhost:5000": alice},
			registry.AuthConfig{Username: "alice", Password: "secret", ServerAddress: "localhost:5000"},
		},
		{
			"hub by its old name", "docker.io",
			map[string]run.Auth{"https://index.docker.io/v1/": alice},
			registry.AuthConfig{Username: "alice", Password: "secret", ServerAddress: "https://index.docker.io/v1/"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			encoded, err := registryAuth(c.host, c.auth)
			require.NoError(t, err)
			got, err := registry.DecodeAuthConfig(encoded)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c.want, *got))
		})
	}
}

func TestFollowPull(t *testing.T) {
	t.Parallel()
	t.Run("sums the layers", func(t *testing.T) {
		t.Parallel()
		fetched, err := followPull(strings.NewReader(`{"status":"Pulling from library/x","id":"latest"}
{"status":"Downloading","id":"a","progressDetail":{"current":10,"total":100}}
{"status":"Downloading","id":"b","progressDetail":{"current":5,"total":7}}
{"status":"Downloading","id":"a","progressDetail":{"current":100,"total":100}}
{"status":"Pull complete","id":"a"}
`), func(string) {})
		require.NoError(t, err)
		require.EqualValues(t, 105, fetched)
	})
	t.Run("reports the registry's refusal", func(t *testing.T) {
		t.Parallel()
		_, err := followPull(strings.NewReader(`{"status":"Pulling"}
{"errorDetail":{"message":"manifest for x:y not found"},"error":"manifest for x:y not found"}
`), func(string) {})
		err = pullError("x:y", err)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.EqualError(t, err, "image pull failed: manifest for x:y not found")
	})
	t.Run("reports a daemon that went away", func(t *testing.T) {
		t.Parallel()
		_, err := followPull(strings.NewReader(`{"status":"Pull`), func(string) {})
		require.Equal(t, run.CodeUnavailable, run.CodeOf(pullError("x:y", err)))
	})
}

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"": true, "linux/amd64": true, "linux/arm/v7": true, "linux": false, "a/b/c/d": false} {
		p, err := parsePlatform(text)
		require.Equal(t, ok, err == nil, text)
		if ok && text != "" {
			require.Equal(t, text, platformString(p))
		}
	}
	var fault *run.Error
	_, err := parsePlatform("x")
	require.True(t, errors.As(err, &fault) && fault.Code == run.CodeInvalid)
}

func TestTCPPorts(t *testing.T) {
	t.Parallel()
	got := tcpPorts(map[string]struct{}{"5432/tcp": {}, "53/udp": {}, "80": {}, "9000-9002/tcp": {}, "x/tcp": {}, "70000/tcp": {}})
	require.Equal(t, []string{"5432", "80", "9000", "9001", "9002"}, got)
	require.Len(t, tcpPorts(map[string]struct{}{"1-60000/tcp": {}}), maxPorts)
}
