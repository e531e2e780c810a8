package docker_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// realDir returns a new directory without links in its path.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // the umask may be narrower
	return dir
}

// TestDriver_without_host_access refuses what needs it, also if the paths exist.
func TestDriver_without_host_access(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	features := b.driver.Features()
	require.False(t, features.HostPaths || features.Devices)
	for _, change := range []func(*run.Definition){
		func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/mirror", HostPath: "/usr", ReadOnly: true}} },
		func(d *run.Definition) { d.Devices = []string{"/dev/null"} },
	} {
		def := b.definition(t, "true")
		change(&def)
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "executor.docker.host_access")
	}
	b.requireNothingLeft(t)
}

// TestNew_host_access needs a daemon on the same host, since the executor looks at the paths.
func TestNew_host_access(t *testing.T) {
	t.Parallel()
	shim, state := testenv.BuildShim(t), t.TempDir()
	for _, tt := range []struct{ host, state, want string }{
		{"unix:///run/docker.sock", state, ""}, {"tcp://127.0.0.1:1", state, "tcp://127.0.0.1:1"}, {"unix:///run/docker.sock", "", "state dir"},
	} {
		cli, err := client.NewClientWithOpts(client.WithHost(tt.host))
		require.NoError(t, err)
		d, err := docker.New(docker.Options{Client: cli, ExecutorID: "x", ShimPath: shim, HostAccess: true, StateDir: tt.state})
		if tt.want == "" {
			require.NoError(t, err)
			require.True(t, d.Features().HostPaths && d.Features().Devices)
			continue
		}
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, tt.want)
	}
}

// TestCheckHostPath_protected refuses the data of the executor and the socket of the daemon, also
// if they are configured as links.
func TestCheckHostPath_protected(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	for _, sub := range []string{"lib/state/inner", "lib/other", "lib/state2", "daemon", "data/docker/volumes", "data/cache"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	socket := filepath.Join(dir, "daemon", "docker.sock")
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	require.NoError(t, os.Symlink("lib/state", filepath.Join(dir, "state-link")))
	require.NoError(t, os.Symlink("data/docker", filepath.Join(dir, "data-link")))
	require.NoError(t, os.Symlink("daemon/docker.sock", filepath.Join(dir, "socket-link")))
	for _, names := range [][3]string{{"lib/state", "daemon/docker.sock", "data/docker"}, {"state-link", "socket-link", "data-link"}} {
		cli, err := client.NewClientWithOpts(client.WithHost("unix://" + filepath.Join(dir, names[1])))
		require.NoError(t, err)
		options := &docker.Options{Client: cli, HostAccess: true, StateDir: filepath.Join(dir, names[0])}
		for p, want := range map[string]string{
			"lib/other": "", "lib/state2": "", "data/cache": "",
			"data/docker": "data of the docker daemon", "data/docker/volumes": "data of the docker daemon", "data": "data of the docker daemon",
			"lib/state": "data of the executor", "lib/state/inner": "data of the executor", "lib": "data of the executor", "": "which no task may have",
			"daemon/docker.sock": "the socket of the docker daemon", "daemon": "the socket of the docker daemon",
			"state-link": "symbolic link", "socket-link": "symbolic link",
		} {
			err := docker.CheckHostPath(options, filepath.Join(dir, names[2]), filepath.Join(dir, p))
			if want == "" {
				require.NoError(t, err, p)
			} else {
				require.ErrorContains(t, err, want, p)
			}
		}
	}
}

// TestCheckHostPath_owners has directories whose content a user of the host can replace.
func TestCheckHostPath_owners(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	cli, err := client.NewClientWithOpts(client.WithHost("unix:///run/drover-no-such.sock"))
	require.NoError(t, err)
	options := &docker.Options{Client: cli, HostAccess: true, StateDir: t.TempDir()}
	for mode, want := range map[os.FileMode]string{
		0o755: "", 0o777 | os.ModeSticky: "", 0o777: "other users of the host may write to", 0o775: "other users of the host may write to",
	} {
		above := filepath.Join(dir, mode.String())
		require.NoError(t, os.MkdirAll(filepath.Join(above, "between", "path"), 0o755))
		require.NoError(t, os.Chmod(above, mode))
		for _, p := range []string{"between", "between/path"} {
			err := docker.CheckHostPath(options, "/nowhere", filepath.Join(above, p))
			if want == "" {
				require.NoError(t, err, "%s %s", mode, p)
			} else {
				require.ErrorContains(t, err, want+" its directory "+above, "%s %s", mode, p)
			}
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give directories to others")
	}
	of := filepath.Join(dir, "home", "alice")
	require.NoError(t, os.MkdirAll(filepath.Join(of, "cache"), 0o755))
	require.NoError(t, os.Chown(of, 1000, 1000))
	require.NoError(t, docker.CheckHostPath(options, "/nowhere", of), "alice cannot replace her directory")
	require.ErrorContains(t, docker.CheckHostPath(options, "/nowhere", filepath.Join(of, "cache")), "its directory "+of+" belongs to a user of the host")
	require.NoError(t, os.Chmod(filepath.Dir(of), 0o777|os.ModeSticky))
	require.ErrorContains(t, docker.CheckHostPath(options, "/nowhere", of), "may write to its directory "+filepath.Dir(of), "the sticky bit lets her")
}

// TestDriver_data_of_the_daemon asks the daemon where its data are.
func TestDriver_data_of_the_daemon(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	info, err := b.cli.Info(t.Context())
	require.NoError(t, err)
	root, err := filepath.EvalSymlinks(info.DockerRootDir)
	if err != nil {
		t.Skipf("the data of the daemon are elsewhere: %v", err)
	}
	for _, p := range []string{root, filepath.Dir(root)} {
		if run.CheckHostPath(p) != nil {
			continue
		}
		d := b.definition(t, "true")
		d.Volumes = []run.Volume{{Path: "/data", HostPath: p, ReadOnly: true}}
		require.ErrorContains(t, b.refused(t, d), "the data of the docker daemon ("+root+")")
	}
}

// TestDriver_host_paths_replaced_before_a_start puts a link in the place of a path of the host
// once a container with it exists.
func TestDriver_host_paths_replaced_before_a_start(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"main", "helper"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			dir := filepath.Join(realDir(t), "dir")
			require.NoError(t, os.Mkdir(dir, 0o700))
			var created atomic.Bool
			requests := &createRequests{next: b.cli.HTTPClient().Transport, before: func(of string) {
				if of == role {
					created.Store(true)
				}
			}}
			replacing := &requestsBefore{next: requests, before: func(r *http.Request) {
				if !created.Load() || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/json") && !strings.HasSuffix(r.URL.Path, "/archive") {
					return
				}
				if os.Remove(dir) != nil {
					return // another request has replaced it
				}
				if err := os.Symlink("/usr", dir); err != nil {
					t.Error(err)
				}
			}}
			cli, err := client.NewClientWithOpts(client.FromEnv, client.WithHTTPClient(&http.Client{Transport: replacing}), client.WithAPIVersionNegotiation())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, cli.Close()) })
			b.driver = b.newDriver(t, docker.Options{Client: cli, HostAccess: true, StateDir: t.TempDir()})
			def := b.definition(t, "true", "true")
			def.Volumes = []run.Volume{{Path: "/dir", HostPath: dir}}
			def.WorkingDir, def.Steps[1].Image = run.SharedWorkingDir, b.image
			_, err = b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
			require.Equal(t, run.CodeInvalid, run.CodeOf(err), err)
			require.ErrorContains(t, err, "symbolic link to /usr")
			b.requireNothingLeft(t)
		})
	}
}

// requestsBefore calls a function before each request.
type requestsBefore struct {
	next   http.RoundTripper
	before func(r *http.Request)
}

func (b *requestsBefore) RoundTrip(r *http.Request) (*http.Response, error) {
	b.before(r)
	return b.next.RoundTrip(r)
}

// TestDriver_host_paths_of_images has images with a VOLUME below a path of the host and around
// it, and with a link on the way to it.
func TestDriver_host_paths_of_images(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	below, around, linked := b.variant(t, "VOLUME /data/sub"), b.variant(t, "VOLUME /var"), b.imageWithLinks(t, map[string]string{"link": "/tmp"})
	dir := realDir(t)
	for _, inStep := range []bool{false, true} {
		for image, tt := range map[string]struct{ path, want string }{
			below: {"/data", "has a VOLUME at /data/sub, and the path of the host " + dir + " is at /data"}, around: {"/var/lib/data", "has a VOLUME at /var, and the path of the host"},
			linked: {"/link/data", "/link is a symbolic link in the image"},
		} {
			d := b.definition(t, "echo ran")
			d.Volumes = []run.Volume{{Path: tt.path, HostPath: dir}}
			if inStep {
				d.WorkingDir, d.Steps[0].Image = run.SharedWorkingDir, image
			} else {
				d.Image = image
			}
			require.ErrorContains(t, b.refused(t, d), tt.want)
		}
	}
}

// TestDriver_host_paths_of_checkouts looks at the mounts of a container for checkouts, in which no
// file of the host may be in the place of git.
func TestDriver_host_paths_of_checkouts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	b.driver = b.newDriver(t, docker.Options{HostAccess: true, StateDir: t.TempDir()})
	git, dir := b.imageWithLinks(t, nil), realDir(t)
	checkout := run.StepDef{Image: git, Checkout: &run.Checkout{Repository: "https://git.example.com/a.git"}, When: run.WhenOnSuccess}
	for name, tt := range map[string]struct {
		change func(d *run.Definition)
		want   []string
	}{
		"into the working directory": {func(*run.Definition) {}, nil},
		"beside a script": {func(d *run.Definition) {
			d.Steps = append(d.Steps, run.StepDef{Script: "true", Image: git, When: run.WhenOnSuccess})
		}, []string{"/src", "/usr/local/bin", "/cache"}},
	} {
		d := b.cached(t, "sleep 1000")
		d.Volumes = append(d.Volumes, run.Volume{Path: "/usr/local/bin", HostPath: dir, ReadOnly: true}, run.Volume{Path: "/src", HostPath: dir})
		d.Steps, d.WorkingDir = append(d.Steps, checkout), run.SharedWorkingDir
		tt.change(&d)
		h := b.start(t, d)
		found, err := b.cli.ContainerList(t.Context(), container.ListOptions{
			Filters: filters.NewArgs(filters.Arg("label", "drover.key="+d.Key.String()), filters.Arg("label", "drover.role=helper")),
		})
		require.NoError(t, err)
		require.Len(t, found, 1, name)
		var got []string
		for _, m := range found[0].Mounts {
			got = append(got, m.Destination)
			require.Equal(t, m.Destination != "/usr/local/bin" && m.Destination != "/.drover/bin", m.RW, m.Destination)
		}
		require.ElementsMatch(t, append(tt.want, "/.drover/bin", "/.drover/task", run.SharedWorkingDir), got, name)
		c, err := b.cli.ContainerInspect(t.Context(), found[0].ID)
		require.NoError(t, err)
		for _, m := range c.HostConfig.Mounts {
			if m.Type == mount.TypeBind { // a daemon cannot make the rest read-only
				require.Equal(t, m.ReadOnly, m.BindOptions != nil && m.BindOptions.NonRecursive, m.Target)
			}
		}
		require.NoError(t, h.Remove(t.Context()))
	}
}

// TestDriver_socket_of_the_daemon mounts the socket where pools can allow it only by its name.
func TestDriver_socket_of_the_daemon(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	socket, err := filepath.EvalSymlinks(strings.TrimPrefix(b.cli.DaemonHost(), "unix://"))
	if err != nil || !run.NamedHostPath(socket) {
		t.Skipf("the daemon listens at %s (%v)", b.cli.DaemonHost(), err)
	}
	b.driver = b.newDriver(t, docker.Options{HostAccess: true, StateDir: t.TempDir()})
	def := b.definition(t, "if [ -S /docker.sock ]; then echo a socket; fi")
	def.Volumes = []run.Volume{{Path: "/docker.sock", HostPath: socket}}
	require.Equal(t, "a socket\n", b.finish(t, def).output)
	def = b.definition(t, "true")
	def.Volumes = []run.Volume{{Path: "/host-run", HostPath: filepath.Dir(socket)}}
	_, err = b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.ErrorContains(t, err, "allows "+socket)
}

// TestDriver_host_path_vanishes_before_a_container removes a path of the host after the driver
// has looked at it. The daemon must not create it.
func TestDriver_host_path_vanishes_before_a_container(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"main", "helper"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			dir := filepath.Join(realDir(t), "dir")
			require.NoError(t, os.Mkdir(dir, 0o700))
			requests := &createRequests{next: b.cli.HTTPClient().Transport, before: func(created string) {
				if created == role {
					require.NoError(t, os.Remove(dir))
				}
			}}
			cli, err := client.NewClientWithOpts(client.FromEnv, client.WithHTTPClient(&http.Client{Transport: requests}), client.WithAPIVersionNegotiation())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, cli.Close()) })
			b.driver = b.newDriver(t, docker.Options{Client: cli, HostAccess: true, StateDir: t.TempDir()})
			def := b.definition(t, "true", "true")
			def.Volumes = []run.Volume{{Path: "/dir", HostPath: dir}}
			def.WorkingDir, def.Steps[1].Image = run.SharedWorkingDir, b.image
			_, err = b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
			require.Equal(t, run.CodeInvalid, run.CodeOf(err), err)
			require.ErrorContains(t, err, dir)
			require.NoDirExists(t, dir)
			b.requireNothingLeft(t)
		})
	}
}

// TestDriver_checkouts_into_host_paths refuses checkouts that would remove what is on the host.
func TestDriver_checkouts_into_host_paths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.driver = b.newDriver(t, docker.Options{HostAccess: true, StateDir: t.TempDir()})
	dir := realDir(t)
	for _, tt := range []struct{ task, step, checkout string }{{"/w", "/src", ""}, {"/w", "/src/a", ""}, {"/w", "/", "src"}, {"/w", "/", "."}} {
		d := b.definition(t, "true")
		d.WorkingDir = tt.task
		d.Volumes = []run.Volume{{Path: "/src", HostPath: dir}}
		d.Steps = append(d.Steps, run.StepDef{
			WorkingDir: tt.step, Image: d.Image, When: run.WhenOnSuccess,
			Checkout: &run.Checkout{Repository: "https://git.example.com/a/b.git", Path: tt.checkout},
		})
		require.ErrorContains(t, b.refused(t, d), "would remove what is at a path of the host, which is mounted at /src", tt)
	}
}
