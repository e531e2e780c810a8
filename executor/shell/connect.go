package shell

import (
	"context"
	"io"
	"os/exec"
	"sync"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

var _ executor.Courier = (*handle)(nil)

// Connect implements executor.Courier. The path of the socket may be too long
// to be dialed from here, so a process of the shim's does that.
func (h *handle) Connect(ctx context.Context) (io.ReadWriteCloser, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), h.driver.shim, "connect", "--dir", h.dir)
	cmd.Env = []string{"GOMAXPROCS=1"} // it copies, and the kernel does most of that
	c := &connection{cmd: cmd}
	var err error
	if c.WriteCloser, err = cmd.StdinPipe(); err == nil {
		c.Reader, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, run.Errorf(run.CodeUnavailable, "starting drover-shim: %w", err)
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

// Close implements io.Closer. It returns when the process is gone.
func (c *connection) Close() error {
	c.once.Do(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // closes the pipes; how it ended tells nothing
	})
	return nil
}
