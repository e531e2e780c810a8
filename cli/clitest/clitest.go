// Package clitest is a fake gateway for tests of the command line: it implements
// the HTTP contract with runs in memory, and simulates their execution.
package clitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// Token is the bearer token that a Gateway accepts.
const Token = "drover_test-token"

// Start returns the time of the first event.
func Start() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }

// Gateway is a fake gateway. Its methods are safe for concurrent use.
type Gateway struct {
	*httptest.Server
	t testing.TB

	mu          sync.Mutex
	runs        []*api.Run // oldest first
	events      []api.Event
	logs        map[logKey]*taskLog
	changed     chan struct{} // closed and replaced at each change
	stopped     map[string]bool
	approved    map[string]bool
	webhooks    map[string]api.Webhook
	executors   map[string]api.Executor
	pools       map[string]api.Pool
	schedules   map[string]api.Schedule
	fleets      map[string]api.Fleet
	groups      groupState
	requests    []string
	unavailable bool
	rejected    map[string]bool
	session     api.Session // of the caller
	paused      bool
	simulations sync.WaitGroup
	closed      chan struct{}
}

type logKey struct {
	run, task string
	attempt   int
}

type taskLog struct {
	chunks []api.LogChunk
	size   int64
	ended  bool
}

// New starts a gateway that ends with the test.
func New(t testing.TB) *Gateway {
	t.Helper()
	g := &Gateway{
		t: t, logs: make(map[logKey]*taskLog), changed: make(chan struct{}), stopped: make(map[string]bool),
		approved: make(map[string]bool), rejected: make(map[string]bool), closed: make(chan struct{}),
		groups: newGroupState(), session: api.Session{Subject: "ada", Scopes: []string{"admin"}},
	}
	g.Server = httptest.NewServer(g.handler())
	t.Cleanup(func() {
		close(g.closed)
		g.CloseClientConnections()
		g.Close()
		g.simulations.Wait()
	})
	return g
}

// notify wakes all goroutines that wait for a change. The caller must hold the
// lock.
func (g *Gateway) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Put adds or replaces a run.
func (g *Gateway) Put(r api.Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	for i, known := range g.runs {
		if known.ID == r.ID {
			g.runs[i] = &r
			return
		}
	}
	g.runs = append(g.runs, &r)
}

// SetSession sets who the caller is, by default an administrator.
func (g *Gateway) SetSession(s api.Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.session = s
}

// Pause stops the simulation of runs that are submitted later: the test emits
// their events.
func (g *Gateway) Pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = true
}

// Emit appends an event, with a number and, if it has none, a time (events of one
// run are 100 ms apart), and changes the run accordingly.
func (g *Gateway) Emit(e api.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	e.Number = int64(len(g.events)) + 1
	if e.Time.IsZero() {
		nth := 1
		for _, other := range g.events {
			if other.Run == e.Run {
				nth++
			}
		}
		e.Time = Start().Add(time.Duration(nth) * 100 * time.Millisecond)
	}
	if r := g.find(e.Run); r != nil {
		e.Group = r.Group
		changeRun(r, e)
	}
	g.events = append(g.events, e)
}

func changeRun(r *api.Run, e api.Event) {
	if e.Type == api.EventTypeRun {
		r.Phase, r.Result, r.Reason = e.Phase, e.Result, e.Reason
		if r.StartedAt.IsZero() && e.Phase == api.PhaseRunning {
			r.StartedAt = e.Time
		}
		if e.Phase == api.PhaseFinished || e.Phase == api.PhaseCancelled {
			r.EndedAt = e.Time
		}
		return
	}
	t := r.Tasks[e.Task]
	t.Status, t.Reason, t.Attempt, t.Executor, t.ExitCode = e.Status, e.Reason, e.Attempt, e.Executor, e.ExitCode
	switch e.Status {
	case api.StatusRunning:
		t.StartedAt = e.Time
	case api.StatusSuccess, api.StatusFailed, api.StatusStopped, api.StatusSkipped, api.StatusCancelled:
		t.EndedAt = e.Time
	case api.StatusNotStarted, api.StatusQueued, api.StatusWaitingApproval, api.StatusWaitingChangegroup:
	}
	r.Tasks[e.Task] = t
	if t.AllowFailure && t.Status == api.StatusFailed {
		r.Warnings = append(r.Warnings, e.Task) // the simulation executes tasks in their order
	}
}

// Write appends to the log of a task.
func (g *Gateway) Write(run, task string, attempt int, text string) {
	WriteStep(g, run, task, attempt, 0, text)
}

// WriteStep appends the output of a step to the log of a task.
func WriteStep(g *Gateway, run, task string, attempt, step int, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	l := g.log(logKey{run, task, attempt})
	l.chunks = append(l.chunks, api.LogChunk{
		Offset: l.size, Time: Start(), Step: step, Stream: "stdout", Data: []byte(text),
	})
	l.size += int64(len(text))
}

// ofStep returns the part of a log that a step wrote: its number, "setup", or "" for all.
func (l *taskLog) ofStep(step string) *taskLog {
	if step == "" {
		return l
	}
	part := &taskLog{ended: l.ended}
	for _, chunk := range l.chunks {
		if step == strconv.Itoa(chunk.Step) || step == "setup" && chunk.Step == run.SetupStep {
			chunk.Offset = part.size
			part.chunks, part.size = append(part.chunks, chunk), part.size+int64(len(chunk.Data))
		}
	}
	return part
}

// lastLines returns the offset of the last n lines.
func (l *taskLog) lastLines(n int) int64 {
	var all []byte
	for _, chunk := range l.chunks {
		all = append(all, chunk.Data...)
	}
	lines := slices.Collect(bytes.Lines(all))
	for _, line := range lines[:max(0, len(lines)-n)] {
		all = all[len(line):]
	}
	return l.size - int64(len(all))
}

// EndLog marks the log of a task as complete.
func (g *Gateway) EndLog(run, task string, attempt int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	g.log(logKey{run, task, attempt}).ended = true
}

func (g *Gateway) log(k logKey) *taskLog {
	if g.logs[k] == nil {
		g.logs[k] = &taskLog{}
	}
	return g.logs[k]
}

// SetUnavailable makes the gateway cut all connections, until it is called with false.
func (g *Gateway) SetUnavailable(away bool) {
	g.mu.Lock()
	g.unavailable = away
	g.notify()
	g.mu.Unlock()
	if away {
		g.CloseClientConnections()
	}
}

// Reject makes the gateway answer a request, as in "GET /api/v1/runs", with
// not_found.
func (g *Gateway) Reject(request string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rejected[request] = true
}

// Requests returns the methods and paths of all requests so far.
func (g *Gateway) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

// AwaitRequest waits until a request was made n times, and reports whether it
// was.
func (g *Gateway) AwaitRequest(request string, n int) bool {
	return g.waitUntil(func() bool {
		made := 0
		for _, r := range g.requests {
			if r == request {
				made++
			}
		}
		return made >= n
	})
}

// find returns a run. The caller must hold the lock.
func (g *Gateway) find(id string) *api.Run {
	for _, r := range g.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/runs", g.create)
	mux.HandleFunc("GET /api/v1/runs", g.list)
	mux.HandleFunc("GET /api/v1/runs/{id}", g.get)
	mux.HandleFunc("POST /api/v1/runs/{id}/{action}", g.act)
	mux.HandleFunc("PUT /api/v1/runs/{id}/annotations", g.annotate)
	mux.HandleFunc("PUT /api/v1/runs/{id}/tasks/{task}/annotations", g.annotate)
	mux.HandleFunc("POST /api/v1/runs/{id}/tasks/{task}/approve", g.approve)
	mux.HandleFunc("POST /api/v1/runs/{id}/tasks/{task}/reject", approvals{g}.reject)
	mux.HandleFunc("GET /api/v1/runs/{id}/spec", approvals{g}.getSpec)
	mux.HandleFunc("GET /api/v1/approvals", approvals{g}.listApprovals)
	mux.HandleFunc("GET /api/v1/runs/{id}/tasks/{task}/logs", g.streamLog)
	mux.HandleFunc("GET /api/v1/runs/{id}/tasks/{task}/logs/search", func(w http.ResponseWriter, r *http.Request) { searchLog(g, w, r) })
	mux.HandleFunc("GET /api/v1/events", g.streamEvents)
	g.serveChangeGroups(mux)
	webhookHandlers{g}.serve(mux)
	scheduleHandlers{g}.serve(mux)
	registryHandlers{g}.serve(mux)
	fleetHandlers{g}.serve(mux)
	g.serveRetention(mux)
	serveAudit(mux)
	serveRoleGrants(mux)
	mux.HandleFunc("GET /api/v1/session", func(w http.ResponseWriter, _ *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		answer(w, http.StatusOK, g.session)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.requests = append(g.requests, r.Method+" "+r.URL.Path)
		away, refused := g.unavailable, g.rejected[r.Method+" "+r.URL.Path]
		g.notify()
		g.mu.Unlock()
		switch {
		case away:
			panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler cuts its connection
		case refused:
			notFound(w, "request", r.Method+" "+r.URL.Path)
		case r.Header.Get("Authorization") == "":
			problem(w, http.StatusUnauthorized, "unauthenticated", "this call needs a bearer token")
		case r.Header.Get("Authorization") == "Bearer weak":
			problem(w, http.StatusForbidden, "forbidden", "token weak does not have the scope write")
		case r.Header.Get("Authorization") != "Bearer "+Token:
			problem(w, http.StatusUnauthorized, "unauthenticated", "the bearer token is not known")
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // the client disconnected; the types can all be encoded
}

func problem(w http.ResponseWriter, status int, code, detail string, faults ...api.Fault) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{ //nolint:errchkjson // the client disconnected
		Type: "urn:drover:problem:" + code, Title: strings.ReplaceAll(code, "_", " "), Status: status, Code: code, Detail: detail, Errors: faults,
	})
}

func notFound(w http.ResponseWriter, kind, name string) {
	problem(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s %s", kind, name))
}
