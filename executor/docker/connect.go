package docker

import (
	"context"
	"io"
	"path"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

var (
	_ executor.ArchiveHandle = (*handle)(nil)
	_ executor.ExecHandle    = (*handle)(nil)
)

// Connect implements executor.ArchiveHandle. It runs a second shim process in the
// container, which joins its own stdin and stdout to the shim that runs the
// task. That process ends when the connection is closed.
func (h *handle) Connect(ctx context.Context) (io.ReadWriteCloser, error) {
	return h.join(ctx, "connect")
}

// Exec implements executor.ExecHandle, in the same way. The daemon closes the stdin of
// the process if this process is killed.
func (h *handle) Exec(ctx context.Context) (io.ReadWriteCloser, error) {
	return h.join(ctx, "exec")
}

// join runs a second shim process, whose stdin and stdout are the connection.
func (h *handle) join(ctx context.Context, command string) (io.ReadWriteCloser, error) {
	created, err := h.driver.client.ContainerExecCreate(ctx, h.id, container.ExecOptions{
		User: "0:0", WorkingDir: "/", AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{path.Join(toolDir, shimFile), command, "--dir", taskDir},
		Env: []string{"GOMAXPROCS=1"}, // the process only copies, mostly inside the kernel; its threads count against the task's limit
	})
	if err != nil {
		return nil, h.connectError(err)
	}
	conn, err := h.driver.client.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, h.connectError(err)
	}
	return &connection{Reader: &demultiplexer{source: conn.Reader, stderr: io.Discard}, conn: conn}, nil
}

func (h *handle) connectError(err error) error {
	return &run.Error{Code: run.CodeUnavailable, Message: "connect to the task " + h.key.String() + ": " + daemonText(err), Err: err}
}

// connection is an attached exec.
type connection struct {
	io.Reader
	conn types.HijackedResponse
}

// Write implements io.Writer.
func (c *connection) Write(p []byte) (int, error) { return c.conn.Conn.Write(p) }

// Close implements io.Closer. The program ends with its stdin.
func (c *connection) Close() error {
	c.conn.Close()
	return nil
}
