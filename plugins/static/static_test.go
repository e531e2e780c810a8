package static

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/integration"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"

	"github.com/drover-run/drover/plugins/internal/instance"
	"github.com/drover-run/drover/plugins/internal/testwait"
)

// servers starts SSH servers that end with the test.
func servers(t *testing.T, n int, password string) (addresses []string) {
	t.Helper()
	binary := integration.BuildPluginBinary(t, "../internal/sshserver", "sshserver")
	for range n {
		file := filepath.Join(t.TempDir(), "address")
		cmd := exec.CommandContext(t.Context(), binary, "-address-file", file)
		cmd.Env = append(os.Environ(), "SSH_PASSWORD="+password)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		testwait.Until(t, func() bool {
			text, err := os.ReadFile(file)
			if err == nil {
				addresses = append(addresses, string(text))
			}
			return err == nil
		}, "the server has no address")
	}
	return addresses
}

// listeners returns hosts that accept connections and send nothing.
func listeners(t *testing.T, n int) (hosts []Host) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		hosts = append(hosts, Host{Address: l.Addr().String()})
	}
	return hosts
}

func group(t *testing.T, g *InstanceGroup) *InstanceGroup {
	t.Helper()
	_, err := g.Init(t.Context(), hclog.NewNullLogger(), provider.Settings{ConnectorConfig: provider.ConnectorConfig{OS: "linux", Username: "common"}})
	require.NoError(t, err)
	return g
}

func states(t *testing.T, g *InstanceGroup) map[string]provider.State {
	t.Helper()
	of := map[string]provider.State{}
	require.NoError(t, g.Update(t.Context(), func(id string, s provider.State) { of[id] = s }))
	return of
}

func ids(t *testing.T, g *InstanceGroup) (ids []string) {
	t.Helper()
	for id := range states(t, g) {
		ids = append(ids, id)
	}
	return ids
}

func address(t *testing.T, g *InstanceGroup, id string) string {
	t.Helper()
	info, err := g.ConnectInfo(t.Context(), id)
	require.NoError(t, err)
	return info.InternalAddr
}

func TestGroup_leases_and_releases(t *testing.T) {
	t.Parallel()
	dir, hosts := t.TempDir(), listeners(t, 2)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("a key"), 0o600))
	for i := range hosts {
		hosts[i].KeyPath, hosts[i].OS, hosts[i].ExternalAddress = key, "darwin", "outside:22"
	}
	first := group(t, &InstanceGroup{Name: "lab", StateDir: dir, Hosts: hosts})
	n, err := first.Increase(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	g := group(t, &InstanceGroup{Name: "lab", StateDir: dir, Hosts: hosts}) // the plugin was killed
	id := ids(t, g)[0]
	require.Equal(t, map[string]provider.State{id: provider.StateRunning}, states(t, g))
	info, err := g.ConnectInfo(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, hosts[0].Address, info.InternalAddr)
	require.Equal(t, "outside:22", info.ExternalAddr)
	require.Equal(t, "darwin", info.OS)
	require.Equal(t, "common", info.Username)
	require.Equal(t, "a key", string(info.Key))
	require.True(t, info.UseStaticCredentials)
	require.NoError(t, g.Heartbeat(t.Context(), id))

	gone, err := g.Decrease(t.Context(), []string{"unknown", id})
	require.NoError(t, err)
	require.Equal(t, []string{"unknown", id}, gone)
	require.Empty(t, states(t, g))
	require.ErrorIs(t, g.Heartbeat(t.Context(), id), provider.ErrInstanceUnhealthy)

	_, err = g.Increase(t.Context(), 1)
	require.NoError(t, err)
	again := ids(t, g)[0]
	require.Equal(t, hosts[1].Address, address(t, g, again), "the host that was released longest ago")
	n, err = g.Increase(t.Context(), 2)
	require.ErrorContains(t, err, "hosts is free")
	require.Equal(t, 1, n)
	require.NotContains(t, ids(t, g), id, "each lease is a new instance")
}

func TestGroups_never_share_a_host(t *testing.T) {
	t.Parallel()
	dir, hosts := t.TempDir(), listeners(t, 6)
	var groups []*InstanceGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		groups = append(groups, group(t, &InstanceGroup{Name: name, StateDir: dir, Hosts: slices.Clone(hosts)}))
	}
	var wg sync.WaitGroup
	var got int
	var mu sync.Mutex
	for _, g := range groups {
		wg.Go(func() {
			n, _ := g.Increase(t.Context(), 3)
			mu.Lock()
			defer mu.Unlock()
			got += n
		})
	}
	wg.Wait()
	require.Equal(t, len(hosts), got)
	var addresses []string
	for _, g := range groups {
		for _, id := range ids(t, g) {
			addresses = append(addresses, address(t, g, id))
		}
	}
	slices.Sort(addresses)
	require.Len(t, slices.Compact(addresses), len(hosts))
}

func TestGroup_skips_hosts_that_do_not_answer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	hosts := append([]Host{{Address: l.Addr().String()}}, listeners(t, 1)...)
	g := group(t, &InstanceGroup{Name: "lab", StateDir: t.TempDir(), Hosts: hosts})
	n, err := g.Increase(t.Context(), 2)
	require.Error(t, err)
	require.Equal(t, 1, n)
	id := ids(t, g)[0]
	require.Equal(t, hosts[1].Address, address(t, g, id))

	g.Hosts = hosts[:1] // the host is removed from the list
	group(t, g)
	_, err = g.ConnectInfo(t.Context(), id)
	require.ErrorIs(t, err, provider.ErrInstanceUnhealthy)
	_, err = g.Decrease(t.Context(), []string{id})
	require.NoError(t, err)
	require.Empty(t, states(t, g))
}

func TestGroup_cleans_up_released_hosts(t *testing.T) {
	t.Parallel()
	password, dir, mark := rand.Text(), t.TempDir(), filepath.Join(t.TempDir(), "mark")
	host := Host{Address: servers(t, 1, password)[0], Username: "tester", Password: password}
	failing := &InstanceGroup{
		Name: "lab", StateDir: dir, Hosts: []Host{host}, ReturnCommand: "echo no >&2; exit 3", ReturnTimeout: instance.Duration(time.Hour),
	}
	g := group(t, failing)
	_, err := g.Increase(t.Context(), 1)
	require.NoError(t, err)
	id := ids(t, g)[0]
	_, err = g.Decrease(t.Context(), []string{id})
	require.NoError(t, err)
	require.NoError(t, g.Shutdown(t.Context()))
	require.Equal(t, map[string]provider.State{id: provider.StateDeleting}, states(t, g), "the host is unavailable until its cleanup succeeds")
	other := group(t, &InstanceGroup{Name: "other", StateDir: dir, Hosts: []Host{host}})
	_, err = other.Increase(t.Context(), 1)
	require.Error(t, err)

	g = group(t, &InstanceGroup{Name: "lab", StateDir: dir, Hosts: []Host{host}, ReturnCommand: "touch " + mark, ReturnTimeout: failing.ReturnTimeout})
	testwait.Until(t, func() bool { return len(states(t, g)) == 0 }, "the next plugin process does not continue the cleanup")
	require.FileExists(t, mark)
	_, err = other.Increase(t.Context(), 1)
	require.NoError(t, err)
}

func TestInit_refuses(t *testing.T) {
	t.Parallel()
	host := Host{Address: "10.0.0.1"}
	for name, config := range map[string]*InstanceGroup{
		"no name":        {StateDir: "/x", Hosts: []Host{host}},
		"a relative dir": {Name: "g", StateDir: "x", Hosts: []Host{host}},
		"no hosts":       {Name: "g", StateDir: "/x"},
		"no address":     {Name: "g", StateDir: "/x", Hosts: []Host{{}}},
		"one host twice": {Name: "g", StateDir: "/x", Hosts: []Host{host, host}},
		"a protocol":     {Name: "g", StateDir: "/x", Hosts: []Host{{Address: "x", Protocol: "telnet"}}},
		"no key":         {Name: "g", StateDir: "/x", Hosts: []Host{{Address: "x", KeyPath: "/there/is/none"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Init(context.Background(), hclog.NewNullLogger(), provider.Settings{})
			require.Error(t, err)
		})
	}
}

// TestProvisioning runs the conformance test of the fleeting project.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	var hosts []Host
	for _, address := range servers(t, 3, password) {
		hosts = append(hosts, Host{Address: address})
	}
	binary := integration.BuildPluginBinary(t, "../cmd/fleeting-plugin-static", "fleeting-plugin-static")
	integration.TestProvisioning(t, binary, integration.Config{
		PluginConfig:    map[string]any{"name": "ecosystem", "state_dir": t.TempDir(), "hosts": hosts, "return_command": "true"},
		ConnectorConfig: provider.ConnectorConfig{Username: "tester", Password: password, UseStaticCredentials: true},
		MaxInstances:    3,
	})
}
