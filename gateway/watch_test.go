package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/execstream/socket"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// source is a list of tokens that a test replaces, as a token file does.
type source struct {
	list   atomic.Pointer[tokens.List]
	checks atomic.Int64
}

func (s *source) set(t *testing.T, list ...tokens.Token) {
	t.Helper()
	known, err := tokens.NewList(list)
	require.NoError(t, err)
	s.list.Store(known)
}

// Authenticate implements tokens.Source.
func (s *source) Authenticate(token string) (tokens.Principal, bool) {
	s.checks.Add(1)
	return s.list.Load().Authenticate(token)
}

// AuthenticateHash implements tokens.Source.
func (s *source) AuthenticateHash(hash string) (tokens.Principal, bool) {
	s.checks.Add(1)
	return s.list.Load().AuthenticateHash(hash)
}

// Tokens implements tokens.Source.
func (s *source) Tokens() []tokens.Token { return s.list.Load().Tokens() }

// commands are sessions in a task whose command ends with the session. In the task busy,
// the command writes all the time.
type commands struct{}

func (commands) ServeSession(ctx context.Context, _ run.ID, task, _ string, client execstream.Conn) error {
	near, command := execstream.Pipe()
	var output sync.WaitGroup
	defer output.Wait()
	if task == "busy" {
		output.Go(func() {
			for command.Send(ctx, execstream.Message{Kind: execstream.Stdout, Data: make([]byte, execstream.MaxData)}) == nil {
			}
		})
	}
	_, _ = execstream.Copy(ctx, client, near, execstream.Callbacks{})
	return nil
}

func (commands) AwaitSessions(context.Context, string, string) ([]execstream.Offer, error) {
	return nil, nil
}

func (commands) JoinSession(context.Context, string, string, string) (execstream.Conn, error) {
	return nil, run.Errorf(run.CodeUnavailable, "there is no session")
}

// watched is a gateway that checks the callers of open streams all the time. Its run is of
// the group ours.
type watched struct {
	source   *source
	registry *tokens.Registry
	browsers *tokens.Browsers
	store    *sqlite.Store
	service  run.Service
	events   chan run.Event
	base     string
}

func newWatched(t *testing.T) watched {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	w := watched{source: &source{}, store: store, events: make(chan run.Event)}
	w.source.set(t)
	log := slog.New(slog.DiscardHandler)
	w.registry = tokens.NewRegistry(t.Context(), w.source, store, log)
	w.browsers = tokens.NewBrowsers(w.registry, store, time.Hour, time.Hour, log)
	service := eventService(w.events, make(chan run.EventQuery, 1), make(chan struct{}))
	service.LogsFunc = func(context.Context, run.LogQuery) (run.LogReader, error) { return runtest.NewLog(), nil }
	service.GroupOfFunc = func(context.Context, run.ID) (string, error) { return ours, nil }
	w.service = service
	w.base = serve(t, gateway.Deps{
		Runs: service, Sessions: commands{}, Auth: w.registry, Tokens: w.registry, Browsers: w.browsers,
	}, gateway.Options{Recheck: 5 * time.Millisecond})
	return w
}

// ci is a token with the given rights.
func ci(token string, change func(*tokens.Token)) tokens.Token {
	t := tokens.Token{Name: "ci", Hash: tokens.Hash(token)}
	change(&t)
	return t
}

func scoped(scopes ...tokens.Scope) func(*tokens.Token) {
	return func(t *tokens.Token) { t.Scopes = scopes }
}

func boundTo(role roles.Role, groups ...string) func(*tokens.Token) {
	return func(t *tokens.Token) { t.Roles = roles.Bindings{{Role: role, Groups: groups}} }
}

// lasting are the calls that last. Each opens one, and returns a function that returns how
// it ended.
func lasting() map[string]func(t *testing.T, base string, header map[string]string) (end func() string) {
	events := func(path string, header map[string]string) func(*testing.T, string, map[string]string) func() string {
		return func(t *testing.T, base string, caller map[string]string) func() string {
			t.Helper()
			header := maps.Clone(header)
			maps.Copy(header, caller)
			s := open(t, base+path, header)
			return func() string {
				for {
					e := s.next(t)
					if e.name == "start" {
						continue
					}
					require.Equal(t, "problem", e.name)
					var p api.Problem
					require.NoError(t, json.Unmarshal([]byte(e.data), &p))
					_, err := s.lines.ReadByte()
					require.ErrorIs(t, err, io.EOF)
					return p.Code + ": " + p.Detail
				}
			}
		}
	}
	return map[string]func(*testing.T, string, map[string]string) func() string{
		"events": events("/api/v1/events", map[string]string{}),
		"log":    events(logPath+"?follow=true", map[string]string{"Accept": "text/event-stream"}),
		"exec": func(t *testing.T, base string, caller map[string]string) func() string {
			t.Helper()
			return session(t, base, "a", caller)
		},
	}
}

// session opens a session in a task, and returns a function that returns how it ended.
func session(t *testing.T, base, task string, caller map[string]string) (end func() string) {
	t.Helper()
	header := http.Header{}
	for name, value := range caller {
		header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, _, err := socket.Dial(t.Context(), client, base+"/api/v1/runs/"+runID+"/tasks/"+task+"/exec", header)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return func() string {
		for {
			m, err := conn.Receive(t.Context())
			require.NoError(t, err)
			if m.Kind == execstream.Stdout {
				continue
			}
			require.Equal(t, execstream.Exit, m.Kind)
			var status execstream.ExitStatus
			require.NoError(t, m.Decode(&status))
			return status.Error
		}
	}
}

// TestServer_ends_streams: the open calls of a caller that loses the right to them end, with
// the reason.
func TestServer_ends_streams(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before  func(*tokens.Token)
		session bool // the call is that of a browser with a session of the token
		act     func(t *testing.T, w watched, token, secret string)
		want    map[string]string // by call: the end; "" if the call lasts
	}{
		"expired": {
			before: scoped(tokens.Admin),
			act: func(t *testing.T, w watched, token, _ string) {
				t.Helper()
				w.source.set(t, ci(token, func(x *tokens.Token) {
					x.Scopes, x.Expires = []tokens.Scope{tokens.Admin}, time.Now().Add(-time.Second)
				}))
			},
			want: map[string]string{"events": "token_expired: token ci expired", "log": "token_expired: token ci expired", "exec": "token ci expired"},
		},
		"revoked": {
			before: scoped(tokens.Admin),
			act: func(t *testing.T, w watched, _, _ string) {
				t.Helper()
				_, err := w.registry.RevokeToken(t.Context(), "ci", "ops")
				require.NoError(t, err)
			},
			want: map[string]string{"events": "token_revoked: token ci was revoked", "log": "token_revoked: token ci was revoked", "exec": "token ci was revoked"},
		},
		"removed": {
			before: scoped(tokens.Admin),
			act:    func(t *testing.T, w watched, _, _ string) { t.Helper(); w.source.set(t) },
			want: map[string]string{
				"events": "unauthenticated: the bearer token is not known", "log": "unauthenticated: the bearer token is not known", "exec": "the bearer token is not known",
			},
		},
		"session_ended": {
			before: scoped(tokens.Admin), session: true,
			act: func(t *testing.T, w watched, _, secret string) {
				t.Helper()
				_, err := w.browsers.End(t.Context(), secret, false)
				require.NoError(t, err)
			},
			want: map[string]string{"events": "unauthenticated: the session has ended", "log": "unauthenticated: the session has ended", "exec": "the session has ended"},
		},
		"token_of_the_session_revoked": {
			before: scoped(tokens.Admin), session: true,
			act: func(t *testing.T, w watched, _, _ string) {
				t.Helper()
				_, err := w.registry.RevokeToken(t.Context(), "ci", "ops")
				require.NoError(t, err)
			},
			want: map[string]string{"events": "token_revoked: token ci was revoked", "log": "token_revoked: token ci was revoked", "exec": "token ci was revoked"},
		},
		"scope_lost": {
			before: scoped(tokens.Admin),
			act: func(t *testing.T, w watched, token, _ string) {
				t.Helper()
				w.source.set(t, ci(token, scoped(tokens.Read)))
			},
			want: map[string]string{"events": "", "log": "", "exec": "token ci does not have the scope exec"},
		},
		"role_lost": {
			before: boundTo(roles.Admin, "/acme/**"),
			act: func(t *testing.T, w watched, token, _ string) {
				t.Helper()
				w.source.set(t, ci(token, boundTo(roles.Viewer, "/acme/**")))
			},
			want: map[string]string{"events": "", "log": "", "exec": "ci does not have the role admin in the group " + ours},
		},
		"binding_lost": {
			before: boundTo(roles.Admin, "/acme/**", "/other/**"),
			act: func(t *testing.T, w watched, token, _ string) {
				t.Helper()
				w.source.set(t, ci(token, boundTo(roles.Admin, "/other/**")))
			},
			want: map[string]string{"events": "unavailable: the groups that ci may see have changed", "log": "not_found: there is no run", "exec": "there is no run"},
		},
		"binding_added": {
			before: boundTo(roles.Admin, "/acme/**"), session: true,
			act: func(t *testing.T, w watched, token, _ string) {
				t.Helper()
				w.source.set(t, ci(token, boundTo(roles.Admin, "/acme/**", "/other/**")))
			},
			want: map[string]string{"events": "unavailable: the groups that ci may see have changed", "log": "", "exec": ""},
		},
		"scopes_become_bindings": {
			before: scoped(tokens.Admin),
			act: func(t *testing.T, w watched, token, _ string) {
				t.Helper()
				w.source.set(t, ci(token, boundTo(roles.Admin, "/acme/**")))
			},
			want: map[string]string{"events": "unavailable: the groups that ci may see have changed", "log": "", "exec": ""},
		},
	}
	for name, tt := range tests {
		for kind, begin := range lasting() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				w, token := newWatched(t), tokens.New()
				w.source.set(t, ci(token, tt.before))
				header, secret := map[string]string{"Authorization": "Bearer " + token}, ""
				if tt.session {
					login, err := w.browsers.Begin(t.Context(), token, "")
					require.NoError(t, err)
					secret = login.Secret
					header = map[string]string{"Cookie": "drover_session=" + secret}
				}
				end := begin(t, w.base, header)
				w.awaitChecks(t)
				tt.act(t, w, token, secret)
				if want := tt.want[kind]; want != "" {
					require.Contains(t, end(), want)
					return
				}
				w.awaitChecks(t)
				w.source.set(t)
				require.Contains(t, end(), "is not known", "the call lasted until now")
			})
		}
	}
}

// awaitChecks waits until the caller of an open call was checked.
func (w watched) awaitChecks(t *testing.T) {
	t.Helper()
	begun := w.source.checks.Load()
	testenv.Await(t, func() (bool, string) {
		return w.source.checks.Load() > begun+2, "no caller is checked"
	})
}

// TestServer_ends_busy_sessions: the client learns the reason also while the command writes.
func TestServer_ends_busy_sessions(t *testing.T) {
	t.Parallel()
	w, token := newWatched(t), tokens.New()
	w.source.set(t, ci(token, scoped(tokens.Exec)))
	end, ended := session(t, w.base, "busy", map[string]string{"Authorization": "Bearer " + token}), make(chan string)
	go func() { ended <- end() }()
	w.awaitChecks(t)
	w.source.set(t)
	require.Contains(t, <-ended, "is not known")
}

// TestServer_ends_text_logs: a followed log in plain text is cut off, so that it does not
// look complete.
func TestServer_ends_text_logs(t *testing.T) {
	t.Parallel()
	w, token := newWatched(t), tokens.New()
	w.source.set(t, ci(token, scoped(tokens.Read)))
	s := open(t, w.base+logPath+"?follow=true", map[string]string{"Authorization": "Bearer " + token})
	w.source.set(t)
	_, err := io.ReadAll(s.lines)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestServer_streams_last: checks do not disturb a stream.
func TestServer_streams_last(t *testing.T) {
	t.Parallel()
	w, token := newWatched(t), tokens.New()
	w.source.set(t, ci(token, boundTo(roles.Viewer, "/acme/**")))
	s := open(t, w.base+"/api/v1/events", map[string]string{"Authorization": "Bearer " + token})
	for number := range int64(3) {
		w.awaitChecks(t)
		w.events <- run.Event{Number: number + 1, Type: run.EventRun, Run: runID, Group: ours}
		require.Equal(t, "run", s.next(t).name)
	}
}
