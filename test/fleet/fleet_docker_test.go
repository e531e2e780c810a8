//go:build linux

package fleet

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// groupLabel is the label that the docker plugin puts on the containers of a
// group.
const groupLabel = "drover.fleeting.group"

// TestFleet_bursts runs 200 tasks in bursts on a fleet of containers that scales
// from zero, and kills its worker and its plugin at random. The containers hold
// nothing of Drover: the fleet worker installs the executors over SSH. Each
// executor reaches Temporal through the relay with a short-lived token of its own.
func TestFleet_bursts(t *testing.T) {
	t.Parallel()
	const uses = 20
	bursts := []int{60, 60, 80}
	if harness.Soak() {
		bursts = []int{60, 60, 80, 200, 200, 200}
	}
	cli := testenv.RequireDocker(t)
	group := "bursts-" + strings.ToLower(rand.Text()[:8])
	containers := func(ctx context.Context) []container.Summary {
		all, err := cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", groupLabel+"="+group))})
		require.NoError(t, err)
		return all
	}
	t.Cleanup(func() { // after the fleet worker, which would create others
		for _, c := range containers(context.Background()) {
			_ = cli.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true})
		}
	})
	plugin := testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-docker")
	sshserver := testenv.BuildProgram(t, "plugins", "./internal/sshserver")
	image := testenv.BusyboxImage(t, cli)
	parts := harness.StartRelayedAt(t, harness.BridgeAddress(t, cli))
	parts.LaunchFleets("")
	f := &fleetEnv{Parts: parts.Parts, t: t}
	f.put("/api/v1/pools/linux", `{"driver": "shell"}`)

	// All containers share the directory that binaries are uploaded to.
	ran, binaries, password := t.TempDir(), t.TempDir(), rand.Text()
	f.putFleet(map[string]any{
		"plugin": plugin, "bootstrap": "ssh", "instance_ready_command": "test -d /ran",
		"capacity_per_instance": 4, "max_use_count": uses, "max_instances": 4,
		"plugin_config": map[string]any{
			"name": group, "image": image, "pull": "never", "stop_timeout": "1s", "init": true, "command": []string{"/sshserver", "-listen", ":22"},
			"env":     map[string]string{"SSH_PASSWORD": password},
			"volumes": []string{sshserver + ":/sshserver:ro", binaries + ":/var/lib/drover/bin", ran + ":/ran"},
		},
		"connector_config": map[string]any{"protocol": "ssh", "username": "root", "password": password, "use_static_credentials": true},
	})
	f.bursts(bursts, uses, ran, "/ran")
	testenv.Await(t, func() (bool, string) {
		left := containers(t.Context())
		return len(left) == 0, "a container is left"
	})
	f.remove()
	require.Empty(t, containers(t.Context()))
}
