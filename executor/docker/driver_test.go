package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestNew_refuses_missing_options(t *testing.T) {
	t.Parallel()
	cli, err := client.NewClientWithOpts()
	require.NoError(t, err)
	for _, options := range []docker.Options{
		{},
		{Client: cli},
		{Client: cli, ExecutorID: "x"},
		{Client: cli, ExecutorID: "x", ShimPath: "/does/not/exist"},
	} {
		_, err := docker.New(options)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	}
}

func TestDriver_without_daemon(t *testing.T) {
	t.Parallel()
	cli, err := client.NewClientWithOpts(client.WithHost("unix://" + t.TempDir() + "/none.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	b := &bench{cli: cli, image: "none", id: "test"}
	d := b.newDriver(t, docker.Options{})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(d.Check(t.Context())))
	_, err = d.List(t.Context())
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	_, err = d.Attach(t.Context(), b.definition(t).Key)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	for _, resume := range []bool{false, true} {
		_, err = d.Start(t.Context(), executor.Task{Definition: b.definition(t), Launch: launchAt(1), Resume: resume})
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	}
}

func TestDriver_environment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.driver.Check(t.Context()))
	b.image = b.variant(t, "USER tester", "WORKDIR /work/dir", "ENV COLOR=blue SHAPE=round", `ENTRYPOINT ["/bin/false"]`, "VOLUME /data")

	t.Run("of the image", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, `id -u; pwd; echo "$COLOR $SHAPE $HOME"; touch /data/x 2>/dev/null || echo "data is root's"; cat /proc/1/cmdline | tr '\0' ' ' | cut -d' ' -f1`)
		def.Environment = map[string]string{"SHAPE": "square"}
		s := b.finish(t, def)
		require.Equal(t, "1000\n/work/dir\nblue square /home/tester\ndata is root's\n/.drover/bin/drover-shim\n", s.output)
		require.Equal(t, run.StatusSuccess, s.result.Status)
	})
	t.Run("of the task", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "id -u; id -g; pwd")
		def.User, def.WorkingDir = "0:2000", "/created/for/it"
		require.Equal(t, "0\n2000\n/created/for/it\n", b.finish(t, def).output)
	})
	t.Run("holds no secret that docker shows", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "true")
		def.Environment = map[string]string{"TOKEN": "hunter2-in-the-environment"}
		def.Auth = map[string]run.Auth{"ghcr.io": {Username: "u", Password: "hunter2-of-the-registry"}}
		h := b.start(t, def)
		_, raw, err := b.cli.ContainerInspectWithRaw(t.Context(), "drover-"+def.Key.String(), false)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "hunter2")
		follow(t, h, 1)
	})
}

func TestDriver_limits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Run("are set", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "true")
		def.Resources = run.Resources{CPU: "500m", Memory: "64Mi", PIDs: 20}
		h := b.start(t, def)
		c, err := b.cli.ContainerInspect(t.Context(), "drover-"+def.Key.String())
		require.NoError(t, err)
		require.EqualValues(t, 5e8, c.HostConfig.NanoCPUs)
		require.EqualValues(t, 64<<20, c.HostConfig.Memory)
		require.EqualValues(t, 64<<20, c.HostConfig.MemorySwap)
		require.EqualValues(t, 20+64, *c.HostConfig.PidsLimit)
		follow(t, h, 1)
	})
	t.Run("that are invalid are refused", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for want, resources := range map[string]run.Resources{
			"resources.cpu":    {CPU: "many"},
			"resources.memory": {Memory: "4GiB"},
			"memory limit":     {Memory: "1Mi"}, // by the daemon
			"CPUs":             {CPU: "100000"},
		} {
			def := b.definition(t, "true")
			def.Resources = resources
			_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
			require.Equal(t, run.CodeInvalid, run.CodeOf(err), want)
			require.ErrorContains(t, err, want)
		}
		b.requireNothingLeft(t)
	})
}

func TestDriver_volumes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, `
		df -k /scratch | tail -n 1 | awk '{print $1, $2}'
		printf '#!/bin/sh\necho ran\n' >/scratch/x; chmod +x /scratch/x; /scratch/x
		echo kept >/plain/x; cat /plain/x`)
	def.Volumes = []run.Volume{{Path: "/scratch", Tmpfs: &run.Tmpfs{Size: "8Mi"}}, {Path: "/plain"}}
	h := b.start(t, def)
	volumes := b.anonymousVolumes(t, def.Key)
	require.Len(t, volumes, 2)
	require.Equal(t, "tmpfs 8192\nran\nkept\n", follow(t, h, 1).output)
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t, volumes...)

	for _, path := range []string{"/", "relative", "/.drover", "/.drover/task", "/x/../.drover/bin"} {
		def := b.definition(t, "true")
		def.Volumes = []run.Volume{{Path: path}}
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), path)
	}
}

func TestDriver_privileged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "mkdir -p /mnt && mount -t tmpfs none /mnt && echo mounted")
	def.Privileged = true
	require.False(t, b.driver.Features().Privileged)
	_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.ErrorContains(t, err, "privileged")

	b.driver = b.newDriver(t, docker.Options{AllowPrivileged: true})
	require.True(t, b.driver.Features().Privileged)
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	if err != nil && strings.Contains(err.Error(), "unable to apply caps") {
		testenv.HostLacks(t, "all capabilities in its daemon: "+err.Error())
	}
	require.NoError(t, err)
	b.removeAfter(t, h)
	require.Equal(t, "mounted\n", follow(t, h, 1).output)
}

func TestDriver_List(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "sleep 60")
	def.Services = []run.ServiceSpec{{Name: "idle", Image: b.image, Command: []string{"sleep", "60"}}}
	h := b.start(t, def)
	keys, err := b.driver.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.Key{def.Key}, keys)
	other, err := b.newDriver(t, docker.Options{ExecutorID: "other-" + b.id}).List(t.Context())
	require.NoError(t, err)
	require.Empty(t, other)

	// The remains of an environment are found and removed as well.
	require.NoError(t, b.cli.ContainerRemove(t.Context(), "drover-"+def.Key.String(), container.RemoveOptions{Force: true, RemoveVolumes: true}))
	keys, err = b.driver.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.Key{def.Key}, keys)
	partial, err := b.driver.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.Equal(t, run.CodeNotFound, run.CodeOf(followToError(t, partial)))
	require.NoError(t, partial.Remove(t.Context()))
	_, err = b.driver.Attach(t.Context(), def.Key)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
}

// ghosts adds a container to the daemon's lists that it has removed.
type ghosts struct {
	http.RoundTripper
	ghost container.Summary
}

func (g ghosts) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := g.RoundTripper.RoundTrip(request)
	if err != nil || !strings.HasSuffix(request.URL.Path, "/containers/json") {
		return response, err
	}
	var all []container.Summary
	err = errors.Join(json.NewDecoder(response.Body).Decode(&all), response.Body.Close())
	text, encodeErr := json.Marshal(append(all, g.ghost))
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return response, errors.Join(err, encodeErr)
}

// TestDriver_List_after_a_removal has what the daemon lists for ever if it learns after
// the removal of a container that a process of it ran out of memory.
func TestDriver_List_after_a_removal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	labels := map[string]string{"drover.executor": b.id, "drover.key": b.definition(t).Key.String(), "drover.role": "helper"}
	for name, tt := range map[string]struct {
		state container.ContainerState
		want  int
	}{
		"removed": {container.StateRemoving, 0},
		"exited":  {container.StateExited, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := ghosts{b.cli.HTTPClient().Transport, container.Summary{ID: strings.Repeat("ab", 32), State: tt.state, Labels: labels}}
			cli, err := client.NewClientWithOpts(client.WithHost(b.cli.DaemonHost()), client.WithHTTPClient(&http.Client{Transport: transport}), client.WithAPIVersionNegotiation())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, cli.Close()) })
			keys, err := b.newDriver(t, docker.Options{Client: cli}).List(t.Context())
			require.NoError(t, err)
			require.Len(t, keys, tt.want)
		})
	}
}

func TestDriver_Start_gives_up(t *testing.T) {
	t.Parallel()
	t.Run("when the launch can not be recorded", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: b.definition(t, "echo ran"), Launch: func() (int64, error) {
			return 0, run.Errorf(run.CodeUnavailable, "disk full")
		}})
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		require.ErrorContains(t, err, "disk full")
		b.requireNothingLeft(t)
	})
	t.Run("when the context ends", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		def := b.definition(t, "echo ran")
		def.Services = []run.ServiceSpec{{Name: "idle", Image: b.image, Command: []string{"sleep", "60"}}}
		for _, after := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after) //nolint:forbidigo // ends the call
			_, err := b.driver.Start(ctx, executor.Task{Definition: def, Launch: func() (int64, error) {
				<-ctx.Done() // the start came this far in time
				return 0, context.Cause(ctx)
			}})
			cancel()
			require.Equal(t, run.CodeTimeout, run.CodeOf(err))
			b.requireNothingLeft(t)
		}
	})
	t.Run("without an environment to resume", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: b.definition(t, "true"), Launch: launchAt(1), Resume: true})
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		b.requireNothingLeft(t)
	})
	t.Run("with an image that can not be run", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		def := b.definition(t, "true")
		def.Platform = "linux/s390x"
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "linux/s390x")
		def.Platform, def.Image = "", "Bad Name"
		_, err = b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		b.requireNothingLeft(t)
	})
}

// TestDriver_Start_fills_the_volume starts tasks from several processes at once
// with a shim that the daemon does not have yet, and again after the volume was
// pruned.
func TestDriver_Start_fills_the_volume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	prefix := "drover-test-" + newID(t)
	var group sync.WaitGroup
	for range 4 {
		d := b.newDriver(t, docker.Options{Prefix: prefix})
		group.Go(func() {
			for range 2 {
				h, err := d.Start(t.Context(), executor.Task{Definition: b.definition(t, "echo ran"), Launch: launchAt(1)})
				if err != nil {
					t.Error(err)
					return
				}
				s := follow(t, h, 1)
				if err := h.Remove(t.Context()); err != nil || s.output != "ran\n" {
					t.Error(err, s.output)
				}
			}
		})
	}
	group.Wait()
	d := b.newDriver(t, docker.Options{Prefix: prefix})
	for range 2 {
		h, err := d.Start(t.Context(), executor.Task{Definition: b.definition(t, "echo ran"), Launch: launchAt(1)})
		require.NoError(t, err)
		require.Equal(t, "ran\n", follow(t, h, 1).output)
		require.NoError(t, h.Remove(t.Context()))
		b.requirePrefixGone(t, prefix)
	}
}

func TestDriver_memory_limit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, hog := range map[string]string{
		"in the step itself":    "exec tail /dev/zero",
		"in a child of it":      "tail /dev/zero",
		"in a child's pipeline": "set +e; tail /dev/zero | cat; echo survived; tail /dev/zero",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := b.definition(t, "echo fits", hog)
			def.Resources.Memory = "64Mi"
			result := b.finish(t, def).result
			require.Equal(t, run.StatusFailed, result.Status)
			require.Equal(t, run.CauseOOM, result.Cause, result.Reason)
			require.Contains(t, result.Reason, "memory")
			require.Equal(t, 137, *result.ExitCode)
		})
	}
}
