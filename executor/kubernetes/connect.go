package kubernetes

import (
	"context"
	"io"

	"github.com/drover-run/drover/executor"
)

var (
	_ executor.ArchiveHandle = (*handle)(nil)
	_ executor.ExecHandle    = (*handle)(nil)
)

// Connect implements executor.ArchiveHandle. It runs a second shim process in the
// task's container, which joins its own stdin and stdout to the shim that runs
// the task.
func (h *handle) Connect(ctx context.Context) (io.ReadWriteCloser, error) {
	return h.join(ctx, "connect")
}

// Exec implements executor.ExecHandle, in the same way. The API server closes the
// stdin of the process if this process is killed.
func (h *handle) Exec(ctx context.Context) (io.ReadWriteCloser, error) {
	return h.join(ctx, "exec")
}

// join runs a second shim process, whose stdin and stdout are the connection.
func (h *handle) join(ctx context.Context, command string) (io.ReadWriteCloser, error) {
	s, err := h.driver.exec(ctx, execution{pod: h.pod, container: mainContainer, stdin: true, args: []string{command, "--dir", taskDir}})
	if err != nil {
		return nil, err
	}
	return connection{s}, nil
}

// connection is a session used as a byte stream.
type connection struct{ session *session }

// Read implements io.Reader.
func (c connection) Read(p []byte) (int, error) { return c.session.source.Read(p) }

// Write implements io.Writer.
func (c connection) Write(p []byte) (int, error) { return c.session.stdin.Write(p) }

// Close implements io.Closer.
func (c connection) Close() error {
	c.session.close()
	return nil
}
