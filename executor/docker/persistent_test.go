package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/run"
)

// removePersistentVolumes removes the persistent volumes of an executor.
func (b *bench) removePersistentVolumes(t testing.TB, id string) {
	t.Helper()
	for _, v := range b.persistentVolumes(t, id) {
		require.NoError(t, b.cli.VolumeRemove(context.WithoutCancel(t.Context()), v.Name, false))
	}
}

func (b *bench) persistentVolumes(t testing.TB, id string) []*volume.Volume {
	t.Helper()
	found, err := b.cli.VolumeList(context.WithoutCancel(t.Context()), volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "drover.role=volume"), filters.Arg("label", "drover.executor="+id))})
	require.NoError(t, err)
	return found.Volumes
}

// cached returns the definition of a task with a persistent volume.
func (b *bench) cached(t *testing.T, scripts ...string) run.Definition {
	t.Helper()
	d := b.definition(t, scripts...)
	d.Volumes, d.VolumeScope = []run.Volume{{Path: "/cache", Name: "cache"}}, "linux /acme/shop"
	return d
}

// TestDriver_volumes_of_executors runs tasks of two executors on one daemon, whose volumes of
// the same scope and name are apart and have labels for operators.
func TestDriver_volumes_of_executors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := "other-" + b.id
	for _, tt := range []struct{ id, want string }{{b.id, ""}, {other, ""}, {b.id, "left\n"}} {
		t.Cleanup(func() { b.removePersistentVolumes(t, tt.id) })
		d := b.newDriver(t, docker.Options{ExecutorID: tt.id})
		h, err := d.Start(t.Context(), executor.Task{Definition: b.cached(t, "ls /cache; touch /cache/left"), Launch: launchAt(1)})
		require.NoError(t, err)
		require.Equal(t, tt.want, follow(t, h, 1).output)
		require.NoError(t, h.Remove(t.Context()))
	}
	found := b.persistentVolumes(t, b.id)
	require.Len(t, found, 1)
	require.Equal(t, map[string]string{
		"drover.volume": "cache", "drover.scope": "linux /acme/shop", "drover.executor": b.id, "drover.role": "volume",
	}, found[0].Labels)
	b.requireNothingLeft(t)
}

// imageWithLinks returns the name of a copy of the busybox image with symbolic links.
func (b *bench) imageWithLinks(t *testing.T, links map[string]string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, target := range links {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}))
	}
	require.NoError(t, w.Close())
	return b.imageWith(t, &layer)
}

// imageWith returns the name of a copy of the busybox image with the files of an archive.
func (b *bench) imageWith(t *testing.T, layer io.Reader) string {
	t.Helper()
	created, err := b.cli.ContainerCreate(t.Context(), &container.Config{Image: b.image}, nil, nil, nil, "")
	require.NoError(t, err)
	require.NoError(t, b.cli.CopyToContainer(t.Context(), created.ID, "/", layer, container.CopyToContainerOptions{}))
	name := "drover-test/changed:" + strings.ToLower(rand.Text())
	_, err = b.cli.ContainerCommit(t.Context(), created.ID, container.CommitOptions{Reference: name})
	require.NoError(t, err)
	require.NoError(t, b.cli.ContainerRemove(t.Context(), created.ID, container.RemoveOptions{}))
	b.removeImageAfter(t, name)
	return name
}

// runAndRemove runs a task to its successful end, and returns its output.
func (b *bench) runAndRemove(t *testing.T, def run.Definition) string {
	t.Helper()
	h, err := b.newDriver(t, docker.Options{}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.NoError(t, err)
	s := follow(t, h, 1)
	require.NoError(t, h.Remove(t.Context()))
	require.Equal(t, run.StatusSuccess, s.result.Status, s.output)
	return s.output
}

// refused starts a task that the driver must refuse before a step can run, and returns why.
func (b *bench) refused(t *testing.T, def run.Definition) error {
	t.Helper()
	h, err := b.newDriver(t, docker.Options{HostAccess: true, StateDir: t.TempDir()}).Start(t.Context(), executor.Task{Definition: def, Launch: func() (int64, error) {
		t.Error("the task was launched")
		return 1, nil
	}})
	if err == nil {
		b.removeAfter(t, h)
	}
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
	b.requireNothingLeft(t)
	return err
}

// TestDriver_volumes_behind_links has images with links on the way to mounts, by which a mount
// would be below a persistent volume in spite of its name.
func TestDriver_volumes_behind_links(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	image := b.imageWithLinks(t, map[string]string{"link": "/cache", "short": "tmp"})
	covered := b.imageWithLinks(t, map[string]string{"cache": "/tmp"})
	behind := []run.Volume{{Path: "/link/below", Name: "other"}}
	for name, tt := range map[string]struct {
		volumes []run.Volume
		change  func(d *run.Definition)
		link    string
	}{
		"a persistent volume": {behind, func(d *run.Definition) { d.Image = image }, "/link"},
		"a tmpfs":             {[]run.Volume{{Path: "/link/below", Tmpfs: &run.Tmpfs{}}}, func(d *run.Definition) { d.Image = image }, "/link"},
		"the end of a path":   {[]run.Volume{{Path: "/link", Name: "other"}}, func(d *run.Definition) { d.Image = image }, "/link"},
		"a harmless link":     {[]run.Volume{{Path: "/short/x", Name: "other"}}, func(d *run.Definition) { d.Image = image }, "/short"},
		"the only volume":     {nil, func(d *run.Definition) { d.Image = covered }, "/cache"},
		"in a helper": {behind, func(d *run.Definition) {
			d.WorkingDir, d.Steps[0].Image = run.SharedWorkingDir, image
		}, "/link"},
		"in a service": {nil, func(d *run.Definition) {
			d.WorkingDir = "/cache"
			d.Services = []run.ServiceSpec{{Name: "s", Image: covered, Command: []string{"sleep", "1000"}, ShareWorkingDir: true}}
		}, "/cache"},
	} {
		d := b.cached(t, "echo ran")
		d.Volumes = append(d.Volumes, tt.volumes...)
		tt.change(&d)
		t.Log(name)
		err := b.refused(t, d)
		require.ErrorContains(t, err, tt.link+" is a symbolic link in the image drover-test/changed:")
		require.ErrorContains(t, err, "use another image")
	}
}

// TestDriver_volumes_of_the_shim has paths by which volumes would cover what the shim needs.
func TestDriver_volumes_of_the_shim(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, path := range []string{"/.drover", "/.drover/task", "/.drover/x", "/", "/x/../.drover/task", "/proc/x", "/etc", "/etc/hosts", ""} {
		d := b.cached(t, "echo ran")
		d.Volumes[0].Path = path
		_, err := b.newDriver(t, docker.Options{}).Start(t.Context(), executor.Task{Definition: d, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%s: %v", path, err)
	}
	b.requireNothingLeft(t)
}

// TestDriver_volumes_at_files has an image with a file at the path of a volume.
func TestDriver_volumes_at_files(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	d := b.cached(t, "echo ran")
	d.Image = b.imageWith(t, fileNamed(t, "cache"))
	require.ErrorContains(t, b.refused(t, d), "a file may be in the place of a volume")
	d.Volumes, d.WorkingDir, d.Steps[0].Image = nil, "/cache", b.image
	require.Error(t, b.refused(t, d), "the daemon says why")
}

// TestDriver_volumes_of_a_definition has volumes that no gateway accepts.
func TestDriver_volumes_of_a_definition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(d *run.Definition){
		"volume_scope":                  func(d *run.Definition) { d.VolumeScope = "" },
		"/usr belongs to the container": func(d *run.Definition) { d.Resources.GPUs, d.Volumes[0].Path = 1, "/usr/local/x" },
		"513 bytes and 1 elements":      func(d *run.Definition) { d.Volumes[0].Path = "/" + strings.Repeat("x", 512) },
		"34 bytes and 17 elements":      func(d *run.Definition) { d.Volumes[0].Path = strings.Repeat("/x", 17) },
		"36 bytes and 18 elements": func(d *run.Definition) {
			d.Volumes = append(d.Volumes, run.Volume{Path: strings.Repeat("/x", 18), Tmpfs: &run.Tmpfs{}})
		},
		"38 bytes and 19 elements": func(d *run.Definition) { d.WorkingDir, d.Steps[0].Image = strings.Repeat("/x", 19), b.image },
	} {
		d := b.cached(t, "echo ran")
		change(&d)
		_, err := b.newDriver(t, docker.Options{GPUs: 1}).Start(t.Context(), executor.Task{Definition: d, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%s: %v", want, err)
		require.ErrorContains(t, err, want)
	}
	b.requireNothingLeft(t)
}

// TestDriver_volumes_of_checkouts looks at the mounts of a container for checkouts, in which no
// file of an earlier task may be in the place of git.
func TestDriver_volumes_of_checkouts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	git := b.imageWithLinks(t, nil)
	checkout := run.StepDef{Image: git, Checkout: &run.Checkout{Repository: "https://git.example.com/a.git"}, When: run.WhenOnSuccess}
	for name, tt := range map[string]struct {
		change func(d *run.Definition)
		want   []string
	}{
		"into the working directory": {func(*run.Definition) {}, []string{"/.drover/bin", "/.drover/task", "/workspace"}},
		"into a volume": {func(d *run.Definition) {
			d.Steps[1].WorkingDir, d.Steps[1].Checkout = "/cache", &run.Checkout{Repository: checkout.Checkout.Repository, Path: "src"}
		}, []string{"/.drover/bin", "/.drover/task", "/cache", "/workspace"}},
		"into a working directory that is a volume": {func(d *run.Definition) { d.WorkingDir = "/cache" }, []string{"/.drover/bin", "/.drover/task", "/cache"}},
		"beside a script": {func(d *run.Definition) {
			d.Steps = append(d.Steps, run.StepDef{Script: "true", Image: git, When: run.WhenOnSuccess})
		}, []string{"/.drover/bin", "/.drover/task", "/cache", "/workspace"}},
	} {
		d := b.cached(t, "sleep 1000")
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
		}
		require.ElementsMatch(t, tt.want, got, name)
		require.NoError(t, h.Remove(t.Context()))
	}
}

// TestDriver_volumes_begin_empty has an image with something at the path of the volume.
func TestDriver_volumes_begin_empty(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	d := b.cached(t, "ls -A /cache; echo done")
	d.Image = b.imageWithLinks(t, map[string]string{"cache/of-the-image": "/tmp"})
	require.Equal(t, "done\n", b.runAndRemove(t, d))
}

// TestDriver_volumes_begin_empty_for_services has a service that shares the volume, whose image
// has something at its path.
func TestDriver_volumes_begin_empty_for_services(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	d := b.cached(t, "ls -A /cache; echo done")
	d.WorkingDir = "/cache"
	d.Services = []run.ServiceSpec{{
		Name: "s", Image: b.imageWithLinks(t, map[string]string{"cache/of-the-image": "/tmp"}), Command: []string{"sleep", "1000"}, ShareWorkingDir: true,
	}}
	require.Equal(t, "done\n", b.runAndRemove(t, d))
}

// TestDriver_volumes_of_images has images with a VOLUME below a persistent volume, where an
// earlier task has left a link to the directory of the shim, and one around it.
func TestDriver_volumes_of_images(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	b.runAndRemove(t, b.cached(t, "ln -s /.drover/task /cache/sub"))
	below, around := b.variant(t, "VOLUME /cache/sub"), b.variant(t, "VOLUME /var")
	sharing := func(d *run.Definition, image string) {
		d.WorkingDir = d.Volumes[0].Path
		d.Services = []run.ServiceSpec{{Name: "s", Image: image, Command: []string{"sleep", "1000"}, ShareWorkingDir: true}}
	}
	inStep := func(d *run.Definition, image string) { d.WorkingDir, d.Steps[0].Image = run.SharedWorkingDir, image }
	inTask := func(d *run.Definition, image string) { d.Image = image }
	for name, change := range map[string]func(d *run.Definition, image string){"task": inTask, "step": inStep, "service": sharing} {
		for image, paths := range map[string][2]string{below: {"/cache", "/cache/sub"}, around: {"/var/lib/cache", "/var"}} {
			d := b.cached(t, "echo ran")
			d.Volumes[0].Path = paths[0]
			change(&d, image)
			t.Log(name, paths)
			err := b.refused(t, d)
			require.ErrorContains(t, err, "image "+image+" has a VOLUME at "+paths[1]+", and the persistent volume cache is at "+paths[0])
			require.ErrorContains(t, err, "mount the persistent volume elsewhere, or use an image without this VOLUME")
		}
	}
}

// TestDriver_volumes_beside_those_of_images has services whose images have a VOLUME at the path
// of a persistent volume that they do not share, and below it.
func TestDriver_volumes_beside_those_of_images(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Cleanup(func() { b.removePersistentVolumes(t, b.id) })
	d := b.cached(t, "ls /cache; echo done")
	d.Image = b.variant(t, "VOLUME /cache", "VOLUME /data") // the persistent volume takes the place of the first
	d.Services = []run.ServiceSpec{{Name: "s", Image: b.variant(t, "VOLUME /cache", "VOLUME /cache/sub"), Command: []string{"sleep", "1000"}}}
	require.Equal(t, "done\n", b.runAndRemove(t, d))
}
