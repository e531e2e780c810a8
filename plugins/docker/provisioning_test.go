package docker_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/integration"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"

	"github.com/drover-run/drover/plugins/docker/dockertest"
	"github.com/drover-run/drover/plugins/internal/instance"
)

// TestProvisioning runs the conformance test of the fleeting project.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	cli := dockertest.Require(t)
	server := filepath.Join(t.TempDir(), "sshserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "../internal/sshserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the image has no libraries
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	image := dockertest.Image(t, cli, dockertest.File{Path: "bin/sshserver", Source: server})
	name, password := instance.NewID("ecosystem"), rand.Text()
	t.Cleanup(func() {
		left, err := cli.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "drover.fleeting.group="+name))})
		require.NoError(t, err)
		for _, c := range left {
			_ = cli.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true})
		}
	})
	integration.TestProvisioning(t, integration.BuildPluginBinary(t, "../cmd/fleeting-plugin-docker", "fleeting-plugin-docker"), integration.Config{
		PluginConfig: map[string]any{
			"name": name, "image": image, "pull": "never", "max_size": 3, "stop_timeout": "1s",
			"command": []string{"/bin/sshserver", "-listen", ":22"}, "env": map[string]string{"SSH_PASSWORD": password},
		},
		ConnectorConfig: provider.ConnectorConfig{Username: "tester", Password: password, UseStaticCredentials: true},
		MaxInstances:    3,
	})
}
