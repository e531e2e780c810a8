package docker_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

// imageOfHost returns an image with busybox, and with programs and directories of this
// host, at the same paths. Nothing is fetched.
func (b *bench) imageOfHost(t testing.TB, paths ...string) string {
	t.Helper()
	layer, err := testenv.HostLayer(paths...)
	require.NoError(t, err)
	created, err := b.cli.ContainerCreate(t.Context(), &container.Config{Image: b.image}, nil, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, b.cli.ContainerRemove(t.Context(), created.ID, container.RemoveOptions{}))
	}()
	require.NoError(t, b.cli.CopyToContainer(t.Context(), created.ID, "/", bytes.NewReader(layer), container.CopyToContainerOptions{}))
	image := "drover-test/host-" + strings.ToLower(newID(t)) + ":local"
	_, err = b.cli.ContainerCommit(t.Context(), created.ID, container.CommitOptions{
		Reference: image, Changes: []string{"ENV PATH=" + testenv.GitPath},
	})
	require.NoError(t, err)
	b.removeImageAfter(t, image)
	return image
}

// removeStores removes the object stores of checkouts.
func (b *bench) removeStores(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	found, err := b.cli.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "drover.executor="+b.id), filters.Arg("label", "drover.role=git-store"))})
	require.NoError(t, err)
	for _, v := range found.Volumes {
		require.NoError(t, b.cli.VolumeRemove(ctx, v.Name, false))
	}
}

// gitImage returns an image with git and with the files of paths; "" if this host has no
// git.
func (b *bench) gitImage(t testing.TB, paths ...string) string {
	t.Helper()
	files, err := testenv.GitFiles()
	if err != nil {
		require.False(t, testenv.Required("docker"), "no image with git: %v", err)
		return ""
	}
	return b.imageOfHost(t, append(files, paths...)...)
}
