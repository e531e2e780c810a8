package docker_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// conformanceConfig is the configuration from which a process of the suite
// creates a driver.
type conformanceConfig struct {
	ExecutorID, ShimPath, CheckoutImage, StateDir string
	GitStores                                     gitstore.Options
}

// ownedDriver also closes its client.
type ownedDriver struct {
	*docker.Driver
	client *client.Client
}

func (d *ownedDriver) Close() error { return errors.Join(d.Driver.Close(), d.client.Close()) }

func openConformance(text string) (executor.Driver, error) {
	var config conformanceConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, err
	}
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	d, err := docker.New(docker.Options{
		Client: cli, ExecutorID: config.ExecutorID, ShimPath: config.ShimPath,
		CheckoutImage: config.CheckoutImage, GitStores: config.GitStores,
		HostAccess: true, StateDir: config.StateDir,
	})
	return &ownedDriver{Driver: d, client: cli}, err
}

func TestDriver_conformance(t *testing.T) {
	t.Parallel()
	testenv.RequireDocker(t)
	repository := executortest.NewRepository(t)
	gitImage := newBench(t).gitImage(t, repository)
	executortest.Run(t, openConformance, func(t *testing.T) executortest.Harness {
		t.Helper()
		b := newBench(t)
		config, err := json.Marshal(conformanceConfig{
			ExecutorID: b.id, ShimPath: testenv.BuildShim(t), CheckoutImage: gitImage, StateDir: t.TempDir(),
			GitStores: gitstore.Options{MaxBytes: 1 << 20, IndexFile: filepath.Join(t.TempDir(), "git-stores.json")},
		})
		require.NoError(t, err)
		t.Cleanup(func() { b.removeStores(t) })
		t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
		return executortest.Harness{
			Config: string(config),
			Image:  b.image, GitImage: gitImage, GitRepository: repository,
			User: executortest.NamedUser{Name: "tester", ID: "1000", Groups: "1000 2000"},
			RequireNetworks: func(t testing.TB) {
				t.Helper()
				testenv.RequireBridge(t, b.cli)
			},
			Vanish: func(t testing.TB, key run.Key) {
				t.Helper()
				require.NoError(t, b.cli.ContainerKill(t.Context(), "drover-"+key.String(), "KILL"))
			},
			VanishHelper: func(t testing.TB, key run.Key) {
				t.Helper()
				require.NoError(t, b.cli.ContainerKill(t.Context(), "drover-"+key.String()+".helper-0", "KILL"))
			},
			Describe: func(t testing.TB, key run.Key) string {
				t.Helper()
				_, reported, err := b.cli.ContainerInspectWithRaw(t.Context(), "drover-"+key.String(), true)
				require.NoError(t, err)
				return string(reported)
			},
			Leftovers: func(t testing.TB) []string {
				t.Helper()
				ours := filters.NewArgs(filters.Arg("label", "drover.executor="+b.id))
				containers, err := b.cli.ContainerList(t.Context(), container.ListOptions{All: true, Filters: ours})
				require.NoError(t, err)
				var left []string
				for _, c := range containers {
					left = append(left, "container "+c.Names[0])
				}
				networks, err := b.cli.NetworkList(t.Context(), network.ListOptions{Filters: ours})
				require.NoError(t, err)
				for _, n := range networks {
					left = append(left, "network "+n.Name)
				}
				volumes, err := b.cli.VolumeList(t.Context(), volume.ListOptions{Filters: ours})
				require.NoError(t, err)
				for _, v := range volumes.Volumes {
					if role := v.Labels["drover.role"]; role == "git-store" || role == "volume" {
						continue // kept for the next tasks
					}
					left = append(left, "volume "+v.Name)
				}
				return left
			},
		}
	})
}
