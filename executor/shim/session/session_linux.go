package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/execstream"
)

// Supported reports whether sessions work on this system.
const Supported = true

const (
	// stepTimeout is how long a session waits for a step: between two steps there is
	// no process to take the environment from.
	stepTimeout = 3 * time.Second
	stepPoll    = 20 * time.Millisecond
	// startTimeout is how long the first message may take.
	startTimeout = 30 * time.Second
	// grace is the time between SIGHUP or SIGTERM and SIGKILL at the end of a session.
	grace = time.Second
	// drainQuiet is how long the output of a command that has ended must be silent if
	// background processes hold it open; drainLimit bounds the sum of these waits.
	drainQuiet = 100 * time.Millisecond
	drainLimit = time.Second
	// drainBytes is more than a pipe or a terminal holds: all that a command has written
	// before its end.
	drainBytes = 1 << 20
)

var (
	errDetached = errors.New("the connection to the session ended")
	errWindow   = errors.New("the client sent more than it may")
)

// Serve runs one session: its messages come from in and go to out. It returns when the
// command has ended and none of its processes is left.
func Serve(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	s := &server{
		dir: dir, out: out, ended: make(chan struct{}), reaper: process.NewReaper(),
		stdin: make(chan execstream.Message, execstream.Window+1), started: make(chan execstream.StartRequest, 1),
	}
	// The goroutine blocks in the read of stdin, and ends with the process.
	go s.receive(in)
	status := s.run(ctx)
	s.reaper.Sweep(grace)
	m, err := execstream.Encode(execstream.Exit, status)
	if err == nil {
		err = s.send(m)
	}
	if err == nil {
		// The other end closes the connection once it has read all. Container runtimes may
		// discard what is left in the pipes of a process that has ended.
		<-s.ended
	}
	return err
}

type server struct {
	dir     string
	reaper  *process.Reaper
	stdin   chan execstream.Message // Stdin and StdinEnd
	started chan execstream.StartRequest

	sending sync.Mutex
	out     io.Writer

	ended   chan struct{} // closed when no message comes any more
	mu      sync.Mutex
	cause   error    // why
	console *os.File // the terminal, if the session has one
}

func (s *server) send(m execstream.Message) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return execstream.Write(s.out, m)
}

// receive handles the messages of the client until the end of the connection. It never
// waits for the command.
func (s *server) receive(in io.Reader) {
	err := s.receiveAll(in)
	if errors.Is(err, io.EOF) {
		err = errDetached
	}
	s.mu.Lock()
	s.cause = err
	s.mu.Unlock()
	close(s.ended)
}

func (s *server) receiveAll(in io.Reader) error {
	for begun := false; ; {
		m, err := execstream.Read(in)
		if err != nil {
			return err
		}
		switch m.Kind {
		case execstream.Start:
			var request execstream.StartRequest
			if err := m.Decode(&request); err != nil || begun || len(request.Command) == 0 {
				return errors.Join(errors.New("the session does not begin with a command"), err)
			}
			begun = true
			s.started <- request
		case execstream.Stdin, execstream.StdinEnd:
			select {
			case s.stdin <- m:
			default:
				return errWindow
			}
		case execstream.Resize:
			var size execstream.Size
			if err := m.Decode(&size); err != nil {
				return err
			}
			s.resize(size)
		case execstream.Ack, execstream.Stdout, execstream.Stderr, execstream.Exit: // not from a client
		}
	}
}

func (s *server) resize(size execstream.Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.console != nil && size.Rows > 0 && size.Cols > 0 {
		_ = process.ResizeTerminal(s.console, size.Rows, size.Cols)
	}
}

// run starts the command and waits for its end, or for the end of the connection.
func (s *server) run(ctx context.Context) execstream.ExitStatus {
	var request execstream.StartRequest
	select {
	case request = <-s.started:
	case <-s.ended:
		return execstream.ExitStatus{Error: s.why()}
	case <-time.After(startTimeout):
		return execstream.ExitStatus{Error: "the session did not begin in time"}
	}
	step, err := s.findStep(ctx)
	if err != nil {
		return execstream.ExitStatus{Error: err.Error()}
	}
	if request.Release {
		if err := step.Release(); err != nil {
			return execstream.ExitStatus{Error: err.Error()}
		}
		return execstream.ExitStatus{}
	}
	command := process.Command{
		Path: "/proc/self/exe", Dir: "/", User: step.User, Session: true, Terminal: request.TTY, Env: []string{"GOMAXPROCS=1"},
		Args: append([]string{"drover-shim", "exec-command", strconv.Itoa(step.PID), request.Term}, request.Command...),
	}
	streams, err := s.open(&command, request)
	if err != nil {
		return execstream.ExitStatus{Error: err.Error()}
	}
	p, err := s.reaper.Start(command)
	streams.started()
	if err != nil {
		streams.close()
		return execstream.ExitStatus{Error: fmt.Sprintf("start the command: %s", err)}
	}
	go s.feed(streams.in, request.TTY)
	sent := s.copyAll(streams)
	select {
	case <-p.Done:
	case <-s.ended:
		s.kill(p, request.TTY)
		<-p.Done
		return execstream.ExitStatus{Error: s.why()}
	}
	streams.commandEnded()
	select {
	case <-sent:
	case <-s.ended:
	}
	s.mu.Lock()
	s.console = nil
	s.mu.Unlock()
	streams.close()
	return execstream.ExitStatus{Code: p.Exit().Code}
}

// why returns the reason why no more messages come.
func (s *server) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause.Error()
}

func (s *server) findStep(ctx context.Context) (process.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	ticker := time.NewTicker(stepPoll)
	defer ticker.Stop()
	for {
		step, err := process.FindStep(s.dir)
		if err == nil || !errors.Is(err, process.ErrNoStep) {
			return step, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return step, err
		}
	}
}

// kill ends a command whose connection has ended.
func (s *server) kill(p *process.Process, tty bool) {
	if tty {
		s.reaper.Hangup(p)
	} else {
		s.reaper.Terminate(p)
	}
	select {
	case <-p.Done:
	case <-time.After(grace):
		s.reaper.Kill(p)
	}
}

// streams are the open ends of the streams of a command.
type streams struct {
	in      *os.File
	outputs map[execstream.Kind]*os.File
	theirs  []*os.File // the ends of the command
}

// started closes the ends of the command in this process.
func (s *streams) started() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
}

// commandEnded makes the copies of the outputs end, also if background processes hold
// them open.
func (s *streams) commandEnded() {
	for _, f := range s.outputs {
		_ = f.SetReadDeadline(time.Now())
	}
}

func (s *streams) close() {
	_ = s.in.Close()
	for _, f := range s.outputs {
		_ = f.Close()
	}
}

// open creates a terminal, or three pipes.
func (s *server) open(c *process.Command, request execstream.StartRequest) (*streams, error) {
	if request.TTY {
		master, console, err := process.OpenTerminal()
		if err != nil {
			return nil, fmt.Errorf("create a terminal: %w", err)
		}
		// The user of the step may open its terminal again by its name.
		_ = c.User.Own(console)
		c.Stdin, c.Stdout, c.Stderr = console, console, console
		s.mu.Lock()
		s.console = master
		s.mu.Unlock()
		s.resize(request.Size)
		return &streams{in: master, outputs: map[execstream.Kind]*os.File{execstream.Stdout: master}, theirs: []*os.File{console}}, nil
	}
	var files []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("create a pipe: %w", err)
		}
		files = append(files, r, w)
	}
	c.Stdin, c.Stdout, c.Stderr = files[0], files[3], files[5]
	return &streams{
		in:      files[1],
		outputs: map[execstream.Kind]*os.File{execstream.Stdout: files[2], execstream.Stderr: files[4]},
		theirs:  []*os.File{files[0], files[3], files[5]},
	}, nil
}

// feed writes the stdin of the command, and acknowledges each message. It ends with the
// process.
func (s *server) feed(stdin *os.File, tty bool) {
	const endOfTransmission = 4 // Ctrl-D
	broken := false
	for m := range s.stdin {
		switch {
		case m.Kind == execstream.StdinEnd && tty:
			_, _ = stdin.Write([]byte{endOfTransmission})
		case m.Kind == execstream.StdinEnd:
			_ = stdin.Close()
			broken = true
		default:
			if !broken {
				_, err := stdin.Write(m.Data)
				broken = err != nil // the command reads no more: the rest is discarded, as a shell does
			}
			if s.send(execstream.Message{Kind: execstream.Ack}) != nil {
				return
			}
		}
	}
}

// copyAll starts to send the output of a command. The channel is closed when all of it
// was sent.
func (s *server) copyAll(from *streams) <-chan struct{} {
	var all sync.WaitGroup
	for kind, f := range from.outputs {
		all.Go(func() { s.copyOutput(kind, f) })
	}
	sent := make(chan struct{})
	go func() {
		all.Wait()
		close(sent)
	}()
	return sent
}

// copyOutput sends the output of a command until all processes have closed it, or the
// command has ended and the rest of its output was sent. A client that reads slowly
// delays the end, as the idle timeout of the gateway permits.
func (s *server) copyOutput(kind execstream.Kind, f *os.File) {
	buffer := make([]byte, execstream.MaxData)
	for {
		n, err := f.Read(buffer)
		if n > 0 && s.send(execstream.Message{Kind: kind, Data: buffer[:n]}) != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // the command has ended
		}
		if err != nil { // EOF; EIO of a terminal that no process has open
			return
		}
	}
	s.drain(kind, f, buffer)
}

// drain sends the rest of the output of a command that has ended. Background processes
// may hold it open, and may never be silent.
func (s *server) drain(kind execstream.Kind, f *os.File, buffer []byte) {
	for wait, total := drainLimit, 0; total < drainBytes && f.SetReadDeadline(time.Time{}) == nil; {
		n, err := process.ReadNow(f, buffer)
		if errors.Is(err, process.ErrEmptyPipe) && wait > 0 {
			before := time.Now()
			_ = f.SetReadDeadline(before.Add(min(wait, drainQuiet)))
			n, err = f.Read(buffer)
			wait -= time.Since(before)
		}
		if n > 0 && s.send(execstream.Message{Kind: kind, Data: buffer[:n]}) != nil || err != nil {
			return
		}
		total += n
	}
}
