//go:build unix

package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/run"
)

// onOwnNetwork returns a task whose service has an address of its own.
func (b *bench) onOwnNetwork(t testing.TB) run.Definition {
	t.Helper()
	def := b.definition(t, "echo once >>/count; cat /count")
	def.ServiceNetwork = run.ServiceNetworkOwn
	def.Services = []run.ServiceSpec{{Name: "db", Image: b.image, Command: []string{"sleep", "300"}, Health: &run.HealthCheck{Command: []string{"true"}}}}
	return def
}

func (b *bench) networksOf(t testing.TB, key run.Key) []network.Summary {
	t.Helper()
	found, err := b.cli.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "drover.key="+key.String()))})
	require.NoError(t, err)
	return found
}

// answers is a transport that answers some requests instead of the daemon.
type answers struct {
	http.RoundTripper
	answer func(r *http.Request) (status int, message string) // 0: the daemon answers
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, message := a.answer(r)
	if status == 0 {
		return a.RoundTripper.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewBufferString(fmt.Sprintf(`{"message": %q}`, message))),
	}, nil
}

// newDriverAnswered returns a driver some of whose requests do not reach the daemon.
func (b *bench) newDriverAnswered(t testing.TB, answer func(r *http.Request) (int, string)) *docker.Driver {
	t.Helper()
	transport := answers{RoundTripper: b.cli.HTTPClient().Transport, answer: answer}
	cli, err := client.NewClientWithOpts(client.WithHost(b.cli.DaemonHost()), client.WithHTTPClient(&http.Client{Transport: transport}), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	return b.newDriver(t, docker.Options{Client: cli})
}

func isNetworks(r *http.Request) bool { return strings.Contains(r.URL.Path, "/networks") }

// TestDriver_networks_of_killed_processes kills the process that starts a task around the
// creation of its network and of its containers.
func TestDriver_networks_of_killed_processes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, path := range []string{"/networks/create", "/containers/create?name=", "/start", ".service0"} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_answered_%t", strings.Trim(path, "/?="), answered), func(t *testing.T) {
				t.Parallel()
				require.True(t, b.startWithCrashes(t, crashOrder{Definition: b.onOwnNetwork(t), Path: path, Answered: answered}))
			})
		}
	}
}

// TestDriver_networks_without_containers removes a network that a killed process has left
// before it created a container.
func TestDriver_networks_without_containers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	_, err := b.cli.NetworkCreate(t.Context(), "drover-"+def.Key.String()+".left", network.CreateOptions{
		Labels: map[string]string{"drover.executor": b.id, "drover.key": def.Key.String()},
	})
	require.NoError(t, err)
	keys, err := b.driver.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.Key{def.Key}, keys)
	h, err := b.driver.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
	_, err = b.driver.Attach(t.Context(), def.Key)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err), "%v", err)
}

// TestDriver_networks_with_endpoints removes the network of a task that someone else's
// container has joined.
func TestDriver_networks_with_endpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	h := b.start(t, def)
	found := b.networksOf(t, def.Key)
	require.Len(t, found, 1)
	require.Equal(t, b.id, found[0].Labels["drover.executor"])
	require.Equal(t, "network", found[0].Labels["drover.role"])
	bridge, err := b.cli.NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	require.NoError(t, err)
	const mtu = "com.docker.network.driver.mtu"
	require.Equal(t, bridge.Options[mtu], found[0].Options[mtu], "packets have the size that the daemon is configured for")
	other, err := b.cli.ContainerCreate(t.Context(), &container.Config{Image: b.image, Cmd: []string{"sleep", "300"}},
		&container.HostConfig{NetworkMode: container.NetworkMode(found[0].Name), AutoRemove: true}, nil, nil, "drover-test-"+newID(t))
	require.NoError(t, err)
	require.NoError(t, b.cli.ContainerStart(t.Context(), other.ID, container.StartOptions{}))
	t.Cleanup(func() { require.NoError(t, b.cli.ContainerKill(context.WithoutCancel(t.Context()), other.ID, "KILL")) })
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
	c, err := b.cli.ContainerInspect(t.Context(), other.ID)
	require.NoError(t, err)
	require.True(t, c.State.Running, "it was only disconnected")
}

// TestDriver_networks_forbidden uses a daemon whose API allows no networks. Tasks without a
// network of their own do not need them.
func TestDriver_networks_forbidden(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.driver = b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if isNetworks(r) {
			return http.StatusForbidden, "not allowed here"
		}
		return 0, ""
	})
	def := b.onOwnNetwork(t)
	_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "does not allow networks")
	require.ErrorContains(t, err, "not allowed here")

	def.ServiceNetwork = ""
	h := b.start(t, def)
	require.Equal(t, "once\n", follow(t, h, 1).output)
	keys, err := b.driver.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.Key{def.Key}, keys)
	require.NoError(t, h.Remove(t.Context()))
	_, err = b.driver.Attach(t.Context(), def.Key)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err), "%v", err)
	b.requireNothingLeft(t)
}

// TestDriver_networks_exhausted starts a task while the daemon has no addresses for a
// network. Another executor, or the same one later, can run the task.
func TestDriver_networks_exhausted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, text := range []string{
		"could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
		"all predefined address pools have been fully subnetted",
	} {
		d := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/networks/create") {
				return http.StatusInternalServerError, text
			}
			return 0, ""
		})
		_, err := d.Start(t.Context(), executor.Task{Definition: b.onOwnNetwork(t), Launch: launchAt(1)})
		require.Equal(t, run.CodeExhausted, run.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "default-address-pools")
		require.ErrorContains(t, err, text)
		b.requireNothingLeft(t)
	}
}

// TestDriver_networks_removed_meanwhile starts a task whose network is removed before its
// containers start, which is no fault of the task.
func TestDriver_networks_removed_meanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	remove := sync.OnceFunc(func() {
		for _, n := range b.networksOf(t, def.Key) {
			if err := b.cli.NetworkRemove(t.Context(), n.ID); err != nil {
				t.Error(err)
			}
		}
	})
	_, err := b.newDriverSeen(t, func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/start") {
			remove()
		}
	}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "its network was removed")
	b.requireNothingLeft(t)
}

// TestDriver_networks_fail_to_start leaves nothing if the task's container cannot be
// created.
func TestDriver_networks_fail_to_start(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "/containers/create") && strings.HasPrefix(r.URL.Query().Get("name"), "drover-0") {
			return http.StatusBadRequest, "no"
		}
		return 0, ""
	})
	_, err := d.Start(t.Context(), executor.Task{Definition: b.onOwnNetwork(t), Launch: launchAt(1)})
	require.ErrorContains(t, err, "create the container")
	b.requireNothingLeft(t)
}

// TestDriver_networks_of_an_image_with_ports waits until a service listens on a port that
// its image exposes, although the main container cannot see it.
func TestDriver_networks_of_an_image_with_ports(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	def.Steps[0].Script = "wget -q -O - http://db:7790/ http://other:7790/"
	image := b.variant(t, "EXPOSE 7790", "USER 1000")
	const serve = `mkdir -p /tmp/www && echo $0 > /tmp/www/index.html && sleep 1 && exec httpd -f -p 7790 -h /tmp/www`
	def.Services = []run.ServiceSpec{
		{Name: "db", Image: image, Command: []string{"/bin/sh", "-c", serve, "one"}},
		{Name: "second", Aliases: []string{"other"}, Image: image, Command: []string{"/bin/sh", "-c", serve, "two"}},
	}
	var log setupLog
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1), Log: log.add})
	require.NoError(t, err)
	b.removeAfter(t, h)
	require.Contains(t, log.String(), "service db listens after")
	require.Contains(t, log.String(), "service second listens after")
	require.Equal(t, "one\ntwo\n", follow(t, h, 1).output)
}

// TestDriver_networks_beside_a_configured_one refuses a network that would let a task leave
// the network of its executor.
func TestDriver_networks_beside_a_configured_one(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"none", "host", "container:vpn", "builds"} {
		d := b.newDriver(t, docker.Options{Network: name})
		require.False(t, d.Features().ServiceNetworks, name)
		_, err := d.Start(t.Context(), executor.Task{Definition: b.onOwnNetwork(t), Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf("%q (executor.docker.network)", name))
	}
	for _, name := range []string{"", "default", "bridge"} {
		require.True(t, b.newDriver(t, docker.Options{Network: name}).Features().ServiceNetworks, name)
	}
	b.requireNothingLeft(t)
}
