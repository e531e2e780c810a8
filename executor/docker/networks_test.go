//go:build unix

package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// onOwnNetwork returns a task whose service has an address of its own.
func (b *bench) onOwnNetwork(t testing.TB) run.Definition {
	t.Helper()
	testenv.RequireBridge(t, b.cli)
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
	answer func(r *http.Request) (status int, message string) // 0: the daemon answers; 200: the message is the content
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, message := a.answer(r)
	if status == 0 {
		return a.RoundTripper.RoundTrip(r)
	}
	if status != http.StatusOK {
		message = fmt.Sprintf(`{"message": %q}`, message)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewBufferString(message)),
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
	b.leaveNetwork(t, def.Key, "left")
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
	for _, status := range []int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			networksForbidden(t, status)
		})
	}
}

func networksForbidden(t *testing.T, status int) {
	t.Helper()
	b := newBench(t)
	b.driver = b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if isNetworks(r) {
			return status, "not allowed here"
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
	def := b.onOwnNetwork(t)
	d := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if r.URL.Query().Get("name") == "drover-"+def.Key.String() {
			if len(b.networksOf(t, def.Key)) != 1 {
				t.Error("there is no network yet")
			}
			return http.StatusBadRequest, "no"
		}
		return 0, ""
	})
	_, err := d.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.ErrorContains(t, err, "create the container")
	b.requireNothingLeft(t)
}

// TestDriver_networks_missing_at_the_creation starts a task whose network is removed before
// its containers are created, as daemons may notice then.
func TestDriver_networks_missing_at_the_creation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, suffix := range []string{"", ".service0"} {
		def := b.onOwnNetwork(t)
		_, err := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
			if r.URL.Query().Get("name") == "drover-"+def.Key.String()+suffix {
				return http.StatusNotFound, "network " + def.Key.String() + " not found"
			}
			return 0, ""
		}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "its network was removed")
		b.requireNothingLeft(t)
	}
}

// TestDriver_networks_of_failed_resumes resumes a task again and again. Once it starts, only
// the network that it uses is left.
func TestDriver_networks_of_failed_resumes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	order := b.dieInLaunch(t, def)
	order.DieInLaunch, order.Resume, order.Path, order.Answered = false, true, ".service0", true
	require.True(t, crashes(t, order))
	task := executor.Task{Definition: def, Launch: launchAt(1), Resume: true}
	failing := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if strings.Contains(r.URL.Path, "/containers/") && strings.HasSuffix(r.URL.Path, "/start") {
			return http.StatusInternalServerError, "not now"
		}
		return 0, ""
	})
	for range 2 {
		_, err := failing.Start(t.Context(), task)
		require.ErrorContains(t, err, "not now")
	}
	h, err := b.driver.Start(t.Context(), task)
	require.NoError(t, err)
	require.Len(t, b.networksOf(t, def.Key), 1)
	require.Equal(t, "once\n", follow(t, h, 1).output)
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
}

// TestDriver_networks_of_a_resume_without_a_container removes the network of a resumed task
// whose container cannot be created. What the process before has started stays.
func TestDriver_networks_of_a_resume_without_a_container(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	b.dieInLaunch(t, def)
	before := b.networksOf(t, def.Key)
	require.Len(t, before, 1)
	_, err := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if r.URL.Query().Get("name") == "drover-"+def.Key.String() {
			return http.StatusInternalServerError, "not now"
		}
		return 0, ""
	}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1), Resume: true})
	require.ErrorContains(t, err, "not now")
	after := b.networksOf(t, def.Key)
	require.Len(t, after, 1)
	require.Equal(t, before[0].ID, after[0].ID, "a service still uses it")
	h, err := b.driver.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
}

// dieInLaunch starts a task in a process that dies when it has recorded the launch.
func (b *bench) dieInLaunch(t *testing.T, def run.Definition) crashOrder {
	t.Helper()
	order := crashOrder{
		ExecutorID: b.id, Shim: testenv.BuildShim(t), Launched: filepath.Join(t.TempDir(), "launched"), Definition: def, DieInLaunch: true,
	}
	require.True(t, crashes(t, order))
	return order
}

// TestDriver_networks_exhausted_by_own starts a task while the daemon has no addresses, and
// an unused network of the task has some.
func TestDriver_networks_exhausted_by_own(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	b.leaveNetwork(t, def.Key, "left")
	d := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "/networks/create") && len(b.networksOf(t, def.Key)) > 0 {
			return http.StatusInternalServerError, "all predefined address pools have been fully subnetted"
		}
		return 0, ""
	})
	h, err := d.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.NoError(t, err)
	require.Equal(t, "once\n", follow(t, h, 1).output)
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
}

// leaveNetwork creates a network such as a killed process leaves.
func (b *bench) leaveNetwork(t testing.TB, key run.Key, name string) (id string) {
	t.Helper()
	created, err := b.cli.NetworkCreate(t.Context(), "drover-"+key.String()+"."+name, network.CreateOptions{
		Labels: map[string]string{"drover.executor": b.id, "drover.key": key.String()},
	})
	require.NoError(t, err)
	return created.ID
}

// TestDriver_networks_of_an_interrupted_removal removes the network also if the caller does
// not wait for it: without containers, no caller might look for it.
func TestDriver_networks_of_an_interrupted_removal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.driver = b.newDriverSeen(t, func(r *http.Request) {
		if r.Method == http.MethodDelete && isNetworks(r) {
			cancel()
		}
	})
	def := b.onOwnNetwork(t)
	h, err := b.driver.Start(ctx, executor.Task{Definition: def, Launch: launchAt(1)})
	require.NoError(t, err)
	require.NoError(t, h.Remove(ctx))
	require.Error(t, ctx.Err())
	b.requireNothingLeft(t)
}

// TestDriver_networks_that_stay removes everything but a network that the daemon does not
// remove, and that one later.
func TestDriver_networks_that_stay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.onOwnNetwork(t)
	stays, other := b.leaveNetwork(t, def.Key, "stays"), b.leaveNetwork(t, def.Key, "other")
	d := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, stays) {
			return http.StatusInternalServerError, "it stays"
		}
		return 0, ""
	})
	h, err := d.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.NoError(t, err)
	left, err := b.cli.VolumeCreate(t.Context(), volume.CreateOptions{Labels: map[string]string{"drover.key": def.Key.String()}})
	require.NoError(t, err)
	require.ErrorContains(t, h.Remove(t.Context()), "it stays")
	found := b.networksOf(t, def.Key)
	require.Len(t, found, 1)
	require.Equal(t, stays, found[0].ID)
	require.NotEqual(t, other, stays)
	_, err = b.cli.VolumeInspect(t.Context(), left.Name)
	require.True(t, cerrdefs.IsNotFound(err), "%v", err)
	h, err = b.driver.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
}

// TestDriver_networks_like_the_default_one gives networks the options of the daemon's
// default one, without which there are none.
func TestDriver_networks_like_the_default_one(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	answered := "[]"
	d := b.newDriverAnswered(t, func(r *http.Request) (int, string) {
		if isNetworks(r) && strings.Contains(r.URL.Query().Get("filters"), `"name"`) {
			return http.StatusOK, answered
		}
		return 0, ""
	})
	def := b.onOwnNetwork(t)
	task := executor.Task{Definition: def, Launch: launchAt(1)}
	_, err := d.Start(t.Context(), task)
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, `no network "bridge"`)
	b.requireNothingLeft(t)

	const mtu, masquerade = "com.docker.network.driver.mtu", "com.docker.network.bridge.enable_ip_masquerade"
	answered = `[{"Name": "my-bridge"}, {"Name": "bridge", "Options": {"` + mtu + `": "1400", "` + masquerade + `": "false",
		"com.docker.network.bridge.enable_icc": "false", "com.docker.network.bridge.name": "docker0"}}]`
	h, err := d.Start(t.Context(), task)
	require.NoError(t, err)
	b.removeAfter(t, h)
	found := b.networksOf(t, def.Key)
	require.Len(t, found, 1)
	require.Equal(t, map[string]string{mtu: "1400", masquerade: "false"}, found[0].Options)
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
	for _, name := range []string{"none", "host", "container:vpn", "builds", "bridge", "default"} {
		d := b.newDriver(t, docker.Options{Network: name})
		require.False(t, d.Features().ServiceNetworks, name)
		_, err := d.Start(t.Context(), executor.Task{Definition: b.onOwnNetwork(t), Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf("%q (executor.docker.network)", name))
	}
	require.True(t, b.newDriver(t, docker.Options{}).Features().ServiceNetworks)
	b.requireNothingLeft(t)
}
