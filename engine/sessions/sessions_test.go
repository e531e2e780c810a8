package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/engine/sessions"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a run whose task build runs on the executor x.
type env struct {
	t     *testing.T
	path  string
	store records.Store
	run   run.ID
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{t: t, path: filepath.Join(t.TempDir(), "records.db")}
	e.store = e.open()
	e.run, _ = fixture.Running(t, e.store, fixture.OneTask("/a/b"))
	return e
}

func (e *env) open() records.Store {
	e.t.Helper()
	s, err := sqlite.Open(e.t.Context(), e.path, sqlite.Options{})
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, s.Close()) })
	return s
}

// gateway starts the sessions of a gateway of its own.
func (e *env) gateway(opts sessions.Options) *sessions.Sessions {
	e.t.Helper()
	s := sessions.New(e.open(), slog.New(slog.DiscardHandler), opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.RunSessions(ctx) }()
	e.t.Cleanup(func() {
		cancel()
		require.NoError(e.t, <-done)
	})
	return s
}

// client opens a session at a gateway, and returns the client's end. Its Stop is the
// end of the gateway.
func (e *env) client(s *sessions.Sessions, task string, first execstream.Message) (client execstream.Conn, stop context.CancelFunc) {
	e.t.Helper()
	client, near := execstream.Pipe()
	ctx, stop := context.WithCancel(e.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeSession(ctx, e.run, task, "alice", near)
	}()
	e.t.Cleanup(func() {
		client.Close()
		stop()
		<-done
	})
	require.NoError(e.t, client.Send(e.t.Context(), first))
	return client, stop
}

func (e *env) startMessage() execstream.Message {
	e.t.Helper()
	m, err := execstream.Encode(execstream.Start, execstream.StartRequest{Command: []string{"sh", "-c", "id"}})
	require.NoError(e.t, err)
	return m
}

// offer waits for an offer to the executor x.
func (e *env) offer(s *sessions.Sessions) execstream.Offer {
	e.t.Helper()
	offers, err := s.AwaitSessions(testenv.Context(e.t), "x", "")
	require.NoError(e.t, err)
	require.Len(e.t, offers, 1)
	return offers[0]
}

// exit returns the end of a session as its client learns it.
func (e *env) exit(client execstream.Conn) (status execstream.ExitStatus) {
	e.t.Helper()
	m, err := client.Receive(e.t.Context())
	require.NoError(e.t, err)
	require.Equal(e.t, execstream.Exit, m.Kind)
	require.NoError(e.t, m.Decode(&status))
	if status.Error == "" { // the client closes the connection once it has read all
		client.Close()
		return status
	}
	_, err = client.Receive(e.t.Context())
	require.ErrorIs(e.t, err, io.EOF)
	return status
}

// awaitEnd waits for the event of the end of a session, and checks that its task
// runs.
func (e *env) awaitEnd(how string) {
	e.t.Helper()
	testenv.Await(e.t, func() (bool, string) {
		var reasons []string
		for _, event := range fixture.ReadAll(e.t, e.store, run.EventQuery{}) {
			if event.Type == run.EventExec {
				reasons = append(reasons, event.Reason)
			}
		}
		return len(reasons) == 2 && strings.HasSuffix(reasons[1], "of alice ended: "+how), fmt.Sprintf("%q, want %q", reasons, how)
	})
	require.Equal(e.t, run.StatusRunning, fixture.Get(e.t, e.store, e.run).Tasks[0].Status)
}

// TestSessions_two_gateways has the executor wait at another gateway than the
// client's, and try that one first.
func TestSessions_two_gateways(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	near, other := e.gateway(sessions.Options{}), e.gateway(sessions.Options{})
	client, _ := e.client(near, "build", e.startMessage())
	o := e.offer(other)
	require.Equal(t, string(e.run), o.Run)
	_, err := other.JoinSession(t.Context(), "x", o.ID, o.Token)
	fixture.RequireCode(t, run.CodeUnavailable, err)
	command, err := near.JoinSession(t.Context(), "x", o.ID, o.Token)
	require.NoError(t, err, "the try at the other gateway did not use up the token")
	m, err := command.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, e.startMessage(), m)
	out := execstream.Message{Kind: execstream.Stdout, Data: []byte("uid=0")}
	require.NoError(t, command.Send(t.Context(), out))
	got, err := client.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, out, got)
	exit, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Code: 3})
	require.NoError(t, err)
	require.NoError(t, command.Send(t.Context(), exit))
	require.Equal(t, execstream.ExitStatus{Code: 3}, e.exit(client))
	e.awaitEnd("exit code 3")
}

func TestSessions_tokens(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := e.gateway(sessions.Options{})
	e.client(s, "build", e.startMessage())
	o := e.offer(s)
	for _, tt := range []struct{ executor, token string }{{"x", "wrong"}, {"y", o.Token}} {
		_, err := s.JoinSession(t.Context(), tt.executor, o.ID, tt.token)
		fixture.RequireCode(t, run.CodeConflict, err)
	}
	_, err := s.JoinSession(t.Context(), "x", "unknown", o.Token)
	fixture.RequireCode(t, run.CodeUnavailable, err)
	command, err := s.JoinSession(t.Context(), "x", o.ID, o.Token)
	require.NoError(t, err)
	defer command.Close()
	_, err = s.JoinSession(t.Context(), "x", o.ID, o.Token)
	require.Error(t, err, "a token is for one call")
}

// TestSessions_end_with checks that the loss of any end ends the session and not
// the task.
func TestSessions_end_with(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end func(client, command execstream.Conn, stop context.CancelFunc)
		how string
	}{
		"the_client":   {end: func(client, _ execstream.Conn, _ context.CancelFunc) { client.Close() }, how: execstream.ErrClientGone.Error()},
		"the_executor": {end: func(_, command execstream.Conn, _ context.CancelFunc) { command.Close() }, how: execstream.ErrCommandGone.Error()},
		"the_gateway":  {end: func(_, _ execstream.Conn, stop context.CancelFunc) { stop() }, how: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			s := e.gateway(sessions.Options{})
			client, stop := e.client(s, "build", e.startMessage())
			o := e.offer(s)
			command, err := s.JoinSession(t.Context(), "x", o.ID, o.Token)
			require.NoError(t, err)
			_, err = command.Receive(t.Context())
			require.NoError(t, err)
			tt.end(client, command, stop)
			if name != "the_client" {
				require.Equal(t, tt.how, e.exit(client).Error)
			}
			_, err = command.Receive(t.Context())
			require.Error(t, err, "the executor notices the end")
			e.awaitEnd(tt.how)
		})
	}
}

// TestSessions_last covers the two bounds of a session, in virtual time.
func TestSessions_last(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		every time.Duration // between two messages of the client
		after time.Duration
		how   string
	}{
		"idle": {every: 24 * time.Hour, after: 30 * time.Minute, how: "nothing was sent for too long"},
		"busy": {every: 20 * time.Minute, after: 12 * time.Hour, how: "the session lasted as long as it may"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				s := e.gateway(sessions.Options{})
				client, _ := e.client(s, "build", e.startMessage())
				o := e.offer(s)
				command, err := s.JoinSession(t.Context(), "x", o.ID, o.Token)
				require.NoError(t, err)
				began := time.Now()
				go func() {
					for client.Send(t.Context(), execstream.Message{Kind: execstream.Stdin, Data: []byte("x")}) == nil {
						select {
						case <-time.After(tt.every):
						case <-t.Context().Done():
						}
					}
				}()
				for err == nil {
					_, err = command.Receive(t.Context())
				}
				require.Equal(t, tt.how, e.exit(client).Error)
				require.Equal(t, tt.after, time.Since(began).Round(time.Minute))
				e.awaitEnd(tt.how)
			})
		})
	}
}

// TestSessions_client_without_an_end checks that a client that was told the end, and does
// not close its connection, does not keep the next session waiting.
func TestSessions_client_without_an_end(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		s := e.gateway(sessions.Options{PerExecutor: 1})
		client, _ := e.client(s, "build", e.startMessage())
		o := e.offer(s)
		command, err := s.JoinSession(t.Context(), "x", o.ID, o.Token)
		require.NoError(t, err)
		_, err = command.Receive(t.Context())
		require.NoError(t, err)
		exit, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Code: 3})
		require.NoError(t, err)
		require.NoError(t, command.Send(t.Context(), exit))
		told := time.Now()
		got, err := client.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, exit, got)
		e.awaitEnd("exit code 3")
		require.Less(t, time.Since(told), time.Second)
		e.client(s, "build", e.startMessage())
		e.offer(s)
	})
}

func TestSessions_no_executor_joins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		s := e.gateway(sessions.Options{})
		client, _ := e.client(s, "build", e.startMessage())
		got := e.exit(client)
		require.Equal(t, string(run.CodeUnavailable), got.Problem)
		require.Contains(t, got.Error, "did not answer within 20s")
		e.awaitEnd("no executor joined it")
	})
}

func TestSessions_refuse(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := e.gateway(sessions.Options{})
	for name, tt := range map[string]struct {
		task  string
		first execstream.Message
		code  run.Code
	}{
		"an_unknown_task": {"none", e.startMessage(), run.CodeNotFound},
		"no_command":      {"build", execstream.Message{Kind: execstream.Start, Data: []byte(`{"command": []}`)}, run.CodeInvalid},
		"no_start":        {"build", execstream.Message{Kind: execstream.Stdin, Data: []byte("x")}, run.CodeInvalid},
		"garbage":         {"build", execstream.Message{Kind: execstream.Start, Data: []byte("{")}, run.CodeInvalid},
	} {
		client, _ := e.client(s, tt.task, tt.first)
		require.Equal(t, string(tt.code), e.exit(client).Problem, name)
	}
	require.Equal(t, run.StatusRunning, fixture.Get(t, e.store, e.run).Tasks[0].Status)
}

// TestSessions_offer_to_their_executor checks that another executor gets no offer.
func TestSessions_offer_to_their_executor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := e.gateway(sessions.Options{})
	e.client(s, "build", e.startMessage())
	ctx, cancel := context.WithCancelCause(t.Context())
	none := make(chan error, 1)
	enough := errors.New("it has waited enough")
	go func() {
		offers, err := s.AwaitSessions(ctx, "y", "")
		if len(offers) > 0 {
			err = fmt.Errorf("offers %v", offers)
		}
		none <- err
	}()
	e.offer(s)
	cancel(enough)
	require.ErrorIs(t, <-none, enough)
}

// TestSessions_lost_caller: a caller who may not continue before an executor has joined
// learns why, and so does the gateway.
func TestSessions_lost_caller(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := e.gateway(sessions.Options{Join: time.Hour})
	for name, begins := range map[string]bool{"before_the_command": false, "before_the_executor": true} {
		t.Run(name, func(t *testing.T) {
			client, near := execstream.Pipe()
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func() { done <- s.ServeSession(ctx, e.run, "build", "alice", near) }()
			if begins {
				require.NoError(t, client.Send(t.Context(), e.startMessage()))
				e.offer(s)
			}
			cancel(run.Errorf(run.CodeTokenRevoked, "token alice was revoked"))
			require.Equal(t, execstream.ExitStatus{Error: "token alice was revoked", Problem: string(run.CodeTokenRevoked)}, e.exit(client))
			require.Equal(t, run.CodeTokenRevoked, run.CodeOf(testenv.Receive(t, done)))
		})
	}
}
