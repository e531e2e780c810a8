// Package sessions connects the commands that clients run in tasks with the
// executors of the tasks.
//
// The gateway of the client's connection holds a session. The records tell the
// other gateways of it, which offer it to the executor: an executor waits at any
// gateway for offers, and connects with the token of the offer. A gateway that does
// not hold the session answers unavailable before the token is used, and the
// executor tries again, until it reaches the one that does.
package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Options are the bounds of sessions. The zero value of a field means its default.
type Options struct {
	// Idle ends a session in which nothing was sent in either direction: 30 min.
	Idle time.Duration
	// Longest ends any session: 12 h.
	Longest time.Duration
	// PerExecutor is the most sessions of an executor, or of its set: 16.
	PerExecutor int
	// Join is how long an executor may take to join: 20 s.
	Join time.Duration
}

func (o Options) withDefaults() Options {
	o.Idle = cmp.Or(o.Idle, 30*time.Minute)
	o.Longest = cmp.Or(o.Longest, 12*time.Hour)
	o.PerExecutor = cmp.Or(o.PerExecutor, 16)
	o.Join = cmp.Or(o.Join, 20*time.Second)
	return o
}

const (
	// poll is the time between two looks for sessions that other gateways opened.
	poll = time.Second
	// wait is how long an executor waits for an offer before it asks again.
	wait = 25 * time.Second
	// hold is how long an offer is valid. The executor may have to reach another
	// gateway meanwhile.
	hold = 10 * time.Second
	// lease is how long a session lasts in the records after its gateway was killed.
	lease = time.Minute
	// renew is the time between two renewals of the leases.
	renew = 15 * time.Second
	// endTimeout bounds recording the end of a session.
	endTimeout = 10 * time.Second
	// maxShown bounds a command in events.
	maxShown = 500
)

var (
	errIdle    = errors.New("nothing was sent for too long")
	errLongest = errors.New("the session lasted as long as it may")
)

// Sessions opens sessions and hands them to executors. It is safe for concurrent use.
type Sessions struct {
	store records.Sessions
	log   *slog.Logger
	opts  Options

	mu      sync.Mutex
	held    map[string]*session        // sessions of clients of this gateway
	waiting []records.Session          // of all gateways, as Run read them
	waiters map[chan struct{}]struct{} // executors that wait for an offer
	running map[string]struct{}        // sessions that an executor has joined
}

// session is a session of a client of this gateway that no executor has joined.
type session struct {
	joined chan execstream.Conn // of capacity 1
}

// New returns Sessions that does no I/O. Run must run for sessions of other
// gateways, and so that sessions do not expire.
func New(store records.Sessions, log *slog.Logger, opts Options) *Sessions {
	return &Sessions{
		store: store, log: log, opts: opts.withDefaults(), held: map[string]*session{}, waiters: map[chan struct{}]struct{}{},
		running: map[string]struct{}{},
	}
}

// RunSessions keeps the leases of the sessions of this process, finds those of other
// processes, and ends those of processes that were killed, until ctx ends. Then it
// ends the sessions of this process.
func (s *Sessions) RunSessions(ctx context.Context) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var renewed time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		s.mu.Lock()
		waiters, ids := len(s.waiters), s.ids()
		s.mu.Unlock()
		if waiters > 0 {
			s.look(ctx)
		}
		if time.Since(renewed) < renew {
			continue
		}
		renewed = time.Now()
		if err := s.store.KeepSessions(ctx, ids, lease); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "failed to renew the leases of sessions", "error", err)
		}
		if _, err := s.store.ExpireSessions(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "failed to end expired sessions", "error", err)
		}
	}
}

// ids returns the sessions of this process. The caller holds the lock.
func (s *Sessions) ids() []string {
	var out []string
	for id := range s.running {
		out = append(out, id)
	}
	for id := range s.held {
		out = append(out, id)
	}
	return out
}

// look reads the sessions that wait for their executors.
func (s *Sessions) look(ctx context.Context) {
	waiting, err := s.store.WaitingSessions(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "failed to read waiting sessions", "error", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = waiting
	if len(waiting) > 0 {
		for w := range s.waiters {
			notify(w)
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ServeSession runs a command in a task for a client, from the message Start to the
// end of the session, and closes the connection. It reports errors to the client, and
// returns why the session did not begin.
func (s *Sessions) ServeSession(ctx context.Context, id run.ID, task, subject string, client execstream.Conn) error {
	err := s.serve(ctx, id, task, subject, client)
	if err == nil {
		return nil
	}
	status := execstream.ExitStatus{Error: "internal error", Problem: string(run.CodeOf(err))}
	if run.CodeOf(err) != run.CodeInternal {
		status.Error = err.Error()
	} else {
		s.log.ErrorContext(ctx, "failed to open a session", "run_id", id, "task", task, "error", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if m, err := execstream.Encode(execstream.Exit, status); err == nil {
		_ = client.Send(ctx, m)
	}
	if f, ok := client.(interface{ Finish() }); ok {
		f.Finish()
	}
	client.Close()
	return err
}

// serve returns an error if the session did not begin.
func (s *Sessions) serve(ctx context.Context, id run.ID, task, subject string, client execstream.Conn) error {
	start, request, err := s.receiveStart(ctx, client)
	if err != nil {
		return err
	}
	name := strings.ToLower(rand.Text())
	opened := &session{joined: make(chan execstream.Conn, 1)}
	s.mu.Lock()
	s.held[name] = opened
	s.mu.Unlock()
	defer s.forget(name)
	does := shown(request.Command)
	if request.Release {
		does = ""
	}
	_, err = s.store.OpenSession(ctx, records.NewSession{
		ID: name, Run: id, Task: task, Subject: subject, Command: does, Lease: lease, Limit: s.opts.PerExecutor,
	})
	if err != nil {
		return err
	}
	how := "its gateway stopped"
	end := sync.OnceFunc(func() { s.end(ctx, name, how) })
	defer end()
	s.look(ctx) // an executor that waits at this gateway learns at once
	command, err := s.awaitExecutor(ctx, name, opened)
	if err != nil {
		how = "no executor joined it"
		return err
	}
	s.copy(ctx, name, start, client, command, func(as string) {
		how = as
		end() // another session may begin, although the client has not closed its connection
	})
	return nil
}

func (s *Sessions) receiveStart(ctx context.Context, client execstream.Conn) (m execstream.Message, request execstream.StartRequest, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Join)
	defer cancel()
	if m, err = client.Receive(ctx); err != nil {
		return m, request, gone(ctx)
	}
	if m.Kind != execstream.Start || m.Decode(&request) != nil || len(request.Command) == 0 || request.Command[0] == "" {
		return m, request, run.Errorf(run.CodeInvalid, "a session begins with a command")
	}
	return m, request, nil
}

// gone returns why a session without an executor has ended: the reason of ctx, such as that
// the caller lost the right to it or that the gateway stops, or else the client.
func gone(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && run.CodeOf(cause) != run.CodeInternal {
		return cause
	}
	return run.Errorf(run.CodeCanceled, "%w", execstream.ErrClientGone)
}

// awaitExecutor waits until the executor of the task has joined.
func (s *Sessions) awaitExecutor(ctx context.Context, name string, opened *session) (execstream.Conn, error) {
	timer := time.NewTimer(s.opts.Join)
	defer timer.Stop()
	select {
	case command := <-opened.joined:
		return command, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	s.mu.Lock()
	delete(s.held, name) // no executor can join any more
	s.mu.Unlock()
	select {
	case command := <-opened.joined:
		return command, nil
	default:
	}
	if ctx.Err() != nil {
		return nil, gone(ctx)
	}
	return nil, run.Errorf(run.CodeUnavailable, "the executor of the task did not answer within %s: it is out of contact, or its version has no sessions", s.opts.Join)
}

// copy copies the messages of a session. It calls ended once its command has ended, with
// how.
func (s *Sessions) copy(ctx context.Context, name string, start execstream.Message, client, command execstream.Conn, ended func(how string)) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(s.opts.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	longest := time.AfterFunc(s.opts.Longest, func() { cancel(errLongest) })
	defer longest.Stop()
	s.mu.Lock()
	s.running[name] = struct{}{}
	s.mu.Unlock()
	if err := command.Send(ctx, start); err != nil {
		s.log.DebugContext(ctx, "failed to begin a session", "session", name, "error", err)
	}
	_, _ = execstream.Copy(ctx, client, command, execstream.Callbacks{
		Seen: func() { idle.Reset(s.opts.Idle) },
		Ended: func(status *execstream.ExitStatus, err error) {
			switch {
			case err != nil:
				ended(err.Error())
			case status.Error != "":
				ended(status.Error)
			default:
				ended(fmt.Sprintf("exit code %d", status.Code))
			}
		},
	})
}

func (s *Sessions) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, name)
	delete(s.running, name)
}

// end records the end of a session, also if its context has ended.
func (s *Sessions) end(ctx context.Context, name, how string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := s.store.EndSession(ctx, name, how); err != nil {
		s.log.WarnContext(ctx, "failed to record the end of a session; its lease will expire", "session", name, "error", err)
	}
}

// AwaitSessions waits for sessions in the tasks of an executor, and returns offers for
// them; none if there are none for some time. Errors: forbidden (it was removed).
func (s *Sessions) AwaitSessions(ctx context.Context, executor, set string) ([]execstream.Offer, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	wake := make(chan struct{}, 1)
	s.mu.Lock()
	s.waiters[wake] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiters, wake)
	}()
	for {
		offers, err := s.offer(ctx, executor, set)
		if err != nil || len(offers) > 0 {
			return offers, err
		}
		select {
		case <-wake:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// offer offers the waiting sessions of an executor that are not offered.
func (s *Sessions) offer(ctx context.Context, executor, set string) (out []execstream.Offer, err error) {
	s.mu.Lock()
	waiting := slices.Clone(s.waiting)
	s.mu.Unlock()
	for _, w := range waiting {
		if w.Executor != executor && (w.Set == "" || w.Set != set) {
			continue
		}
		token := rand.Text()
		ok, err := s.store.OfferSession(ctx, w.ID, executor, digest(token), hold)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, execstream.Offer{
				ID: w.ID, Run: string(w.Key.Run), Task: w.Key.Task, Attempt: w.Key.Attempt, Dispatch: w.Key.Dispatch, Token: token,
			})
		}
	}
	return out, nil
}

// JoinSession joins a session of this gateway that was offered to an executor, and
// returns the executor's end of it. Errors: unavailable (another gateway holds the
// session), conflict (the token is not valid), forbidden (the executor was removed).
func (s *Sessions) JoinSession(ctx context.Context, executor, id, token string) (execstream.Conn, error) {
	s.mu.Lock()
	held := s.held[id]
	s.mu.Unlock()
	if held == nil {
		return nil, run.Errorf(run.CodeUnavailable, "this gateway does not hold the session")
	}
	if err := s.store.JoinSession(ctx, id, executor, digest(token)); err != nil {
		return nil, err
	}
	theirs, ours := execstream.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] != held {
		return nil, run.Errorf(run.CodeConflict, "the session has ended")
	}
	delete(s.held, id)
	s.running[id] = struct{}{} // the lease is renewed
	held.joined <- ours
	return theirs, nil
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// shown returns a command as the events show it.
func shown(command []string) string {
	parts := make([]string, len(command))
	for i, part := range command {
		parts[i] = fmt.Sprintf("%q", part)
	}
	return truncate.String(strings.Join(parts, " "), maxShown, "...")
}
