package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

// archiveFile is a file that the driver puts into a container.
type archiveFile struct {
	name    string
	mode    int64
	content []byte
}

// archiveOf packs files, owned by root, in the order in which they are to be
// written.
func archiveOf(files ...archiveFile) (io.Reader, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return &buffer, nil
}

// stopRequestArchive packs the files that pass a stop request to the shim.
func stopRequestArchive(r shim.StopRequest) (io.Reader, error) {
	content, names, err := r.Files()
	if err != nil {
		return nil, err
	}
	files := make([]archiveFile, 0, len(names))
	for _, name := range names {
		files = append(files, archiveFile{name, 0o600, content})
	}
	return archiveOf(files...)
}

// taskFiles reads and writes files in the task's directory of a main container, running or
// not. For such a call the daemon mounts all volumes of the container again. If a host path
// among them has vanished, it says that the file does not exist: a task that has begun would
// look like one that has not. taskFiles then uses another container that has only the volume
// of that directory, and never runs.
type taskFiles struct{ *Driver }

func (t taskFiles) stat(ctx context.Context, id, name string) (stat container.PathStat, err error) {
	err = t.reach(ctx, id, func(id string) error {
		stat, err = t.client.ContainerStatPath(ctx, id, name)
		return err
	})
	return stat, err
}

// read returns a file as a tar stream.
func (t taskFiles) read(ctx context.Context, id, name string) (content io.ReadCloser, err error) {
	err = t.reach(ctx, id, func(id string) error {
		content, _, err = t.client.CopyFromContainer(ctx, id, name)
		return err
	})
	return content, err
}

// write unpacks a tar stream in the task's directory.
func (t taskFiles) write(ctx context.Context, id string, content io.Reader) error {
	archive, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return t.reach(ctx, id, func(id string) error {
		return t.client.CopyToContainer(ctx, id, taskDir, bytes.NewReader(archive), container.CopyToContainerOptions{})
	})
}

// reach calls a function with the id of a main container, and again with that of a substitute
// if the daemon cannot mount the volumes of the container.
func (t taskFiles) reach(ctx context.Context, id string, call func(id string) error) error {
	err := call(id)
	if err == nil || !unmountable(err) {
		return err
	}
	substitute, failed := t.substitute(ctx, id)
	switch {
	case cerrdefs.IsNotFound(failed): // the container was removed
		return err
	case failed != nil:
		return failed
	case substitute == "":
		return err
	}
	return call(substitute)
}

// unmountable reports whether an error may mean that the daemon cannot mount a volume.
func unmountable(err error) bool {
	code := codeOf(err)
	return code == run.CodeNotFound || code == run.CodeInternal
}

// substitute returns a container with the volume of a main container's task directory; "" if
// the daemon reaches that in the main container.
func (t taskFiles) substitute(ctx context.Context, id string) (string, error) {
	c, err := t.client.ContainerInspect(ctx, id)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(c.HostConfig.Mounts, func(m mount.Mount) bool { return m.Type == mount.TypeBind }) {
		return "", nil
	}
	if _, err := t.client.ContainerStatPath(ctx, c.ID, "/"); err == nil || !unmountable(err) {
		return "", err
	}
	i := slices.IndexFunc(c.Mounts, func(m container.MountPoint) bool { return m.Destination == taskDir && m.Type == mount.TypeVolume })
	if i < 0 {
		return "", nil
	}
	config := &container.Config{Image: c.Image, Entrypoint: shimCommand(""), Labels: map[string]string{t.options.label("role"): roleSetup}}
	for _, name := range []string{"executor", "run", "task", "key"} { // it is removed with the environment
		config.Labels[t.options.label(name)] = c.Config.Labels[t.options.label(name)]
	}
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode("container:" + c.ID),
		LogConfig:   container.LogConfig{Type: "none"},
		Mounts:      []mount.Mount{{Type: mount.TypeVolume, Source: c.Mounts[i].Name, Target: taskDir}},
	}
	name := t.options.Prefix + "-files-" + c.ID
	if _, err := t.create(ctx, config, host, nil, nil, name); err != nil && !cerrdefs.IsConflict(err) {
		return "", err
	}
	return name, nil
}
