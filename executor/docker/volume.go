package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

const (
	// digestLength is how much of the shim's digest names its volume.
	digestLength = 16

	// setupPatience is how old a setup container may get before another
	// process takes its maker for dead. Filling the volume takes well under a
	// second.
	setupPatience = 30 * time.Second

	// setupLook is how often the end of another process' setup is looked for.
	setupLook = 50 * time.Millisecond
)

// shimBinary is the program that becomes the main containers' first process.
type shimBinary struct {
	content []byte
	digest  string
}

// volumeState remembers that the shared volume was found complete.
type volumeState struct {
	mu    sync.Mutex
	ready bool
}

func (d *Driver) volumeName() string {
	return d.options.Prefix + "-shim-" + d.shim.digest[:digestLength]
}

func (d *Driver) shimMount(readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: d.volumeName(), Target: toolDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{d.label("shim"): d.shim.digest}},
	}
}

// ensureVolume makes sure that the shared volume holds the shim. A volume's
// content can be reached only through a container, so one is made, from the
// image that is needed anyhow, and never started. Its fixed name is the lock
// among processes: whoever made it looks for the marker, which is written
// last, and fills the volume where there is none.
func (d *Driver) ensureVolume(ctx context.Context, imageName string) error {
	d.volume.mu.Lock()
	defer d.volume.mu.Unlock()
	if d.volume.ready {
		return nil
	}
	id, err := d.createSetup(ctx, imageName)
	if err != nil {
		return err
	}
	err = d.fillVolume(ctx, id)
	if removed := d.removeContainer(context.WithoutCancel(ctx), id); err == nil {
		err = removed
	}
	d.volume.ready = err == nil
	return err
}

// forgetVolume makes the next start look at the volume again.
func (d *Driver) forgetVolume() {
	d.volume.mu.Lock()
	defer d.volume.mu.Unlock()
	d.volume.ready = false
}

func (d *Driver) fillVolume(ctx context.Context, id string) error {
	marker, err := d.client.ContainerStatPath(ctx, id, path.Join(toolDir, markerFile))
	if err == nil && marker.Size == int64(len(d.shim.digest)) {
		shim, err := d.client.ContainerStatPath(ctx, id, path.Join(toolDir, shimFile))
		if err == nil && shim.Size == int64(len(d.shim.content)) {
			return nil
		}
	}
	d.log.InfoContext(ctx, "filling the shim volume", "volume", d.volumeName())
	archive, err := d.shim.archive()
	if err != nil {
		return err
	}
	if err := d.client.CopyToContainer(ctx, id, toolDir, archive, container.CopyToContainerOptions{}); err != nil {
		return daemonError(err, "copying the shim to volume %s", d.volumeName())
	}
	return nil
}

// createSetup makes the setup container, waiting while another process has it.
func (d *Driver) createSetup(ctx context.Context, imageName string) (id string, err error) {
	name := d.volumeName() + "-setup"
	config := &container.Config{
		Image: imageName, Entrypoint: []string{path.Join(toolDir, shimFile)},
		Labels: map[string]string{d.label("role"): roleSetup},
	}
	host := &container.HostConfig{
		NetworkMode: "none",
		LogConfig:   container.LogConfig{Type: "none"},
		Mounts:      []mount.Mount{d.shimMount(false)},
	}
	for {
		made, err := d.client.ContainerCreate(ctx, config, host, nil, nil, name)
		switch {
		case err == nil:
			return made.ID, nil
		case !cerrdefs.IsConflict(err):
			return "", refused(err, "making the container that fills volume %s", d.volumeName())
		}
		if err := d.awaitSetup(ctx, name); err != nil {
			return "", err
		}
	}
}

// awaitSetup waits for the end of another process' setup, and ends it where
// that process seems to be dead.
func (d *Driver) awaitSetup(ctx context.Context, name string) error {
	other, err := d.client.ContainerInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return daemonError(err, "waiting for container %s", name)
	}
	made, err := time.Parse(time.RFC3339Nano, other.Created)
	if err != nil || time.Since(made) > setupPatience {
		return d.removeContainer(ctx, other.ID)
	}
	return pause(ctx, setupLook)
}

// archive packs the shim, and then its marker: whoever sees the marker may
// use the shim.
func (s shimBinary) archive() (io.Reader, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{{shimFile, 0o555, s.content}, {markerFile, 0o444, []byte(s.digest)}} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("packing the shim: %w", err)
		}
		if _, err := w.Write(file.content); err != nil {
			return nil, fmt.Errorf("packing the shim: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing the shim: %w", err)
	}
	return &buffer, nil
}

// pause waits for a span of time. The error has CodeCanceled or CodeTimeout.
func pause(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return daemonError(context.Cause(ctx), "waiting")
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
