package shell

import (
	"context"
	"io"
	"os/exec"
	"sync"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

var _ executor.ArchiveHandle = (*handle)(nil)

// Connect implements executor.ArchiveHandle. The path of the socket may be too long
// for a dial from this process, so a shim process dials from the task's
// directory.
func (h *handle) Connect(ctx context.Context) (io.ReadWriteCloser, error) {
	return h.join(ctx, "connect")
}

// join runs a second shim process, whose stdin and stdout are the connection.
func (h *handle) join(ctx context.Context, command string) (*connection, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), h.driver.shim, command, "--dir", h.dir)
	cmd.Env = []string{"GOMAXPROCS=1"} // the process only copies, mostly inside the kernel
	c := &connection{cmd: cmd}
	var err error
	if c.WriteCloser, err = cmd.StdinPipe(); err == nil {
		c.Reader, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, run.Errorf(run.CodeUnavailable, "start drover-shim: %w", err)
	}
	return c, nil
}

// connection is a process that joins its stdin and stdout to a shim.
type connection struct {
	io.Reader
	io.WriteCloser
	cmd  *exec.Cmd
	once sync.Once
}

// Close implements io.Closer. It returns when the process has ended.
func (c *connection) Close() error {
	c.once.Do(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // closes the pipes; the exit code is irrelevant
	})
	return nil
}
