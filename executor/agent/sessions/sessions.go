// Package sessions joins the sessions that clients open in the tasks of an executor.
// An executor only makes connections: it waits at the gateway for offers, and
// connects again for each session.
package sessions

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// API is the part of the executor API for sessions. A gateway of an earlier version
// answers not_found, or not_supported.
type API interface {
	// AwaitSessions waits for offers, for a time that the gateway bounds.
	AwaitSessions(ctx context.Context, executor, set string) ([]execstream.Offer, error)
	// JoinSession uses an offer. Errors: unavailable, if another gateway may hold the
	// session: the offer stays valid.
	JoinSession(ctx context.Context, executor, id, token string) (execstream.Conn, error)
}

const (
	// unsupportedPause is the pause after the answer of a gateway without sessions,
	// which may be replaced by a newer one.
	unsupportedPause = 5 * time.Minute
	retryFirst       = 100 * time.Millisecond
	retryLimit       = 5 * time.Second
	// joinTimeout bounds the tries to join a session. The offer is not valid for
	// longer.
	joinTimeout = 10 * time.Second
	// joinPause is the pause between two tries: each may reach another gateway.
	joinPause = 50 * time.Millisecond
)

var errTaskEnded = errors.New("the task ended")

// Sessions are the sessions of an executor. It is safe for concurrent use.
type Sessions struct {
	api           API
	executor, set string
	log           *slog.Logger

	mu    sync.Mutex
	tasks map[run.Key]*task
}

// task is a task in whose environment sessions can be.
type task struct {
	handle executor.ExecHandle
	ctx    context.Context //nolint:containedctx // ends with the task
	open   sync.WaitGroup  // sessions; counted up under the lock of Sessions
}

// New returns the sessions of an executor.
func New(api API, id, set string, log *slog.Logger) *Sessions {
	return &Sessions{api: api, executor: id, set: set, log: log, tasks: map[run.Key]*task{}}
}

// Serve lets clients open sessions in an environment until ctx ends, or over is
// closed: the task has ended. It returns when the last of them has ended.
func (s *Sessions) Serve(ctx context.Context, key run.Key, h executor.Handle, over <-chan struct{}) {
	handle, ok := h.(executor.ExecHandle)
	if s == nil || !ok {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &task{handle: handle, ctx: ctx}
	s.mu.Lock()
	s.tasks[key] = t
	s.mu.Unlock()
	select {
	case <-over:
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.tasks[key] == t {
		delete(s.tasks, key)
	}
	s.mu.Unlock()
	cancel(errTaskEnded)
	t.open.Wait()
}

// Run joins sessions until ctx ends, and returns when the last has ended.
func (s *Sessions) Run(ctx context.Context) {
	if s == nil {
		return
	}
	var open sync.WaitGroup
	defer open.Wait()
	pauses := retry.Doubling(retryFirst, retryLimit)
	for ctx.Err() == nil {
		offers, err := s.api.AwaitSessions(ctx, s.executor, s.set)
		pause := time.Duration(0)
		switch code := run.CodeOf(err); {
		case err == nil:
			pauses.Reset()
		case ctx.Err() != nil:
			return
		case code == run.CodeNotFound, code == run.CodeNotSupported:
			s.log.DebugContext(ctx, "the gateway has no sessions", "error", err)
			pause = unsupportedPause
		default:
			s.log.DebugContext(ctx, "failed to wait for sessions", "error", err)
			pause = pauses.NextBackOff()
		}
		for _, o := range offers {
			open.Go(func() { s.join(ctx, o) })
		}
		if pause > 0 && retry.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// join joins one session. An offer for a task that another member of the set has is
// left to that member.
func (s *Sessions) join(ctx context.Context, o execstream.Offer) {
	key := run.Key{Run: run.ID(o.Run), Task: o.Task, Attempt: o.Attempt, Dispatch: o.Dispatch}
	s.mu.Lock()
	t := s.tasks[key]
	if t != nil {
		t.open.Add(1)
		defer t.open.Done()
	}
	s.mu.Unlock()
	if t == nil {
		s.log.DebugContext(ctx, "session of a task that is not here", "session", o.ID, "key", key.String())
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })() //nolint:contextcheck // the task's context ends the session too
	client, err := s.connect(ctx, o)
	if err != nil {
		s.log.WarnContext(ctx, "failed to join a session", "session", o.ID, "key", key.String(), "error", err)
		return
	}
	stream, err := t.handle.Exec(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "failed to start a session", "session", o.ID, "key", key.String(), "error", err)
		refuse(ctx, client, err)
		return
	}
	s.log.InfoContext(ctx, "session began", "session", o.ID, "key", key.String())
	how := "its command ended"
	if _, err := execstream.Copy(ctx, client, execstream.NewStream(stream), execstream.Callbacks{}); err != nil {
		how = err.Error()
	}
	s.log.InfoContext(ctx, "session ended", "session", o.ID, "key", key.String(), "reason", how)
}

// connect connects to the gateway that holds the session.
func (s *Sessions) connect(ctx context.Context, o execstream.Offer) (execstream.Conn, error) {
	deadline := time.Now().Add(joinTimeout)
	for {
		conn, err := s.api.JoinSession(ctx, s.executor, o.ID, o.Token)
		if err == nil || run.CodeOf(err) != run.CodeUnavailable || time.Now().After(deadline) {
			return conn, err
		}
		if retry.Sleep(ctx, joinPause) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// refuse reports to the client why there is no session.
func refuse(ctx context.Context, client execstream.Conn, err error) {
	if m, encodeErr := execstream.Encode(execstream.Exit, execstream.ExitStatus{Error: err.Error()}); encodeErr == nil {
		_ = client.Send(ctx, m)
	}
	client.Close()
}
