package execstream

import (
	"context"
	"io"
	"sync"
	"time"
)

// Conn is a connection that carries messages in both directions. Send and Receive may be
// called at the same time, Close at any time and repeatedly. Receive returns an error
// once the connection is closed.
type Conn interface {
	Send(ctx context.Context, m Message) error
	Receive(ctx context.Context) (Message, error)
	Close()
}

// Offer asks an executor to join a session in one of its tasks.
type Offer struct {
	ID       string
	Run      string
	Task     int
	Attempt  int
	Dispatch int
	// Token allows one call to join the session.
	Token string
}

// Pipe returns two connected connections within a process.
func Pipe() (a, b Conn) {
	there, back := make(chan Message), make(chan Message)
	closed, once := make(chan struct{}), new(sync.Once)
	return &pipe{there, back, closed, once}, &pipe{back, there, closed, once}
}

type pipe struct {
	out    chan<- Message
	in     <-chan Message
	closed chan struct{}
	once   *sync.Once
}

// Send implements Conn.
func (p *pipe) Send(ctx context.Context, m Message) error {
	select {
	case p.out <- m:
		return nil
	case <-p.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Receive implements Conn.
func (p *pipe) Receive(ctx context.Context) (Message, error) {
	select {
	case m := <-p.in:
		return m, nil
	case <-p.closed:
		return Message{}, io.EOF
	case <-ctx.Done():
		return Message{}, context.Cause(ctx)
	}
}

// Close implements Conn.
func (p *pipe) Close() { p.once.Do(func() { close(p.closed) }) }

// NewStream returns a Conn over a byte stream. A message is read only while Receive
// waits; the end of a context does not end a call: Close does.
func NewStream(s io.ReadWriteCloser) Conn { return &stream{s: s} }

type stream struct {
	s       io.ReadWriteCloser
	sending sync.Mutex
}

// Send implements Conn.
func (s *stream) Send(_ context.Context, m Message) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return Write(s.s, m)
}

// Receive implements Conn.
func (s *stream) Receive(context.Context) (Message, error) { return Read(s.s) }

// Close implements Conn.
func (s *stream) Close() { _ = s.s.Close() }

// Callbacks are called by Copy. Those that are nil are not called.
type Callbacks struct {
	// Seen is called for each message.
	Seen func()
	// Ended is called once, with what Copy returns, when the command's connection is
	// closed. Copy may return much later: it waits for the client to close its own.
	Ended func(*ExitStatus, error)
}

// Copy copies messages in both directions between a client's end and the end of a
// command, one at a time, until one of them ends or ctx does; then it closes both.
// It returns the status of Exit if that was sent to the client, and otherwise an
// error that says which end is gone.
func Copy(ctx context.Context, client, command Conn, on Callbacks) (*ExitStatus, error) {
	seen := func() {
		if on.Seen != nil {
			on.Seen()
		}
	}
	// A client is read until it was told the end: some connections break if the
	// context of a call ends.
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReading()
	// For the same reason, the message that is on its way to it is completed.
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, command.Close)()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(tellTimeout, stopSending) })()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for ended := false; ; {
			m, err := client.Receive(reading)
			if err != nil {
				cancel(ErrClientGone)
				return
			}
			if !ended {
				seen()
				ended = command.Send(ctx, m) != nil // the other direction reports it, after the last message
			}
		}
	}()
	status, err := copyBack(ctx, sending, client, command, seen)
	command.Close()
	if status == nil {
		cancel(err)
		err = context.Cause(ctx) // the first
	}
	if on.Ended != nil {
		on.Ended(status, err)
	}
	if status != nil {
		awaitClose(sending, gone)
		cancel(nil)
	} else {
		tell(client, err) //nolint:contextcheck // ctx has ended
	}
	finish(client)
	<-gone
	return status, err
}

// awaitClose waits until a client that was told the end closes the connection: it has
// read all messages then. If the connection were closed before, what the client
// sends could make its system discard what it has not read.
func awaitClose(ctx context.Context, gone <-chan struct{}) {
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// copyBack copies the messages of a command, up to Exit.
func copyBack(ctx, sending context.Context, client, command Conn, seen func()) (*ExitStatus, error) {
	for {
		m, err := command.Receive(ctx)
		if err != nil {
			return nil, ErrCommandGone
		}
		seen()
		if err := client.Send(sending, m); err != nil {
			return nil, ErrClientGone
		}
		if m.Kind == Exit {
			var status ExitStatus
			if err := m.Decode(&status); err != nil {
				return nil, err
			}
			return &status, nil
		}
	}
}

// tell sends the reason of an end to a client that may still be there.
func tell(client Conn, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	if m, err := Encode(Exit, ExitStatus{Error: cause.Error()}); err == nil {
		_ = client.Send(ctx, m)
	}
}

// finish closes a connection in order, if it supports that.
func finish(c Conn) {
	if f, ok := c.(interface{ Finish() }); ok {
		f.Finish()
	}
	c.Close()
}
