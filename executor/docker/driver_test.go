package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
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
	b.image = b.variant(t, "USER tester", "WORKDIR /work/place", "ENV COLOR=blue SHAPE=round", `ENTRYPOINT ["/bin/false"]`, "VOLUME /data")

	t.Run("of the image", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, `id -u; pwd; echo "$COLOR $SHAPE $HOME"; touch /data/x 2>/dev/null || echo "data is root's"; cat /proc/1/cmdline | tr '\0' ' ' | cut -d' ' -f1`)
		def.Environment = map[string]string{"SHAPE": "square"}
		s := b.finish(t, def)
		require.Equal(t, "1000\n/work/place\nblue square /home/tester\ndata is root's\n/.drover/bin/drover-shim\n", s.output)
		require.Equal(t, run.StatusSuccess, s.result.Status)
	})
	t.Run("of the task", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "id -u; id -g; pwd")
		def.User, def.WorkingDir = "0:2000", "/made/for/it"
		require.Equal(t, "0\n2000\n/made/for/it\n", b.finish(t, def).output)
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
		tell(t, h, 1)
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
		require.EqualValues(t, 20+32, *c.HostConfig.PidsLimit)
		tell(t, h, 1)
	})
	t.Run("that are wrong are told", func(t *testing.T) {
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
	require.Equal(t, "tmpfs 8192\nran\nkept\n", tell(t, h, 1).output)
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
		t.Skip("the daemon of this host has not all capabilities itself: " + err.Error())
	}
	require.NoError(t, err)
	b.removeAfter(t, h)
	require.Equal(t, "mounted\n", tell(t, h, 1).output)
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

	// What is left of an environment is found and removed as well.
	require.NoError(t, b.cli.ContainerRemove(t.Context(), "drover-"+def.Key.String(), container.RemoveOptions{Force: true, RemoveVolumes: true}))
	keys, err = b.driver.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.Key{def.Key}, keys)
	partial, err := b.driver.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.Equal(t, run.CodeNotFound, run.CodeOf(ruin(t, partial)))
	require.NoError(t, partial.Remove(t.Context()))
	_, err = b.driver.Attach(t.Context(), def.Key)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.NoError(t, h.Remove(t.Context()))
	b.requireNothingLeft(t)
}

func TestDriver_Start_gives_up(t *testing.T) {
	t.Parallel()
	t.Run("when the launch can not be recorded", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		def := b.definition(t, "echo ran")
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: func() (int64, error) {
			return 0, run.Errorf(run.CodeUnavailable, "disk full")
		}})
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		// It may have been recorded: the environment is still there and goes on.
		h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1), Resume: true})
		require.NoError(t, err)
		b.removeAfter(t, h)
		require.Equal(t, "ran\n", tell(t, h, 1).output)
	})
	t.Run("when the caller does", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		def := b.definition(t, "echo ran")
		def.Services = []run.ServiceSpec{{Name: "idle", Image: b.image, Command: []string{"sleep", "60"}}}
		for _, after := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := b.driver.Start(ctx, executor.Task{Definition: def, Launch: func() (int64, error) { return 0, ctx.Err() }})
			cancel()
			if err != nil {
				require.Contains(t, []run.Code{run.CodeTimeout, run.CodeInternal}, run.CodeOf(err))
			}
			h, err := b.driver.Attach(t.Context(), def.Key)
			if err == nil { // it came as far as the launch
				require.NoError(t, h.Remove(t.Context()))
			}
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
	t.Run("over an image that can not be run", func(t *testing.T) {
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

// TestDriver_Start_fills_the_volume_once lets many processes start at once
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
				s := tell(t, h, 1)
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
		require.Equal(t, "ran\n", tell(t, h, 1).output)
		require.NoError(t, h.Remove(t.Context()))
		b.requirePrefixGone(t, prefix)
	}
}

func TestHandle_Events_tells_a_bad_end(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun := func(t *testing.T, h executor.Handle) {
		t.Helper()
		for f, err := range h.Events(t.Context(), 1) {
			require.NoError(t, err)
			if f.Kind == run.FrameOutput {
				return
			}
		}
	}
	t.Run("killed from outside", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo begun; sleep 60")
		h := b.start(t, def)
		begun(t, h)
		require.NoError(t, b.cli.ContainerStop(t.Context(), "drover-"+def.Key.String(), container.StopOptions{}))
		err := ruin(t, h)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		require.ErrorContains(t, err, "killed from outside")
		_, err = b.driver.Start(t.Context(), executor.Task{Definition: def, Resume: true, Launch: func() (int64, error) {
			t.Error("launched again")
			return 1, nil
		}})
		require.NoError(t, err, "the steps have begun: it is only followed")
	})
	t.Run("removed from outside", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo begun; sleep 60")
		h := b.start(t, def)
		begun(t, h)
		require.NoError(t, b.cli.ContainerRemove(t.Context(), "drover-"+def.Key.String(), container.RemoveOptions{Force: true, RemoveVolumes: true}))
		err := ruin(t, h)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		require.ErrorContains(t, err, "removed")
	})
	t.Run("while it is followed", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo begun; sleep 60")
		h := b.start(t, def)
		var last error
		for f, err := range h.Events(t.Context(), 1) {
			if last = err; err == nil && f.Kind == run.FrameOutput {
				require.NoError(t, b.cli.ContainerKill(t.Context(), "drover-"+def.Key.String(), "KILL"))
			}
		}
		require.Equal(t, run.CodeNotFound, run.CodeOf(last))
	})
}

func TestHandle_Events_goes_on(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Run("for several followers at once", func(t *testing.T) {
		t.Parallel()
		h := b.start(t, b.definition(t, "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done"))
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				var output strings.Builder
				for f, err := range h.Events(t.Context(), 1) {
					if err != nil {
						t.Error(err)
					}
					output.Write(f.Data)
				}
				if got := output.String(); got != "1\n2\n3\n4\n5\n6\n7\n8\n" {
					t.Errorf("a follower got %q", got)
				}
			})
		}
		group.Wait()
	})
	t.Run("after its caller left", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done")
		h := b.start(t, def)
		next := int64(1)
		var output string
		for len(output) < 12 {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			for f, err := range h.Events(ctx, next) {
				if err != nil {
					require.Equal(t, run.CodeTimeout, run.CodeOf(err))
					break
				}
				require.Equal(t, next, f.N)
				next++
				output += string(f.Data)
			}
			cancel()
		}
		require.Equal(t, "1\n2\n3\n4\n5\n6\n", output)
	})
	t.Run("from the journal of a container that has ended", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo once")
		h := b.start(t, def)
		s := tell(t, h, 1)
		require.NoError(t, h.Stop(t.Context(), time.Second), "it acknowledges the end")
		testenv.Await(t, 20*time.Second, func() (bool, string) {
			c, err := b.cli.ContainerInspect(t.Context(), "drover-"+def.Key.String())
			require.NoError(t, err)
			return !c.State.Running, c.State.Status
		})
		again, err := b.newDriver(t, docker.Options{}).Attach(t.Context(), def.Key)
		require.NoError(t, err)
		require.Len(t, tell(t, again, 1).frames, len(s.frames))
		require.Equal(t, "once\n", tell(t, again, 2).output)
		require.NoError(t, h.Stop(t.Context(), time.Second))
	})
}

func TestHandle_Stop_honors_its_grace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "trap '' TERM; echo begun; while :; do sleep 1; done")
	def.Grace = time.Hour
	h := b.start(t, def)
	var result *run.TaskResult
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if f.Kind == run.FrameOutput {
			require.NoError(t, h.Stop(t.Context(), 500*time.Millisecond))
		}
		result = f.Result
	}
	require.Equal(t, run.StatusStopped, result.Status)
}

func TestHandle_Copy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "mkdir /in; echo ready; while ! [ -f /in/go ]; do sleep 0.05; done; cat /in/go; echo out >/out")
	h := b.start(t, def)
	var output string
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if output += string(f.Data); f.Kind == run.FrameOutput && output == "ready\n" {
			require.NoError(t, h.CopyTo(t.Context(), "/in", fileNamed(t, "go")))
		}
	}
	require.Equal(t, "ready\ngo\n", output)
	content, err := h.CopyFrom(t.Context(), "/out")
	require.NoError(t, err)
	r := tar.NewReader(bytes.NewReader(readAll(t, content)))
	header, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "out", header.Name)
	_, err = h.CopyFrom(t.Context(), "/none")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
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

// TestHandle_Events_beside_a_stuck_reader has a first follower that holds its
// connection and does not read, which blocks the daemon's copying of streams:
// a second one gets everything all the same, and so does the first one later.
func TestHandle_Events_beside_a_stuck_reader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "for i in 1 2 3 4 5; do yes 0123456789 | head -c 1000000; sleep 0.2; done")
	stuck := b.start(t, def)
	other := b.newDriver(t, docker.Options{})
	other.SetSilence(200 * time.Millisecond)
	h, err := other.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.Len(t, tell(t, h, 1).output, 5_000_000)
	require.Len(t, tell(t, stuck, 1).output, 5_000_000)
}

// fileNamed packs a file that holds its name.
func fileNamed(t testing.TB, name string) io.Reader {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(name)) + 1}))
	_, err := io.WriteString(w, name+"\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &archive
}
