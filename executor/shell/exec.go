package shell

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
)

var _ executor.ExecHandle = (*handle)(nil)

// sessionGrace is how long a shim process has to kill the processes of a session after
// the end of its stdin.
const sessionGrace = 4 * time.Second

// Exec implements executor.ExecHandle. The session is a child of this process: its
// stdin ends if this process is killed.
func (h *handle) Exec(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := h.join(ctx, "exec")
	if err != nil {
		return nil, err
	}
	return &execSession{connection: c}, nil
}

// execSession is a connection whose process kills the processes of a command before it
// ends.
type execSession struct {
	*connection
	once sync.Once
}

// Close implements io.Closer. It returns when the process has ended.
func (s *execSession) Close() error {
	s.once.Do(func() {
		_ = s.WriteCloser.Close()
		timer := time.AfterFunc(sessionGrace, func() { _ = s.cmd.Process.Kill() })
		defer timer.Stop()
		_, _ = io.Copy(io.Discard, s.Reader) // until the process ends
	})
	return s.connection.Close()
}
