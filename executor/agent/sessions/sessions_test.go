package sessions_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/sessions"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is an executor API with scripted answers.
type gateway struct {
	offers chan execstream.Offer
	await  error // of AwaitSessions, if it is set
	asked  atomic.Int64

	mu     sync.Mutex
	others int // tries to join that reach a gateway that does not hold the session
	tries  []string
	conns  chan execstream.Conn // the ends of clients
}

func newGateway() *gateway {
	return &gateway{offers: make(chan execstream.Offer), conns: make(chan execstream.Conn, 10)}
}

func (g *gateway) AwaitSessions(ctx context.Context, _, _ string) ([]execstream.Offer, error) {
	if g.await != nil {
		g.asked.Add(1)
		return nil, g.await
	}
	select {
	case o := <-g.offers:
		return []execstream.Offer{o}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *gateway) JoinSession(_ context.Context, executor, id, token string) (execstream.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries = append(g.tries, executor+" "+id+" "+token)
	if len(g.tries) <= g.others {
		return nil, run.Errorf(run.CodeUnavailable, "this gateway does not hold the session")
	}
	client, conn := execstream.Pipe()
	g.conns <- client
	return conn, nil
}

func (g *gateway) joins() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.tries...)
}

// environment is a handle whose sessions are given to the test. All other calls of
// the handle panic: a session must not touch its task.
type environment struct {
	executor.Handle
	shims chan net.Conn // the ends of shims
	err   error
}

func (e *environment) Exec(context.Context) (io.ReadWriteCloser, error) {
	if e.err != nil {
		return nil, e.err
	}
	near, far := net.Pipe()
	e.shims <- far
	return near, nil
}

// started are sessions of an executor that run.
type started struct {
	t        *testing.T
	sessions *sessions.Sessions
	gateway  *gateway
	stop     func()        // ends Run, as the loss of the executor does
	stopped  chan struct{} // closed when Run has returned
}

func start(t *testing.T, g *gateway) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &started{t: t, gateway: g, stop: cancel, stopped: make(chan struct{}), sessions: sessions.New(g, "x", "", slog.New(slog.DiscardHandler))}
	go func() {
		defer close(s.stopped)
		s.sessions.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-s.stopped
	})
	return s
}

func key() run.Key { return run.Key{Run: "01k0000000000000000000000a", Attempt: 1, Dispatch: 1} }

func offer(token string) execstream.Offer {
	k := key()
	return execstream.Offer{ID: "s1", Run: string(k.Run), Task: k.Task, Attempt: k.Attempt, Dispatch: k.Dispatch, Token: token}
}

// serve makes a task available. over ends it; served is closed when Serve returned.
func (s *started) serve(h executor.Handle) (over, served chan struct{}) {
	over, served = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		s.sessions.Serve(s.t.Context(), key(), h, over)
	}()
	return over, served
}

// open opens a session, and returns the ends of its client and its shim. Serve may
// not know the task yet, so the offer is repeated.
func (s *started) open(e *environment) (client execstream.Conn, shim net.Conn) {
	s.t.Helper()
	testenv.Await(s.t, func() (bool, string) {
		s.gateway.offers <- offer("token")
		select {
		case client = <-s.gateway.conns:
			return true, ""
		case <-time.After(time.Second): // before the next offer
			return false, "the executor does not join"
		}
	})
	if e == nil {
		return client, nil
	}
	shim = <-e.shims
	s.t.Cleanup(func() { _ = shim.Close() })
	return client, shim
}

func requireEnded(t *testing.T, shim net.Conn) {
	t.Helper()
	_, err := execstream.Read(shim)
	require.Error(t, err, "the shim notices the end")
}

func TestSessions_join(t *testing.T) {
	t.Parallel()
	g := newGateway()
	g.others = 2 // the gateway of the client is reached at the third try
	s := start(t, g)
	e := &environment{shims: make(chan net.Conn, 10)}
	over, served := s.serve(e)
	client, shim := s.open(e)
	require.Equal(t, []string{"x s1 token", "x s1 token", "x s1 token"}, g.joins(), "a try at another gateway does not use up the token")
	in := execstream.Message{Kind: execstream.Stdin, Data: []byte("in")}
	require.NoError(t, client.Send(t.Context(), in))
	got, err := execstream.Read(shim)
	require.NoError(t, err)
	require.Equal(t, in, got)
	exit, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Code: 7})
	require.NoError(t, err)
	require.NoError(t, execstream.Write(shim, exit))
	got, err = client.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, exit, got)
	requireEnded(t, shim)
	select {
	case <-served:
		t.Fatal("the end of a session is not the end of its task")
	default:
	}
	close(over)
	<-served
}

// TestSessions_end_with checks that the loss of any part ends the session, and that
// only the end of the task ends Serve.
func TestSessions_end_with(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *started, client execstream.Conn, shim net.Conn, over chan struct{}){
		"the_client":   func(_ *started, client execstream.Conn, _ net.Conn, _ chan struct{}) { client.Close() },
		"the_executor": func(s *started, _ execstream.Conn, _ net.Conn, _ chan struct{}) { s.stop() },
		"the_task":     func(_ *started, _ execstream.Conn, _ net.Conn, over chan struct{}) { close(over) },
		"the_shim":     func(_ *started, _ execstream.Conn, shim net.Conn, _ chan struct{}) { _ = shim.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, newGateway())
			e := &environment{shims: make(chan net.Conn, 10)}
			over, served := s.serve(e)
			client, shim := s.open(e)
			// The client reads, or its connection breaks.
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				for {
					if _, err := client.Receive(t.Context()); err != nil {
						return
					}
				}
			}()
			end(s, client, shim, over)
			requireEnded(t, shim)
			<-gone
			if name == "the_executor" {
				<-s.stopped
			}
			if name != "the_task" {
				select {
				case <-served:
					t.Fatal("the task ended")
				default:
				}
				close(over)
			}
			<-served
		})
	}
}

func TestSessions_leave_offers_of_other_tasks(t *testing.T) {
	t.Parallel()
	g := newGateway()
	start(t, g)
	g.offers <- offer("token")
	g.offers <- offer("token")
	require.Empty(t, g.joins(), "another member of the set may have the task")
}

func TestSessions_report_that_the_environment_refuses(t *testing.T) {
	t.Parallel()
	s := start(t, newGateway())
	over, served := s.serve(&environment{err: run.Errorf(run.CodeUnavailable, "the container is paused")})
	client, _ := s.open(nil)
	m, err := client.Receive(t.Context())
	require.NoError(t, err)
	var status execstream.ExitStatus
	require.NoError(t, m.Decode(&status))
	require.Contains(t, status.Error, "the container is paused")
	_, err = client.Receive(t.Context())
	require.ErrorIs(t, err, io.EOF)
	close(over)
	<-served
}

// TestSessions_survive_a_gateway checks that Run continues if the gateway fails, or
// has no sessions, and ends with its context.
func TestSessions_survive_a_gateway(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("connection refused"), run.Errorf(run.CodeNotSupported, "no sessions")} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway()
			g.await = err
			s := start(t, g)
			<-time.After(time.Hour)
			require.Greater(t, g.asked.Load(), int64(10), "it asks again and again")
			s.stop()
			<-s.stopped
		})
	}
}
