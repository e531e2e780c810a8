package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// stream is an open response.
type stream struct {
	*http.Response
	lines *bufio.Reader
}

func open(t *testing.T, url string, header map[string]string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	s := &stream{Response: response, lines: bufio.NewReader(response.Body)}
	t.Cleanup(func() { _ = s.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	return s
}

// event is a server-sent event.
type event struct{ id, name, data string }

// next reads an event and skips comments.
func (s *stream) next(t *testing.T) event {
	t.Helper()
	var e event
	for {
		line, err := s.lines.ReadString('\n')
		require.NoError(t, err)
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e != (event{}) {
				return e
			}
		}
	}
}

const logPath = "/api/v1/runs/" + runID + "/tasks/a/logs"

// logService serves one log, and sends the query with which it was opened to
// queries.
func logService(l *runtest.Log, queries chan<- run.LogQuery) *runtest.Service {
	return &runtest.Service{LogsFunc: func(_ context.Context, q run.LogQuery) (run.LogReader, error) {
		queries <- q
		return l, nil
	}}
}

func TestServer_logs_as_text(t *testing.T) {
	t.Parallel()
	l, queries := runtest.NewLog(), make(chan run.LogQuery, 1)
	base := serve(t, gateway.Deps{Runs: logService(l, queries)}, gateway.Options{})
	s := open(t, base+logPath+"?follow=true&step=2&attempt=3&offset=10", nil)
	require.Equal(t, run.LogQuery{Run: runID, Task: "a", Attempt: 3, Step: new(2), Offset: 10, Follow: true}, <-queries)
	require.Equal(t, "text/plain; charset=utf-8", s.Header.Get("Content-Type"))
	for _, text := range []string{"one\n", "two\n", "\xff\x00\n"} {
		l.Send(run.LogChunk{Data: []byte(text)})
		line, err := s.lines.ReadString('\n') // the line arrives while the log is open
		require.NoError(t, err)
		require.Equal(t, text, line)
	}
	l.End(nil)
	rest, err := io.ReadAll(s.lines)
	require.NoError(t, err)
	require.Empty(t, rest)
	<-l.Closed()
}

func TestServer_logs_in_part(t *testing.T) {
	t.Parallel()
	l, queries := runtest.NewLog(), make(chan run.LogQuery, 1)
	l.Begin = 77
	base := serve(t, gateway.Deps{Runs: logService(l, queries)}, gateway.Options{})
	s := open(t, base+logPath+"?stream=stdout&stream=stderr&tail=0&since=2026-01-02T03:04:05.5Z&timestamps=true&download=true", map[string]string{"Accept": "text/event-stream"})
	since := time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC)
	require.Equal(t, run.LogQuery{
		Run: runID, Task: "a", Streams: []run.Stream{run.StreamStdout, run.StreamStderr}, Tail: new(0), Since: since,
	}, <-queries)
	require.Equal(t, "77", s.Header.Get("Drover-Log-Offset"))
	require.Equal(t, `attachment; filename=`+runID+`-a.log`, s.Header.Get("Content-Disposition"))
	require.Equal(t, "text/plain; charset=utf-8", s.Header.Get("Content-Type"), "a download is a file, for any Accept header")
	l.Send(run.LogChunk{Time: since, Data: []byte("one\ntw")})
	l.Send(run.LogChunk{Time: since.Add(time.Second), Data: []byte("o\r\nthree\r")})
	l.Send(run.LogChunk{Time: since.Add(time.Minute), Data: []byte("\xff\n")})
	l.End(nil)
	all, err := io.ReadAll(s.lines)
	require.NoError(t, err)
	require.Equal(t, "2026-01-02T03:04:05.500000000Z one\n2026-01-02T03:04:05.500000000Z two\r\n2026-01-02T03:04:06.500000000Z three\r\xff\n", string(all))
}

// The output of a service is a log of its own, and the end of any log names the services.
func TestServer_logs_of_services(t *testing.T) {
	t.Parallel()
	l, queries := runtest.NewLog(), make(chan run.LogQuery, 1)
	l.With = []string{"db", "web"}
	base := serve(t, gateway.Deps{Runs: logService(l, queries)}, gateway.Options{})
	s := open(t, base+logPath+"?stream=service:db", map[string]string{"Accept": "text/event-stream"})
	require.Equal(t, []run.Stream{run.ServiceStream("db")}, (<-queries).Streams)
	l.Send(run.LogChunk{Step: run.SetupStep, Stream: run.ServiceStream("db"), Data: []byte("ready\n")})
	l.End(nil)
	require.Equal(t, "start", s.next(t).name)
	chunk := s.next(t)
	require.Equal(t, "log", chunk.name)
	conforms(t, "LogChunk", chunk.data)
	require.Contains(t, chunk.data, `"stream":"service:db"`)
	end := s.next(t)
	require.Equal(t, event{"6", "end", `{"services":["db","web"]}`}, end)
	conforms(t, "LogEnd", end.data)

	other := runtest.NewLog()
	other.End(nil)
	base = serve(t, gateway.Deps{Runs: logService(other, queries)}, gateway.Options{})
	got := call{path: logPath + "?download=true&stream=service:db"}.do(t, base)
	require.Equal(t, `attachment; filename=`+runID+`-a.service-db.log`, got.header.Get("Content-Disposition"))
	<-queries
}

func TestServer_logs_since_a_while_ago(t *testing.T) {
	t.Parallel()
	l, queries := runtest.NewLog(), make(chan run.LogQuery, 1)
	l.End(nil)
	base := serve(t, gateway.Deps{Runs: logService(l, queries)}, gateway.Options{})
	require.Equal(t, http.StatusOK, call{path: logPath + "?since=1h30m"}.do(t, base).status)
	require.WithinDuration(t, time.Now().Add(-90*time.Minute), (<-queries).Since, time.Minute)
}

func TestServer_logs_refused(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: logService(runtest.NewLog(), make(chan run.LogQuery, 1))}, gateway.Options{})
	events := map[string]string{"Accept": "text/event-stream"}
	for query, detail := range map[string]string{
		"since=yesterday": "since must be a time",
		"since=-10m":      "since must be a time",
		"tail=-1":         "tail",
		"tail=some":       "tail",
		"stream=stdin":    "stream",
		"stream=service:": "stream must be",

		"step=setup&stream=service:db": "belongs to no step",
		"timestamps=true":              "events always have times",
		"timestamps=2":                 "timestamps",
		"download=maybe":               "download",
	} {
		got := call{path: logPath + "?" + query, header: events}.do(t, base)
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", query, got.body)
		require.Contains(t, got.body, detail)
	}
}

func TestServer_logs_of_setup(t *testing.T) {
	t.Parallel()
	l, queries := runtest.NewLog(), make(chan run.LogQuery, 1)
	l.End(nil)
	base := serve(t, gateway.Deps{Runs: logService(l, queries)}, gateway.Options{})
	require.Equal(t, http.StatusOK, call{path: logPath + "?step=setup"}.do(t, base).status)
	require.Equal(t, run.LogQuery{Run: runID, Task: "a", Step: new(run.SetupStep)}, <-queries)
}

func TestServer_logs_as_text_break_off(t *testing.T) {
	t.Parallel()
	l := runtest.NewLog()
	base := serve(t, gateway.Deps{Runs: logService(l, make(chan run.LogQuery, 1))}, gateway.Options{})
	s := open(t, base+logPath, nil)
	l.Send(run.LogChunk{Data: []byte("one\n")})
	_, err := s.lines.ReadString('\n')
	require.NoError(t, err)
	l.End(run.Errorf(run.CodeUnavailable, "the blob store is out of reach"))
	_, err = io.ReadAll(s.lines)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a log that is not whole must not look like one")
	<-l.Closed()
}

func TestServer_logs_as_events(t *testing.T) {
	t.Parallel()
	l, queries := runtest.NewLog(), make(chan run.LogQuery, 1)
	l.Begin = 5
	base := serve(t, gateway.Deps{Runs: logService(l, queries)}, gateway.Options{})
	s := open(t, base+logPath+"?follow=true&offset=1&tail=3&since=1m", map[string]string{"Accept": "text/event-stream", "Last-Event-ID": "5"})
	require.Equal(t, run.LogQuery{Run: runID, Task: "a", Offset: 5, Follow: true}, <-queries, "Last-Event-ID resumes the stream")
	require.Equal(t, event{"5", "start", `{"offset":5}`}, s.next(t), "the first event is sent before any output")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.Send(run.LogChunk{Offset: 5, Time: at, Step: -1, Stream: run.StreamSystem, Data: []byte("a\nb")})
	got := s.next(t)
	require.Equal(t, event{"8", "log", got.data}, got)
	conforms(t, "LogChunk", got.data)
	var chunk api.LogChunk
	require.NoError(t, json.Unmarshal([]byte(got.data), &chunk))
	require.Equal(t, api.LogChunk{Offset: 5, Time: at, Step: -1, Stream: "system", Data: []byte("a\nb")}, chunk)
	l.End(nil)
	require.Equal(t, event{"8", "end", "{}"}, s.next(t))
	_, err := s.lines.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestServer_logs_as_events_break_off(t *testing.T) {
	t.Parallel()
	l := runtest.NewLog()
	base := serve(t, gateway.Deps{Runs: logService(l, make(chan run.LogQuery, 1))}, gateway.Options{})
	s := open(t, base+logPath, map[string]string{"Accept": "text/event-stream"})
	l.End(run.Errorf(run.CodeUnavailable, "the blob store is out of reach"))
	require.Equal(t, "start", s.next(t).name)
	got := s.next(t)
	require.Equal(t, "problem", got.name)
	conforms(t, "Problem", got.data)
	require.Contains(t, got.data, "the blob store is out of reach")
}

// eventService yields events from a channel and closes ended at the end.
func eventService(events <-chan run.Event, queries chan<- run.EventQuery, ended chan<- struct{}) *runtest.Service {
	return &runtest.Service{EventsFunc: func(ctx context.Context, q run.EventQuery) iter.Seq2[run.Event, error] {
		queries <- q
		return func(yield func(run.Event, error) bool) {
			defer close(ended)
			for {
				select {
				case e := <-events:
					if !yield(e, nil) {
						return
					}
				case <-ctx.Done():
					yield(run.Event{}, context.Cause(ctx))
					return
				}
			}
		}
	}}
}

func TestServer_events(t *testing.T) {
	t.Parallel()
	events, queries, ended := make(chan run.Event), make(chan run.EventQuery, 1), make(chan struct{})
	base := serve(t, gateway.Deps{Runs: eventService(events, queries, ended)}, gateway.Options{})
	s := open(t, base+"/api/v1/events?after=3&group=/a", map[string]string{"Last-Event-ID": "7"})
	require.Equal(t, "text/event-stream", s.Header.Get("Content-Type"))
	require.Equal(t, run.EventQuery{After: 7, Group: "/a"}, <-queries)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	events <- run.Event{Number: 8, Type: run.EventRun, Time: at, Run: runID, Group: "/a/b", Phase: run.PhaseRunning, Result: run.ResultUnknown}
	got := s.next(t)
	require.Equal(t, "8", got.id)
	require.Equal(t, "run", got.name)
	conforms(t, "Event", got.data)
	events <- run.Event{
		Number: 9, Type: run.EventTask, Time: at, Run: runID, Group: "/a/b", Task: "a", Status: run.StatusFailed, Attempt: 1,
		Executor: "e", ExitCode: new(0), Reason: "x",
	}
	got = s.next(t)
	require.Equal(t, event{"9", "task", got.data}, got)
	require.JSONEq(t, `{"number": 9, "type": "task", "time": "2026-01-01T00:00:00Z", "run": "`+runID+`", "group": "/a/b", "task": "a",
		"status": "failed", "attempt": 1, "executor": "e", "exit_code": 0, "reason": "x"}`, got.data)
	require.NoError(t, s.Body.Close())
	<-ended // the source ends when the client disconnects
}

// An idle stream outlives every timeout of the server.
// TestServer_event_positions: an event without a type is an id alone.
func TestServer_event_positions(t *testing.T) {
	t.Parallel()
	events, queries, ended := make(chan run.Event), make(chan run.EventQuery, 1), make(chan struct{})
	base := serve(t, gateway.Deps{Runs: eventService(events, queries, ended)}, gateway.Options{})
	s := open(t, base+"/api/v1/events", nil)
	events <- run.Event{Number: 12_000}
	require.Equal(t, event{id: "12000"}, s.next(t))
}

func TestServer_heartbeats(t *testing.T) {
	t.Parallel()
	events, ended := make(chan run.Event), make(chan struct{})
	opts := gateway.Options{Heartbeat: 10 * time.Millisecond, ReadTimeout: 50 * time.Millisecond, RequestTimeout: 50 * time.Millisecond, WriteTimeout: 100 * time.Millisecond}
	service := eventService(events, make(chan run.EventQuery, 1), ended)
	g := running(t, gateway.Deps{Runs: service}, opts)
	s := open(t, g.url+"/api/v1/events", nil)
	for range 40 {
		line, err := s.lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, ": still here\n", line)
		_, err = s.lines.ReadString('\n')
		require.NoError(t, err)
	}
	events <- run.Event{Number: 1, Type: run.EventRun}
	require.Equal(t, "1", s.next(t).id)
}

// The gateway disconnects a reader that takes nothing, to release its resources.
func TestServer_slow_reader(t *testing.T) {
	t.Parallel()
	ended, taken := make(chan struct{}), int64(0)
	service := &runtest.Service{EventsFunc: func(context.Context, run.EventQuery) iter.Seq2[run.Event, error] {
		return func(yield func(run.Event, error) bool) {
			defer close(ended)
			for taken = 1; yield(run.Event{Number: taken, Type: run.EventRun, Reason: strings.Repeat("x", 10_000)}, nil); taken++ {
			}
		}
	}}
	g := running(t, gateway.Deps{Runs: service}, gateway.Options{WriteTimeout: 50 * time.Millisecond})
	open(t, g.url+"/api/v1/events", nil)
	testenv.Await(t, func() (bool, string) {
		select {
		case <-ended:
			return true, ""
		default:
			return false, "still writing"
		}
	})
	// The reader took what fits into the buffers of the operating system, and no
	// more.
	require.Less(t, taken, int64(5_000))
}

// instance is a gateway that runs with Server.Run.
type instance struct {
	url  string
	stop context.CancelFunc
	done chan error
}

func running(t *testing.T, deps gateway.Deps, opts gateway.Options) *instance {
	t.Helper()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	g, err := gateway.New(deps, opts)
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	scheme := "http://"
	if opts.TLS != nil {
		scheme = "https://"
	}
	i := &instance{url: scheme + listener.Addr().String(), stop: cancel, done: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.done <- g.Run(ctx, listener)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return i
}

func TestServer_Run_shuts_down(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	events, ended := make(chan run.Event), make(chan struct{})
	l := runtest.NewLog()
	service := eventService(events, make(chan run.EventQuery, 1), ended)
	service.LogsFunc = func(context.Context, run.LogQuery) (run.LogReader, error) { return l, nil }
	service.StopFunc = func(context.Context, run.ID, run.StopOptions, run.Token) (run.Run, error) {
		close(entered)
		<-leave
		return run.Run{ID: runID}, nil
	}
	g := running(t, gateway.Deps{Runs: service}, gateway.Options{})
	follower := open(t, g.url+"/api/v1/events", nil)
	text := open(t, g.url+logPath+"?follow=true", nil)
	answered := make(chan answer, 1)
	go func() {
		answered <- call{method: http.MethodPost, path: "/api/v1/runs/" + runID + "/stop"}.do(t, g.url)
	}()
	<-entered
	g.stop()
	last := follower.next(t)
	require.Equal(t, "problem", last.name)
	require.Contains(t, last.data, "shutting down")
	_, err := io.ReadAll(text.lines)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	close(leave)
	require.Equal(t, http.StatusOK, (<-answered).status, "the gateway finishes open calls")
	require.NoError(t, <-g.done)
	<-l.Closed()
}

func TestServer_Run_cuts_off(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	service := &runtest.Service{StopFunc: func(ctx context.Context, _ run.ID, _ run.StopOptions, _ run.Token) (run.Run, error) {
		close(entered)
		<-ctx.Done()
		return run.Run{}, ctx.Err()
	}}
	g := running(t, gateway.Deps{Runs: service}, gateway.Options{ShutdownTimeout: 10 * time.Millisecond})
	failed := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/api/v1/runs/"+runID+"/stop", nil)
		if err == nil {
			var response *http.Response
			if response, err = (&http.Transport{}).RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
		}
		failed <- err
	}()
	<-entered
	g.stop()
	require.Error(t, <-failed)
	require.NoError(t, <-g.done)
}

func TestServer_Run_refuses_open_listener(t *testing.T) {
	t.Parallel()
	g, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, g.Run(t.Context(), wildcardListener{}), "token")
}

// wildcardListener is a listener whose address is all interfaces. It opens no port.
type wildcardListener struct{ net.Listener }

func (wildcardListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 80} }

func (wildcardListener) Close() error { return nil }
