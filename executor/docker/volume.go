package docker

import (
	"context"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

const (
	// digestLength is how many characters of the shim's digest name its volume.
	digestLength = 16

	// setupTimeout is how long a process waits for another process's setup
	// container before it assumes that its creator is dead. Filling the volume
	// takes well under a second. A creator that is slower than this begins
	// again.
	setupTimeout = 10 * time.Second

	// setupLimit bounds the whole setup, even if many processes delay each
	// other.
	setupLimit = 2 * time.Minute

	// setupPoll is the polling interval for the end of another process's setup.
	setupPoll = 50 * time.Millisecond
)

// shimBinary is the program that runs as the first process of main containers.
type shimBinary struct {
	content []byte
	digest  string
}

// volumeState records whether the shared volume is known to be complete.
type volumeState struct {
	mu         sync.Mutex
	ready      bool
	otherID    string    // setup container of another process
	otherSince time.Time // when it was first seen
}

func (d *Driver) volumeName() string {
	return d.options.Prefix + "-shim-" + d.shim.digest[:digestLength]
}

func (d *Driver) shimMount(readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: d.volumeName(), Target: toolDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{d.options.label("shim"): d.shim.digest}},
	}
}

// ensureVolume makes sure that the shared volume holds the shim. The content of
// a volume is reachable only through a container. The driver therefore creates
// one from the task's image and never starts it. The fixed name of that
// container is the lock among processes: its creator looks for the marker,
// which is written last, and fills the volume if the marker is missing.
func (d *Driver) ensureVolume(ctx context.Context, imageName string, platform *ocispec.Platform) error {
	d.volume.mu.Lock()
	defer d.volume.mu.Unlock()
	if d.volume.ready {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupLimit,
		run.Errorf(run.CodeUnavailable, "the volume %s could not be filled within %s", d.volumeName(), setupLimit))
	defer cancel()
	for !d.volume.ready {
		if err := d.trySetup(ctx, imageName, platform); err != nil {
			return err
		}
	}
	return nil
}

// trySetup creates the setup container and completes the volume with it. If
// another process has that container, trySetup waits a little: the volume is
// ready once that container shows it complete.
func (d *Driver) trySetup(ctx context.Context, imageName string, platform *ocispec.Platform) error {
	name := d.volumeName() + "-setup"
	config := &container.Config{
		Image: imageName, Entrypoint: []string{path.Join(toolDir, shimFile)},
		Labels: map[string]string{d.options.label("role"): roleSetup},
	}
	host := &container.HostConfig{
		NetworkMode: "none",
		LogConfig:   container.LogConfig{Type: "none"},
		Mounts:      []mount.Mount{d.shimMount(false)},
	}
	id, err := d.create(ctx, config, host, nil, platform, name)
	if cerrdefs.IsConflict(err) {
		return d.awaitSetup(ctx, name)
	}
	if err != nil {
		return refused(err, "create the container that fills volume %s", d.volumeName())
	}
	err = d.fillVolume(ctx, id)
	if removed := d.removeContainer(context.WithoutCancel(ctx), id); err == nil {
		err = removed
	}
	if run.CodeOf(err) == run.CodeNotFound {
		return pause(ctx, setupPoll) // another process assumed that this one was dead
	}
	d.volume.ready = err == nil
	return err
}

// awaitSetup inspects and waits for another process's setup container, and
// removes it if that process seems to be dead.
func (d *Driver) awaitSetup(ctx context.Context, name string) error {
	other, err := d.client.ContainerInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return ctxError(ctx)
	}
	if err != nil {
		return daemonError(err, "wait for container %s", name)
	}
	if other.ID != d.volume.otherID { // the daemon's clock may differ
		d.volume.otherID, d.volume.otherSince = other.ID, time.Now()
	}
	d.volume.ready = d.volumeComplete(ctx, other.ID)
	if d.volume.ready || time.Since(d.volume.otherSince) > d.setupTimeout {
		return d.removeContainer(ctx, other.ID) // not needed any more, or its creator is dead
	}
	return pause(ctx, setupPoll)
}

// volumeComplete reports whether the volume, seen through a container that
// mounts it, has the marker, which is written last, and the shim.
func (d *Driver) volumeComplete(ctx context.Context, id string) bool {
	marker, err := d.client.ContainerStatPath(ctx, id, path.Join(toolDir, markerFile))
	if err != nil || marker.Size != int64(len(d.shim.digest)) {
		return false
	}
	shim, err := d.client.ContainerStatPath(ctx, id, path.Join(toolDir, shimFile))
	return err == nil && shim.Size == int64(len(d.shim.content))
}

// forgetVolume makes the next start check the volume again.
func (d *Driver) forgetVolume() {
	d.volume.mu.Lock()
	defer d.volume.mu.Unlock()
	d.volume.ready = false
}

func (d *Driver) fillVolume(ctx context.Context, id string) error {
	if d.volumeComplete(ctx, id) {
		return nil
	}
	d.log.InfoContext(ctx, "filling the shim volume", "volume", d.volumeName())
	archive, err := d.shim.archive()
	if err != nil {
		return err
	}
	if err := d.client.CopyToContainer(ctx, id, toolDir, archive, container.CopyToContainerOptions{}); err != nil {
		return daemonError(err, "copy the shim to volume %s", d.volumeName())
	}
	d.dropOldVolumes(ctx)
	return nil
}

// dropOldVolumes removes the unused volumes of other shim versions, which
// upgrades leave behind. An executor that still needs one fills it again.
func (d *Driver) dropOldVolumes(ctx context.Context) {
	found, err := d.client.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", d.options.label("shim")))})
	if err != nil {
		d.log.WarnContext(ctx, "failed to list old shim volumes", "error", err)
		return
	}
	for _, v := range found.Volumes {
		if v.Name == d.volumeName() || !strings.HasPrefix(v.Name, d.options.Prefix+"-shim-") {
			continue
		}
		err := d.client.VolumeRemove(ctx, v.Name, false)
		if err != nil && !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) { // conflict: it is in use
			d.log.WarnContext(ctx, "failed to remove an old shim volume", "volume", v.Name, "error", err)
		}
	}
}

// archive packs the shim and then its marker: a process that sees the marker
// may use the shim.
func (s shimBinary) archive() (io.Reader, error) {
	return archiveOf(archiveFile{shimFile, 0o555, s.content}, archiveFile{markerFile, 0o444, []byte(s.digest)})
}

// pause waits for the given duration. The error has CodeCanceled or
// CodeTimeout.
func pause(ctx context.Context, span time.Duration) error {
	if err := retry.Sleep(ctx, span); err != nil {
		return daemonError(err, "wait")
	}
	return nil
}
