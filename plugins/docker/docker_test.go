package docker

import (
	"context"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"

	"github.com/drover-run/drover/plugins/docker/dockertest"
	"github.com/drover-run/drover/plugins/internal/instance"
	"github.com/drover-run/drover/plugins/internal/testwait"
)

// fixture is a separate group on the daemon; its containers are removed after
// the test.
func fixture(t *testing.T) (*InstanceGroup, *client.Client) {
	t.Helper()
	cli := dockertest.Require(t)
	config := &InstanceGroup{
		Name: instance.NewID("test"), StopTimeout: instance.Duration(time.Second),
		Container: Container{
			Image: dockertest.Image(t, cli), Pull: pullNever, Network: "none", Command: []string{"sleep", "1000"}, Init: true, Memory: "64m",
			Env: map[string]string{"WHO": "{{.ID}}"},
		},
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		left, err := cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", groupLabel+"="+config.Name))})
		require.NoError(t, err)
		for _, c := range left {
			_ = cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true})
		}
	})
	return initialised(t, config), cli
}

func initialised(t *testing.T, g *InstanceGroup) *InstanceGroup {
	t.Helper()
	_, err := g.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
	require.NoError(t, err)
	return g
}

// again returns another plugin process on the same group.
func again(t *testing.T, g *InstanceGroup) *InstanceGroup {
	t.Helper()
	return initialised(t, &InstanceGroup{Name: g.Name, StopTimeout: g.StopTimeout, Container: g.Container, MaxSize: g.MaxSize})
}

func states(t *testing.T, g *InstanceGroup) map[string]provider.State {
	t.Helper()
	of := map[string]provider.State{}
	require.NoError(t, g.Update(t.Context(), func(id string, s provider.State) { of[id] = s }))
	return of
}

func awaitStates(t *testing.T, g *InstanceGroup, want map[string]provider.State) {
	t.Helper()
	testwait.Until(t, func() bool { return len(want) == len(states(t, g)) }, "not %d instances", len(want))
	require.Equal(t, want, states(t, g))
}

func ids(t *testing.T, g *InstanceGroup) (ids []string) {
	t.Helper()
	for id := range states(t, g) {
		ids = append(ids, id)
	}
	return ids
}

func TestGroup_outlives_its_plugin(t *testing.T) {
	t.Parallel()
	first, cli := fixture(t)
	n, err := first.Increase(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)

	g := again(t, first)
	all := ids(t, g)
	awaitStates(t, g, map[string]provider.State{all[0]: provider.StateRunning, all[1]: provider.StateRunning})
	require.NoError(t, g.Heartbeat(t.Context(), all[0]))
	info, err := g.ConnectInfo(t.Context(), all[0])
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", info.InternalAddr, "it has no network")
	require.Equal(t, "root", info.Username)
	c, err := cli.ContainerInspect(t.Context(), all[0])
	require.NoError(t, err)
	require.Contains(t, c.Config.Env, "WHO="+all[0])
	require.Contains(t, c.Config.Env, instance.IDVariable+"="+all[0])
	require.EqualValues(t, 64<<20, c.HostConfig.Memory)

	gone, err := g.Decrease(t.Context(), []string{all[0], "unknown"})
	require.NoError(t, err)
	require.Equal(t, []string{all[0], "unknown"}, gone)
	require.NotEqual(t, provider.StateRunning, states(t, again(t, first))[all[0]])
	awaitStates(t, g, map[string]provider.State{all[1]: provider.StateRunning})
	_, err = g.ConnectInfo(t.Context(), all[0])
	require.ErrorIs(t, err, provider.ErrInstanceUnhealthy)
	require.ErrorIs(t, g.Heartbeat(t.Context(), "unknown"), provider.ErrInstanceUnhealthy)
	require.NoError(t, g.Shutdown(t.Context()))
}

func TestGroup_continues_the_removals_of_a_killed_plugin(t *testing.T) {
	t.Parallel()
	g, cli := fixture(t)
	_, err := g.Increase(t.Context(), 1)
	require.NoError(t, err)
	id := ids(t, g)[0]
	require.NoError(t, cli.ContainerRename(t.Context(), id, id+removalSuffix)) // then the plugin was killed
	require.ErrorIs(t, g.Heartbeat(t.Context(), id), provider.ErrInstanceUnhealthy)
	awaitStates(t, again(t, g), map[string]provider.State{})
}

func TestGroup_suspends(t *testing.T) {
	t.Parallel()
	g, _ := fixture(t)
	_, err := g.Increase(t.Context(), 1)
	require.NoError(t, err)
	id := ids(t, g)[0]
	for range 2 { // the second call does nothing
		done, err := g.Suspend(t.Context(), []string{id})
		require.NoError(t, err)
		require.Equal(t, []string{id}, done)
		require.Equal(t, provider.StateSuspended, states(t, g)[id])
	}
	done, err := g.Resume(t.Context(), []string{"unknown", id})
	require.Error(t, err)
	require.Equal(t, []string{id}, done)
	require.Equal(t, provider.StateRunning, states(t, g)[id])
}

func TestGroup_limits_and_leaves_nothing_that_does_not_start(t *testing.T) {
	t.Parallel()
	g, _ := fixture(t)
	g.MaxSize = 1
	n, err := g.Increase(t.Context(), 2)
	require.Error(t, err)
	require.Equal(t, 1, n)
	bad := again(t, g)
	bad.MaxSize, bad.Container.Init, bad.Command = 0, false, []string{"/there/is/none"}
	_, err = bad.Increase(t.Context(), 1)
	require.Error(t, err)
	require.Len(t, states(t, g), 1)
	bad.Image = "drover.test/there-is-none:never"
	_, err = bad.Increase(t.Context(), 1)
	require.Error(t, err)
}

func TestGroup_forgets_containers_that_end(t *testing.T) {
	t.Parallel()
	g, _ := fixture(t)
	g.Command = []string{"true"}
	_, err := g.Increase(t.Context(), 1)
	require.NoError(t, err)
	awaitStates(t, g, map[string]provider.State{})
}

func TestInit_refuses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*InstanceGroup{
		"no name":        {Container: Container{Image: "x"}},
		"no image":       {Name: "g"},
		"how to pull":    {Name: "g", Container: Container{Image: "x", Pull: "often"}},
		"memory":         {Name: "g", Container: Container{Image: "x", Memory: "much"}},
		"unknown values": {Name: "g", Container: Container{Image: "x", Command: []string{"{{.Port}}"}}},
		"no daemon":      {Name: "g", Container: Container{Image: "x"}, Host: "unix:///there/is/none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{})
			require.Error(t, err)
		})
	}
}
