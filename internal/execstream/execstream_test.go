package execstream_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead_returns_what_was_written(t *testing.T) {
	t.Parallel()
	sent := []execstream.Message{
		{Kind: execstream.StdinEnd, Data: []byte{}},
		{Kind: execstream.Stdout, Data: []byte("text\x00\xff\n")},
		{Kind: execstream.Stdin, Data: bytes.Repeat([]byte{'x'}, execstream.MaxData)},
		{Kind: 'z', Data: []byte("of a later version")},
	}
	var stream bytes.Buffer
	for _, m := range sent {
		require.NoError(t, execstream.Write(&stream, m))
	}
	for _, want := range sent {
		got, err := execstream.Read(&stream)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := execstream.Read(&stream)
	require.ErrorIs(t, err, io.EOF)
}

func TestRead_refuses(t *testing.T) {
	t.Parallel()
	long := binary.BigEndian.AppendUint32([]byte{byte(execstream.Stdin)}, execstream.MaxData+1)
	_, err := execstream.Read(io.MultiReader(bytes.NewReader(long), strings.NewReader(strings.Repeat("x", execstream.MaxData+1))))
	require.ErrorIs(t, err, execstream.ErrTooLong)
	for _, cut := range []string{"i", "i\x00\x00\x00", "i\x00\x00\x00\x05abc"} {
		_, err := execstream.Read(strings.NewReader(cut))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, cut)
		require.NotErrorIs(t, err, io.EOF, cut)
	}
	var stream bytes.Buffer
	require.ErrorIs(t, execstream.Write(&stream, execstream.Message{Data: make([]byte, execstream.MaxData+1)}), execstream.ErrTooLong)
	require.Zero(t, stream.Len(), "nothing of a message that is too long is written")
	_, err = execstream.Encode(execstream.Start, execstream.StartRequest{Command: []string{strings.Repeat("x", execstream.MaxData)}})
	require.ErrorIs(t, err, execstream.ErrTooLong)
	var request execstream.StartRequest
	require.Error(t, execstream.Message{Kind: execstream.Start, Data: []byte("{")}.Decode(&request))
}

// FuzzRead checks that what Read accepts is what Write writes.
func FuzzRead(f *testing.F) {
	f.Add([]byte("i\x00\x00\x00\x03abc"))
	f.Add([]byte("x\xff\xff\xff\xff"))
	f.Add([]byte("o\x00\x00\x00\x00e\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, out := bytes.NewReader(data), bytes.Buffer{}
		for {
			m, err := execstream.Read(in)
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(m.Data), execstream.MaxData)
			require.NoError(t, execstream.Write(&out, m))
		}
		require.True(t, bytes.HasPrefix(data, out.Bytes()))
	})
}

// ends are a client and a command, with a Copy between them.
type ends struct {
	t               *testing.T
	client, command execstream.Conn
	seen            atomic.Int64
	done            chan struct{}
	status          *execstream.ExitStatus
	err             error
}

func startCopy(ctx context.Context, t *testing.T) *ends {
	t.Helper()
	client, near := execstream.Pipe()
	far, command := execstream.Pipe()
	e := &ends{t: t, client: client, command: command, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.status, e.err = execstream.Copy(ctx, near, far, execstream.Callbacks{Seen: func() { e.seen.Add(1) }})
	}()
	t.Cleanup(func() {
		client.Close()
		command.Close()
		<-e.done
	})
	return e
}

func (e *ends) pass(from, to execstream.Conn, m execstream.Message) {
	e.t.Helper()
	require.NoError(e.t, from.Send(e.t.Context(), m))
	got, err := to.Receive(e.t.Context())
	require.NoError(e.t, err)
	require.Equal(e.t, m, got)
}

// awaitEnd waits until Copy has returned, and returns the last message to the
// client.
func (e *ends) awaitEnd() (last execstream.Message) {
	e.t.Helper()
	for {
		m, err := e.client.Receive(e.t.Context())
		if err != nil {
			break
		}
		last = m
		if m.Kind == execstream.Exit {
			e.client.Close()
		}
	}
	testenv.Receive(e.t, e.done)
	return last
}

func TestCopy_ends_with_the_command(t *testing.T) {
	t.Parallel()
	e := startCopy(t.Context(), t)
	e.pass(e.client, e.command, execstream.Message{Kind: execstream.Stdin, Data: []byte("in")})
	e.pass(e.command, e.client, execstream.Message{Kind: execstream.Ack, Data: []byte{}})
	e.pass(e.command, e.client, execstream.Message{Kind: execstream.Stdout, Data: []byte("out")})
	exit, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Code: 3})
	require.NoError(t, err)
	require.NoError(t, e.command.Send(t.Context(), exit))
	require.Equal(t, exit, e.awaitEnd())
	require.NoError(t, e.err)
	require.Equal(t, &execstream.ExitStatus{Code: 3}, e.status)
	require.Equal(t, int64(4), e.seen.Load())
	require.Error(t, e.command.Send(t.Context(), exit), "the command's connection is closed")
}

// TestCopy_an_end_is_gone checks that both connections are closed when one ends, and
// that the error says which.
func TestCopy_an_end_is_gone(t *testing.T) {
	t.Parallel()
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		e := startCopy(t.Context(), t)
		e.client.Close()
		_, err := e.command.Receive(t.Context())
		require.ErrorIs(t, err, io.EOF, "the command notices it")
		<-e.done
		require.ErrorIs(t, e.err, execstream.ErrClientGone)
		require.Nil(t, e.status)
	})
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		e := startCopy(t.Context(), t)
		e.command.Close()
		var status execstream.ExitStatus
		require.NoError(t, e.awaitEnd().Decode(&status))
		require.Equal(t, execstream.ErrCommandGone.Error(), status.Error, "the client learns why")
		require.ErrorIs(t, e.err, execstream.ErrCommandGone)
	})
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		e := startCopy(t.Context(), t)
		go e.client.Close()
		e.command.Close()
		<-e.done
		require.True(t, errors.Is(e.err, execstream.ErrClientGone) || errors.Is(e.err, execstream.ErrCommandGone), e.err)
	})
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		e := startCopy(ctx, t)
		cause := errors.New("the session lasted as long as it may")
		cancel(cause)
		var status execstream.ExitStatus
		require.NoError(t, e.awaitEnd().Decode(&status))
		require.Equal(t, cause.Error(), status.Error)
		require.ErrorIs(t, e.err, cause)
	})
}

// TestCopy_slow_reader checks that Copy takes no further message of a command while
// the client does not read: the way has no buffer that grows. The other direction
// continues.
func TestCopy_slow_reader(t *testing.T) {
	t.Parallel()
	e := startCopy(t.Context(), t)
	var sent atomic.Int64
	go func() {
		for e.command.Send(t.Context(), execstream.Message{Kind: execstream.Stdout, Data: []byte("x")}) == nil {
			sent.Add(1)
		}
	}()
	testenv.Await(t, func() (bool, string) { return e.seen.Load() == 1, "no message" })
	for range 100 {
		require.NoError(t, e.client.Send(t.Context(), execstream.Message{Kind: execstream.Stdin}))
		_, err := e.command.Receive(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), sent.Load(), "one message is on its way")
	// A client that goes while its messages wait ends the session too.
	e.client.Close()
	testenv.Receive(t, e.done)
	require.ErrorIs(t, e.err, execstream.ErrClientGone)
}

// TestStream_closed_while_it_is_read checks that Close ends the calls of a stream.
func TestStream_closed_while_it_is_read(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	s := execstream.NewStream(near)
	errs := make(chan error, 2)
	go func() {
		_, err := s.Receive(t.Context())
		errs <- err
	}()
	go func() { errs <- s.Send(t.Context(), execstream.Message{Kind: execstream.Stdin, Data: []byte("x")}) }()
	s.Close()
	s.Close()
	for range 2 {
		require.Error(t, <-errs)
	}
}
