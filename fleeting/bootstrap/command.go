package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

// outputLimit is how many bytes at the end of a command's output are kept.
const outputLimit = 64 << 10

// run runs a command line on the host and returns its stdout.
func (c *connection) run(ctx context.Context, step Step, line string, stdin io.Reader) (string, error) {
	fault := &Error{Step: step, Instance: c.instance, Host: c.host, Reason: ReasonLost}
	session, err := c.client.NewSession()
	if err != nil {
		fault.Err = c.lost(ctx, err)
		return "", fault
	}
	defer func() { _ = session.Close() }()
	var mu sync.Mutex
	out, all := &tail{mu: &mu}, &tail{mu: &mu}
	session.Stdin, session.Stdout, session.Stderr = stdin, io.MultiWriter(out, all), all
	// A session ends with its command, and a server delays a requested end
	// until then: only closing the connection takes effect immediately.
	detach := context.AfterFunc(ctx, func() {
		_ = session.Signal(ssh.SIGTERM)
		_ = c.client.Close()
	})
	defer detach()
	err = session.Run(line)
	if err == nil {
		return out.String(), nil
	}
	fault.Output = tailOf(all.String())
	var exit *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		fault.Reason, fault.Err = ReasonTimeout, context.Cause(ctx)
	case errors.As(err, &exit) && exit.Signal() != "":
		fault.Reason, fault.ExitCode, fault.Err = ReasonCommand, exit.ExitStatus(), fmt.Errorf("ended by signal %s", exit.Signal())
	case errors.As(err, &exit):
		fault.Reason, fault.ExitCode = ReasonCommand, exit.ExitStatus()
	default: // without an exit code, the result is unknown
		fault.Err = c.lost(ctx, err)
	}
	return out.String(), fault
}

func (c *connection) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", errConnectionClosed, err)
}

// tail keeps the end of its input. Several tails may share a lock: stdout and
// stderr arrive concurrently.
type tail struct {
	mu  *sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - outputLimit; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
