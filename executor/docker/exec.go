package docker

import (
	"context"
	"io"
	"path"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// exec runs a shim process with the given arguments, as root, in a running container that
// has the shim's volume: a main container, or a service on the network of the task. It passes
// the stdout to read and returns the exit code. If the container is not running, the error is
// errNotRunning.
func (d *Driver) exec(ctx context.Context, id string, args []string, stderr io.Writer, read func(stdout io.Reader) error) (code int, err error) {
	created, err := d.client.ContainerExecCreate(ctx, id, container.ExecOptions{
		User: "0:0", WorkingDir: "/", AttachStdout: true, AttachStderr: true,
		Cmd: append([]string{path.Join(toolDir, shimFile)}, args...),
	})
	if cerrdefs.IsConflict(err) {
		return 0, errNotRunning
	}
	if err != nil {
		return 0, daemonError(err, "run the shim in container %s", id)
	}
	conn, err := d.client.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, daemonError(err, "run the shim in container %s", id)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	err = read(&demultiplexer{source: conn.Reader, stderr: stderr})
	if ctx.Err() != nil {
		return 0, daemonError(context.Cause(ctx), "run the shim in container %s", id)
	}
	if err != nil {
		return 0, err
	}
	ended, err := d.client.ContainerExecInspect(ctx, created.ID)
	if err != nil {
		return 0, daemonError(err, "run the shim in container %s", id)
	}
	return ended.ExitCode, nil
}
