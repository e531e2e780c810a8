package clients

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	dockerclient "github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/test/harness"
)

// exampleImage is the image of the examples that need no registry.
const exampleImage = "drover-example/busybox:local"

// notRun are the examples that this test does not run, with the reason.
func notRun() map[string]string {
	return map[string]string{
		"docker-in-docker.yaml": "needs images of a registry", "postgres.yaml": "needs an image of a registry", "private-image.yaml": "needs a registry",
		"gpus.yaml": "needs a GPU", "full-build.yaml": "part of make soak", "self.yaml": "the stage self-build",
	}
}

// TestExamples runs the examples on the host and on Docker, some twice.
func TestExamples(t *testing.T) {
	t.Parallel()
	docker := testenv.RequireDocker(t)
	image := testenv.BusyboxImage(t, docker)
	volumes := "/examples/volume-" + strings.ToLower(rand.Text())
	t.Cleanup(func() { removeVolumes(t, docker, volumes) })
	mirror, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(mirror, "greeting"), []byte("from the host\n"), 0o600))
	local := strings.NewReplacer(exampleImage, image, "/examples/volume", volumes, "/srv/drover-example", mirror)
	providers := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(providers, []byte("providers: {pulls: {type: file, dir: /etc/drover/pulls, pools: true}}\n"), 0o600))
	dev := harness.StartDev(t, []string{"DROVER_GATEWAY__SECRET_PROVIDERS_FILE=" + providers, "DROVER_EXECUTOR__DOCKER__HOST_ACCESS=true"}, "--executor", "docker", "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	repository := "file://" + cloneOfThis(t)
	out, code := client.Command("pools", "set", "docker", "--allowed-volumes", "build-*", "--allowed-host-paths", mirror)
	require.Zero(t, code, out)
	out, code = client.Command("changegroups", "set", "example-production", "--max-running", "1")
	require.Zero(t, code, out)

	var names []string
	t.Run("runs", func(t *testing.T) {
		for name, last := range map[string][]string{ // what their last runs print
			"hello.yaml": {"all three were greeted"}, "secret-file.yaml": {"***"}, "cache-replace.yaml": {"1 builds so far", "2 builds so far"},
			"helper.yaml": {""}, "service.yaml": {"the service answered"}, "shared-memory.yaml": {"100000000"}, "extra-hosts.yaml": {"not the real shop"},
			"service-network.yaml": {"blue and green answered"},
			"deployments.yaml":     {"deployed", "deployed"},
			"volume.yaml":          {"runs on this host so far: 1", "runs on this host so far: 2"},
			"host-path.yaml":       {"from the host"},
			"checkout.yaml":        {"HEAD is now at", "updated the object store"},
		} {
			names = append(names, name)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if name == "service-network.yaml" {
					testenv.RequireBridge(t, docker)
				}
				text, err := os.ReadFile(pages.Path("examples/" + name))
				require.NoError(t, err)
				file := filepath.Join(t.TempDir(), name)
				require.NoError(t, os.WriteFile(file, []byte(local.Replace(string(text))), 0o600))
				args := []string{"run", file, "--follow"}
				if strings.Contains(string(text), "\ninputs:") {
					args = append(args, "-i", "repository="+repository)
				}
				for _, want := range last {
					out, code := client.Command(args...)
					require.Zero(t, code, out)
					require.Contains(t, out, want)
				}
			})
		}
	})
	awaitNoEnvironments(t, docker, dev)

	all, err := filepath.Glob(pages.Path("examples/*.yaml"))
	require.NoError(t, err)
	for _, path := range all {
		name := filepath.Base(path)
		require.Equal(t, slices.Contains(names, name), notRun()[name] == "", "%s is run here, or the test says why not", name)
	}

	pools, err := filepath.Glob(pages.Path("examples/pools/*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, pools)
	for _, file := range pools {
		out, code := client.Command("pools", "apply", "-f", file)
		require.Zero(t, code, "%s: %s", file, out)
	}
}

// awaitNoEnvironments waits until the executors have removed the containers and networks of
// their tasks, which they do after the ends of the runs.
func awaitNoEnvironments(t *testing.T, docker *dockerclient.Client, dev *harness.Dev) {
	t.Helper()
	status, body, err := dev.Do(t.Context(), http.MethodGet, "/api/v1/executors", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	var list api.ExecutorList
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.NotEmpty(t, list.Executors)
	testenv.Await(t, func() (bool, string) {
		var left []string
		for _, e := range list.Executors {
			of := filters.NewArgs(filters.Arg("label", "drover.executor="+e.ID))
			containers, err := docker.ContainerList(t.Context(), container.ListOptions{All: true, Filters: of})
			require.NoError(t, err)
			for _, c := range containers {
				left = append(left, c.Names...)
			}
			networks, err := docker.NetworkList(t.Context(), network.ListOptions{Filters: of})
			require.NoError(t, err)
			for _, n := range networks {
				left = append(left, n.Name)
			}
		}
		return len(left) == 0, "containers and networks are left: " + strings.Join(left, ", ")
	})
}

// removeVolumes removes the persistent volumes that the pool docker has for a group root.
func removeVolumes(t *testing.T, docker *dockerclient.Client, group string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	found, err := docker.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "drover.scope=docker "+group))})
	require.NoError(t, err)
	for _, v := range found.Volumes {
		require.NoError(t, docker.VolumeRemove(ctx, v.Name, false))
	}
}

// cloneOfThis returns a bare repository with one commit, made from the examples.
func cloneOfThis(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repository")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", dir},
		{"-C", dir, "--work-tree=" + pages.Path("examples"), "add", "hello.yaml"},
		{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"},
	} {
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return dir
}
