package helper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

const (
	// dialPoll is the pause between two attempts to connect to a helper container that
	// does not listen yet.
	dialPoll = 20 * time.Millisecond
	// killTimeout is how long a helper container may take to report the end of a step
	// whose processes it was asked to kill. The connection is closed then.
	killTimeout = 10 * time.Second
)

// errLost is the error of a step whose connection has ended.
var errLost = errors.New("the connection to its helper container ended")

// Client is the connection of a task's shim to a helper container. One step runs at a
// time. Methods are safe for concurrent use.
type Client struct {
	conn *conn
	lost chan struct{} // closed when the connection has ended

	mu      sync.Mutex
	current *Process
	ended   chan struct{} // closed by the answer to End; nil before the request
}

// Connect connects to a helper container, waits until it listens, and sends it the
// description of the environment. dir is the task volume. Errors have messages for the
// user of the task.
func Connect(ctx context.Context, dir, name string, order run.ShimSpec) (*Client, error) {
	socket, err := dial(ctx, socketOf(dir, name))
	if err != nil {
		return nil, fmt.Errorf("it did not answer: %w", err)
	}
	c := newConn(socket)
	defer context.AfterFunc(ctx, c.close)()
	var ready response
	err = c.send(request{Order: &order})
	if err == nil {
		_, err = c.receive(&ready)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("it did not answer: %w", context.Cause(ctx))
	case err != nil:
		err = fmt.Errorf("it ended: %w", err)
	case ready.Fault != "":
		err = errors.New(ready.Fault)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	client := &Client{conn: c, lost: make(chan struct{})}
	go client.receive()
	return client, nil
}

// dial connects to a socket once a process listens there.
func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	ticker := time.NewTicker(dialPoll)
	defer ticker.Stop()
	for {
		socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err == nil {
			return socket, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// receive handles the messages of the helper until the connection ends.
func (c *Client) receive() {
	defer close(c.lost)
	for {
		var m response
		if _, err := c.conn.receive(&m); err != nil {
			c.conn.close()
			c.end(nil)
			return
		}
		switch {
		case m.Started:
			c.mu.Lock()
			if c.current != nil {
				close(c.current.started)
			}
			c.mu.Unlock()
		case m.Result != nil:
			c.end(m.Result)
		case m.Ended:
			c.mu.Lock()
			if c.ended != nil {
				close(c.ended)
				c.ended = nil
			}
			c.mu.Unlock()
		}
	}
}

// end ends the current step; without a result it is lost.
func (c *Client) end(result *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.current
	c.current = nil
	if p == nil {
		return
	}
	if result == nil {
		p.err = errLost
	} else {
		p.result = *result
	}
	p.stopTimer()
	close(p.done)
}

// Process is a step in a helper container.
type Process struct {
	client  *Client
	started chan struct{}
	done    chan struct{}
	result  Result
	err     error

	timer *time.Timer // ends the connection after Kill
}

// Run starts a step whose output goes to the files, and returns once it runs, or has
// ended. The caller may close the files then. The error means that the connection had
// ended before.
func (c *Client) Run(s Step, stdout, stderr *os.File) (*Process, error) {
	p := &Process{client: c, started: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	select {
	case <-c.lost:
		c.mu.Unlock()
		return nil, errLost
	default:
	}
	c.current = p
	c.mu.Unlock()
	if err := c.conn.send(request{Step: &s}, stdout, stderr); err != nil {
		c.conn.close() // the reader ends the step
	}
	select {
	case <-p.started:
	case <-p.done:
	case <-c.lost: // before the step was registered
		c.end(nil)
		<-p.done
	}
	return p, nil
}

// Done is closed when the step has ended, or was lost.
func (p *Process) Done() <-chan struct{} { return p.done }

// Result returns the end of the step once Done is closed. The error means that the
// connection ended before: nothing is known about the end of the step, except that all
// its processes are killed.
func (p *Process) Result() (Result, error) { return p.result, p.err }

// Terminate asks the processes of the step to end.
func (p *Process) Terminate() { p.client.signal(p, terminate) }

// Kill kills the processes of the step. If the helper does not report the end, Kill
// ends the connection after a while.
func (p *Process) Kill() {
	c := p.client
	c.mu.Lock()
	if c.current == p && p.timer == nil {
		p.timer = time.AfterFunc(killTimeout, c.conn.close)
	}
	c.mu.Unlock()
	c.signal(p, kill)
}

// stopTimer must be called with the lock of the client.
func (p *Process) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (c *Client) signal(p *Process, s signal) {
	c.mu.Lock()
	running := c.current == p
	c.mu.Unlock()
	if running {
		_ = c.conn.send(request{Signal: s}) // if the connection has ended, so has the step
	}
}

// Close ends all processes in the helper container: SIGTERM, and SIGKILL after the
// grace. Then it closes the connection, and the helper container ends.
func (c *Client) Close(grace time.Duration) {
	ended := make(chan struct{})
	c.mu.Lock()
	c.ended = ended
	c.mu.Unlock()
	if c.conn.send(request{End: max(grace, 1)}) == nil {
		timer := time.NewTimer(grace + killTimeout)
		defer timer.Stop()
		select {
		case <-ended:
		case <-c.lost:
		case <-timer.C:
		}
	}
	c.conn.close()
	<-c.lost
}
