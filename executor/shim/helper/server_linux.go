package helper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/run"
)

// endGrace is the time between SIGTERM and SIGKILL for all processes after the end of
// the connection: nothing that they write is read any more.
const endGrace = 100 * time.Millisecond

// Options configure a helper.
type Options struct {
	// Dir is the task volume, Name the name of the helper container, see Name.
	Dir, Name string
	// Environment and WorkingDir are those of this process, if they are those of the
	// image. The description of the environment takes precedence.
	Environment map[string]string
	WorkingDir  string
}

// Serve serves the shim of the task until the connection ends, and then kills all other
// processes of its container. It takes over the children of the process, which must end
// then. ctx ends the wait for the connection only.
func Serve(ctx context.Context, o Options) error {
	c, err := accept(ctx, socketOf(o.Dir, o.Name))
	if err != nil {
		return err
	}
	defer c.close()
	s := &server{options: o, conn: c, reaper: process.NewReaper(), requests: make(chan received), done: make(chan struct{})}
	go s.receive()
	err = s.serve()
	close(s.done)
	s.reaper.Sweep(endGrace)
	s.env.Close()
	return err
}

// accept waits for the one connection. Nothing listens afterwards.
func accept(ctx context.Context, path string) (*conn, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the shim of the task: %w", err)
	}
	defer func() { _ = listener.Close() }() // removes the socket
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	// The shim of the task may have another user. No other process of the task has
	// begun when it connects.
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // see above
		return nil, fmt.Errorf("open the socket for the shim of the task: %w", err)
	}
	socket, err := listener.AcceptUnix()
	if err != nil {
		return nil, fmt.Errorf("wait for the shim of the task: %w", err)
	}
	return newConn(socket), nil
}

// server is the helper's end of the connection. One goroutine uses it, beside receive.
type server struct {
	options  Options
	conn     *conn
	reaper   *process.Reaper
	requests chan received // closed at the end of the connection
	done     chan struct{} // closed when no request is served any more

	env     *stepenv.Env
	oomSeen int
	current *running
}

// received is a message with its file descriptors.
type received struct {
	request
	files []*os.File
}

// running is the running step.
type running struct {
	step     Step
	process  *process.Process
	outputs  string // path of the file
	oomKills int    // count when it began
}

// receive passes the requests on until the connection ends.
func (s *server) receive() {
	defer close(s.requests)
	for {
		var m received
		var err error
		if m.files, err = s.conn.receive(&m.request); err != nil {
			return
		}
		select {
		case s.requests <- m:
		case <-s.done:
			closeAll(m.files)
			return
		}
	}
}

func (s *server) serve() error {
	for {
		var ended <-chan struct{}
		if s.current != nil {
			ended = s.current.process.Done
		}
		select {
		case <-ended:
			if err := s.reportEnd(); err != nil {
				return err
			}
		case m, open := <-s.requests:
			if !open {
				return nil
			}
			if err := s.handle(m); err != nil {
				return err
			}
		}
	}
}

func (s *server) handle(m received) error {
	defer closeAll(m.files)
	switch {
	case m.Order != nil:
		return s.prepare(*m.Order)
	case m.Step != nil:
		return s.start(*m.Step, m.files)
	case m.Signal != "":
		if s.current != nil {
			if m.Signal == kill {
				s.reaper.Kill(s.current.process)
			} else {
				s.reaper.Terminate(s.current.process)
			}
		}
		return nil
	case m.End > 0:
		s.reaper.Sweep(m.End)
		return s.conn.send(response{Ended: true})
	}
	return nil
}

// prepare prepares the environment of the steps.
func (s *server) prepare(order run.ShimSpec) error {
	base := maps.Clone(s.options.Environment)
	if base == nil {
		base = make(map[string]string)
	}
	if order.User != "" || order.Definition.User != "" {
		delete(base, "HOME")
	}
	maps.Copy(base, order.BaseEnvironment)
	order.BaseEnvironment = base
	if order.WorkingDir == "" {
		order.WorkingDir = s.options.WorkingDir
	}
	dir := filepath.Join(s.options.Dir, s.options.Name)
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		s.env, err = stepenv.New(dir, order)
	}
	if err != nil {
		return s.conn.send(response{Fault: err.Error()})
	}
	s.oomSeen = process.OOMKills()
	return s.conn.send(response{Ready: true})
}

// start starts a step. If it cannot be started, the result says so.
func (s *server) start(step Step, files []*os.File) error {
	if s.env == nil || s.current != nil || len(files) != maxDescriptors {
		return errors.New("the shim of the task broke the protocol")
	}
	c, outputs, err := s.env.Prepare(step.Step, step.Number, step.Attempt)
	if err != nil {
		return s.conn.send(response{Result: &Result{NotStarted: err.Error()}})
	}
	if c.Stdin == nil {
		if c.Stdin, err = os.Open(os.DevNull); err != nil {
			return s.conn.send(response{Result: &Result{NotStarted: err.Error()}})
		}
	}
	defer func() { _ = c.Stdin.Close() }()
	c.Stdout, c.Stderr = files[0], files[1]
	oomKills := process.OOMKills()
	p, err := s.reaper.Start(c)
	if err != nil {
		return s.conn.send(response{Result: &Result{NotStarted: process.Plain(err).Error(), NoProgram: true}})
	}
	s.current = &running{step: step, process: p, outputs: outputs, oomKills: oomKills}
	return s.conn.send(response{Started: true})
}

// reportEnd reports the end of the running step.
func (s *server) reportEnd() error {
	r := s.current
	s.current = nil
	result := Result{Exit: r.process.Exit()}
	s.oomSeen = result.CountOOM(s.oomSeen, r.oomKills)
	var err error
	if result.Outputs, err = stepenv.ReadOutputs(r.outputs, r.step.OutputBudget); err != nil {
		result.OutputError = err.Error()
	}
	return s.conn.send(response{Result: &result})
}
