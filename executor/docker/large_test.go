package docker_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/run"
)

// gitServer serves the repositories of a directory of the host to the containers of a
// network of its own.
type gitServer struct {
	*bench
	id, network, url string
}

func (b *bench) serveGit(t *testing.T, image, dir string) *gitServer {
	t.Helper()
	s := &gitServer{bench: b, network: "drover-test-" + b.id}
	created, err := b.cli.NetworkCreate(t.Context(), s.network, network.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.cli.NetworkRemove(context.WithoutCancel(t.Context()), created.ID) })
	server, err := b.cli.ContainerCreate(t.Context(), &container.Config{
		Image: image, Entrypoint: []string{"/bin/sh", "-c", `mkdir -p /www/cgi-bin
			printf '#!/bin/sh\nexport GIT_PROJECT_ROOT=/srv GIT_HTTP_EXPORT_ALL=1 HOME=/ GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0="*"\nexec git http-backend\n' > /www/cgi-bin/git
			chmod +x /www/cgi-bin/git; exec httpd -f -p 7775 -h /www`},
	}, &container.HostConfig{NetworkMode: container.NetworkMode(s.network), Binds: []string{dir + ":/srv:ro"}}, nil, nil, s.network)
	require.NoError(t, err)
	s.id, s.url = server.ID, "http://"+s.network+":7775/cgi-bin/git/"
	t.Cleanup(func() {
		require.NoError(t, b.cli.ContainerRemove(context.WithoutCancel(t.Context()), s.id, container.RemoveOptions{Force: true}))
	})
	require.NoError(t, b.cli.ContainerStart(t.Context(), s.id, container.StartOptions{}))
	return s
}

// sent returns how many bytes the server has sent.
func (s *gitServer) sent(t *testing.T) uint64 {
	t.Helper()
	stats, err := s.cli.ContainerStatsOneShot(t.Context(), s.id)
	require.NoError(t, err)
	defer func() { _ = stats.Body.Close() }()
	var read container.StatsResponse
	require.NoError(t, json.NewDecoder(stats.Body).Decode(&read))
	var total uint64
	for _, n := range read.Networks {
		total += n.TxBytes
	}
	return total
}

// TestDriver_large_checkout checks a repository with a history of one GiB out, with a
// depth, and twice with reuse.
func TestDriver_large_checkout(t *testing.T) {
	dir := executortest.LargeRepository(t)
	b := newBench(t)
	image := b.gitImage(t)
	server := b.serveGit(t, image, dir)
	b.driver = b.newDriver(t, docker.Options{
		Network: server.network, CheckoutImage: image,
		GitStores: gitstore.Options{MaxBytes: 1 << 30, IndexFile: filepath.Join(t.TempDir(), "index.json")},
	})
	t.Cleanup(func() { b.removeStores(t) })
	checkOut := func(reuse bool) uint64 {
		before, begun := server.sent(t), time.Now()
		def := b.definition(t, "", `echo "commits=$(git rev-list --count HEAD)"`)
		def.WorkingDir = run.SharedWorkingDir
		def.Steps[0].Checkout = &run.Checkout{Repository: server.url + "large.git", Ref: "main", Depth: 20, Reuse: reuse}
		def.Steps[1].Image = image
		s := b.finish(t, def)
		require.Contains(t, s.output, "HEAD is now at", s.frames)
		require.Contains(t, s.output, "commits=20\n")
		sent := server.sent(t) - before
		t.Logf("reuse %v: %s, the server sent %.1f MB", reuse, time.Since(begun).Round(time.Millisecond), float64(sent)/1e6)
		return sent
	}
	require.Less(t, checkOut(false), uint64(100<<20), "a depth of 20 commits")
	first := checkOut(true)
	require.Less(t, checkOut(true)*10, first)
}
