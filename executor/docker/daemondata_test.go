package docker_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/docker/client"
	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/run"
)

// TestOverlap finds the same files by other paths.
func TestOverlap(t *testing.T) {
	t.Parallel()
	mounts := []*mountinfo.Info{
		{Mountpoint: "/", Root: "/", Major: 8, Minor: 1},
		{Mountpoint: "/mnt", Root: "/", Major: 8, Minor: 2},
		{Mountpoint: "/var/lib/docker", Root: "/docker", Major: 8, Minor: 2}, // mount --bind /mnt/docker /var/lib/docker
		{Mountpoint: "/srv/copy", Root: "/srv/data", Major: 8, Minor: 1},
		{Mountpoint: "/covered", Root: "/docker", Major: 8, Minor: 2},
		{Mountpoint: "/covered", Root: "/", Major: 0, Minor: 40},
	}
	for p, want := range map[string]bool{
		"/var/lib/docker": true, "/var/lib/docker/volumes": true, "/var/lib": true,
		"/mnt/docker": true, "/mnt/docker/volumes": true, "/mnt": true, "/mnt/cache": false, "/mnt/docker2": false,
		"/srv": false, "/covered": false, "/docker": false,
	} {
		got, err := docker.Overlap(mounts, p, "/var/lib/docker")
		require.NoError(t, err)
		require.Equal(t, want, got, p)
	}
	for p, want := range map[string]bool{"/srv/copy": true, "/srv/copy/state": true, "/srv/copy/other": false, "/srv/data/state/x": true} {
		got, err := docker.Overlap(mounts, p, "/srv/data/state")
		require.NoError(t, err)
		require.Equal(t, want, got, p)
	}
	_, err := docker.Overlap(nil, "/a", "/b")
	require.Error(t, err)
}

// daemonAnswers is a daemon that answers each request with a text.
type daemonAnswers struct {
	status int
	body   string
}

// RoundTrip implements http.RoundTripper.
func (d daemonAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: d.status, Body: io.NopCloser(strings.NewReader(d.body)), Request: r, Header: http.Header{"Content-Type": []string{"application/json"}},
	}, nil
}

// TestDataRoot_of_other_daemons has daemons whose answers let no path of the host be looked at.
func TestDataRoot_of_other_daemons(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer daemonAnswers
		code   run.Code
		want   string
	}{
		"in a machine of its own": {daemonAnswers{200, `{"DockerRootDir": "/no/such/docker"}`}, run.CodeInvalid, "does not see the data root of the docker daemon (/no/such/docker)"},
		"of another kind":         {daemonAnswers{200, `{}`}, run.CodeInvalid, "does not say where its data are"},
		"with a fault":            {daemonAnswers{500, `{"message": "out of order"}`}, run.CodeUnavailable, "out of order"},
	} {
		cli, err := client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: tt.answer}), client.WithVersion("1.41"))
		require.NoError(t, err)
		_, err = docker.DataRoot(t.Context(), cli)
		require.Equal(t, tt.code, run.CodeOf(err), name)
		require.ErrorContains(t, err, tt.want, name)
	}
}
