package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/engine/sessions"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/gateway/audit"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
	"github.com/drover-run/drover/run/runtest"
)

// memoryLog is an audit log in memory. It has no filters but that of the action.
type memoryLog struct {
	mu      sync.Mutex
	records []auditlog.Record
	err     error
}

// take returns the records, and forgets them.
func (m *memoryLog) take() []auditlog.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.records
	m.records = nil
	return all
}

func (m *memoryLog) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memoryLog) AppendAudit(_ context.Context, all []auditlog.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
next:
	for _, r := range all {
		for i := range m.records {
			if m.records[i].ID == r.ID {
				m.records[i] = r
				continue next
			}
		}
		m.records = append(m.records, r)
	}
	return nil
}

func (m *memoryLog) ListAudit(_ context.Context, q auditlog.Query) (page auditlog.Page, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		if q.Action == "" || q.Action == r.Action {
			page.Records = append(page.Records, r)
		}
	}
	if q.Cursor == "" && len(page.Records) > 1 { // pages of one record, and the rest
		return auditlog.Page{Records: page.Records[:1], Next: "rest"}, nil
	}
	if q.Cursor != "" {
		page.Records = page.Records[1:]
	}
	return page, nil
}

// audited starts a gateway with an audit log. Its recorder does not run, so each record
// is written at once.
func audited(t *testing.T, deps gateway.Deps) (base string, log *memoryLog) {
	t.Helper()
	log = &memoryLog{}
	var err error
	deps.Audit, err = audit.NewRecorder(log, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return serve(t, deps, gateway.Options{}), log
}

func bearer(scope tokens.Scope) map[string]string {
	return map[string]string{"Authorization": "Bearer secret-" + string(scope), "X-Request-Id": "request-1"}
}

// notMutations are the operations without a record that are no GET.
var notMutations = map[string]string{
	"validateSpec": "it only checks", "planRestart": "it only checks", "beginProviderLogin": "it changes nothing", "completeProviderLogin": "this gateway has no provider",
	"registerExecutor": "executor", "renewExecutor": "executor", "claimTask": "executor", "appendFrames": "executor",
	"getClaimStates": "executor", "awaitSessions": "executor", "joinSession": "executor",
	"findArchives": "executor", "beginArchive": "executor", "saveArchive": "executor",
}

// Calls every operation of the contract: each that can change something has a record.
func TestServer_audits_every_operation(t *testing.T) {
	t.Parallel()
	parameter := regexp.MustCompile(`\{\w+\}`)
	base, log := audited(t, gateway.Deps{ExecutorAPI: &runtest.ExecutorAPI{}, Auth: testTokens(t), Browsers: &oneSession{}})
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			request := call{method: method, path: parameter.ReplaceAllString(path, runID), body: `{}`, header: bearer(tokens.Admin)}
			if op.OperationID == "beginSession" {
				request.body = `{"token": "right"}`
			}
			if op.RequestBody == nil {
				request.body, request.header["Content-Type"] = "", ""
			}
			status, all := request.do(t, base).status, log.take()
			_, exempt := notMutations[op.OperationID]
			if method == http.MethodGet && op.OperationID != "execInTask" || exempt {
				require.Empty(t, all, "%s only reads, so it has no record", op.OperationID)
				continue
			}
			require.Len(t, all, 1, "%s is not recorded: set x-audit if it changes nothing", op.OperationID)
			r := all[0]
			require.Equal(t, op.OperationID, r.Action)
			require.Equal(t, status, r.Status, r.Action)
			require.NotEmpty(t, r.Kind, r.Action)
			require.Equal(t, strings.Contains(path, "{id}") || strings.Contains(path, "{name}"), r.Resource.ID == runID, r.Action)
			require.Equal(t, strings.Contains(path, "{task}"), r.Task == runID, r.Action)
			require.Equal(t, "request-1", r.RequestID)
			if op.Extensions["x-scope"] != "none" {
				require.Equal(t, "admin", r.Subject, r.Action)
				require.Equal(t, "admin", r.Token, r.Action)
			}
		}
	}
}

// Refused calls of all kinds have records.
func TestServer_audits_refusals(t *testing.T) {
	t.Parallel()
	base, log := audited(t, gateway.Deps{ExecutorAPI: &runtest.ExecutorAPI{}, Auth: testTokens(t)})
	for _, tt := range []struct {
		call
		action  string
		subject string
		status  int
	}{
		{call{path: "/api/v1/runs"}, "listRuns", "", http.StatusUnauthorized},
		{call{path: "/metrics"}, "getMetrics", "", http.StatusUnauthorized},
		{call{method: http.MethodPost, path: "/api/v1/runs/" + runID + "/stop", body: `{}`}, "stopRun", "", http.StatusUnauthorized},
		{call{method: http.MethodPost, path: "/api/v1/executor/claim", body: `{}`, header: bearer(tokens.Write)}, "claimTask", "write", http.StatusForbidden},
		{call{method: http.MethodPost, path: "/api/v1/tokens/x/revoke", body: `{}`, header: bearer(tokens.Write)}, "revokeToken", "write", http.StatusForbidden},
		{call{path: "/api/v1/runs", header: map[string]string{"Host": "evil.example"}}, "listRuns", "", http.StatusForbidden},
		{call{path: "/", header: map[string]string{"Host": "evil.example"}}, "", "", http.StatusForbidden},
	} {
		require.Equal(t, tt.status, tt.do(t, base).status, tt.path)
		all := log.take()
		require.Len(t, all, 1, tt.path)
		require.Equal(t, tt.action, all[0].Action)
		require.Equal(t, tt.subject, all[0].Subject)
		require.Equal(t, tt.status, all[0].Status)
		require.Equal(t, auditlog.Refused, all[0].Result)
		require.Equal(t, "127.0.0.1", all[0].Remote)
	}
	for range 100 {
		call{path: "/api/v1/runs"}.do(t, base)
	}
	require.Less(t, len(log.take()), 11, "a flood is counted")
}

func TestServer_audit_records(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{
		CreateFunc: func(context.Context, run.CreateRequest) (run.Run, error) { return run.Run{ID: runID}, nil },
		RestartFunc: func(_ context.Context, r run.RestartRequest) (run.Run, error) {
			return run.Run{ID: "01jd0000000000000000000001", RestartedFrom: r.Run}, nil
		},
		ApproveFunc: func(context.Context, run.ID, string, string, run.Token) (run.Run, error) {
			return run.Run{}, run.Errorf(run.CodeForbidden, "the approval does not name the caller")
		},
		StopFunc: func(context.Context, run.ID, run.StopOptions, run.Token) (run.Run, error) {
			return run.Run{}, run.Errorf(run.CodeWrongPhase, "it has ended")
		},
		DeleteFunc: func(context.Context, run.ID) error { return context.DeadlineExceeded },
	}
	base, log := audited(t, gateway.Deps{Runs: service, Auth: testTokens(t)})
	runPath := "/api/v1/runs/" + runID
	for _, tt := range []struct {
		call
		scope tokens.Scope
		want  auditlog.Record
	}{
		{
			call{method: http.MethodPost, path: "/api/v1/runs", body: `{"name": "x", "group": "/acme/web", "tasks": {"a": {"steps": [{"run": "true"}]}}}`},
			tokens.Write,
			auditlog.Record{Action: "createRun", Resource: auditlog.Resource{Kind: "run", ID: runID}, Result: auditlog.Success, Status: 201},
		},
		{
			call{method: http.MethodPost, path: runPath + "/restart", body: `{"from": "start"}`},
			tokens.Write,
			auditlog.Record{Action: "restartRun", Resource: auditlog.Resource{Kind: "run", ID: runID}, Created: "01jd0000000000000000000001", Result: auditlog.Success, Status: 201},
		},
		{
			call{method: http.MethodPost, path: runPath + "/tasks/a%20b/approve", body: `{}`},
			tokens.Write,
			auditlog.Record{Action: "approveTask", Resource: auditlog.Resource{Kind: "run", ID: runID, Task: "a b"}, Result: auditlog.Refused, Status: 403, Code: run.CodeForbidden},
		},
		{
			call{method: http.MethodPost, path: runPath + "/stop", body: `{}`},
			tokens.Write,
			auditlog.Record{Action: "stopRun", Resource: auditlog.Resource{Kind: "run", ID: runID}, Result: auditlog.Failed, Status: 409, Code: run.CodeWrongPhase},
		},
		{
			call{method: http.MethodDelete, path: runPath, body: `{}`},
			tokens.Write,
			auditlog.Record{Action: "deleteRun", Resource: auditlog.Resource{Kind: "run", ID: runID}, Result: auditlog.Refused, Status: 403, Code: run.CodeForbidden},
		},
		{
			call{method: http.MethodDelete, path: runPath, body: `{}`},
			tokens.Admin,
			auditlog.Record{Action: "deleteRun", Resource: auditlog.Resource{Kind: "run", ID: runID}, Result: auditlog.Unknown, Status: 504, Code: run.CodeTimeout},
		},
	} {
		tt.header = bearer(tt.scope)
		a := tt.do(t, base)
		all := log.take()
		require.Len(t, all, 1, a.body)
		got := all[0]
		require.NotZero(t, got.Time)
		require.Len(t, got.ID, 26)
		got.ID, got.Time, got.Until = "", tt.want.Time, tt.want.Until
		tt.want.Subject, tt.want.Token, tt.want.RequestID, tt.want.Remote, tt.want.Count = string(tt.scope), string(tt.scope), "request-1", "127.0.0.1", 1
		require.Equal(t, tt.want, got, a.body)
	}
}

// The record is written before the call, so that a gateway that is killed leaves one.
func TestServer_audit_record_precedes_the_call(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{}
	base, log := audited(t, gateway.Deps{Auth: testTokens(t), Runs: service})
	during := make(chan []auditlog.Record, 1)
	service.CancelFunc = func(context.Context, run.ID, run.Token) (run.Run, error) {
		during <- log.take()
		return run.Run{ID: runID}, nil
	}
	cancel := call{method: http.MethodPost, path: "/api/v1/runs/" + runID + "/cancel", body: `{}`, header: bearer(tokens.Write)}
	require.Equal(t, http.StatusOK, cancel.do(t, base).status)
	before := <-during
	require.Len(t, before, 1)
	require.Equal(t, auditlog.Unknown, before[0].Result)
	require.Zero(t, before[0].Status)
	require.Equal(t, "write", before[0].Subject)

	log.fail(run.Errorf(run.CodeUnavailable, "down"))
	cancel.do(t, base).problem(t, http.StatusServiceUnavailable, run.CodeUnavailable)
	require.Empty(t, during, "without its record, the call is not made")
	cancel.header = nil
	cancel.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated) // a refusal needs no record
}

func TestServer_audit_of_browser_sessions(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList(nil)
	require.NoError(t, err)
	sessions := &oneSession{}
	base, log := audited(t, gateway.Deps{Auth: list, Browsers: sessions})
	login := call{method: http.MethodPost, path: "/api/v1/session", body: `{"token": "right"}`}
	a := login.do(t, base)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(t, err)
	logout := call{method: http.MethodDelete, path: "/api/v1/session", header: map[string]string{"Cookie": cookie.Name + "=" + cookie.Value, "Content-Type": ""}}
	require.Equal(t, http.StatusOK, logout.do(t, base).status)
	all := log.take()
	require.Len(t, all, 2)
	for i, action := range []string{"beginSession", "endSession"} {
		r := all[i]
		require.Equal(t, action, r.Action)
		require.Equal(t, "ana", r.Subject)
		require.Equal(t, auditlog.Success, r.Result)
		require.Equal(t, auditlog.Resource{Kind: "session"}, r.Resource)
	}

	login.body = `{"token": "wrong-secret"}`
	require.Equal(t, http.StatusUnauthorized, login.do(t, base).status)
	all = log.take()
	require.Equal(t, auditlog.Refused, all[0].Result)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.NotContains(t, string(text), "wrong-secret")

	sessions.ended = nil
	log.fail(run.Errorf(run.CodeUnavailable, "down"))
	login.body = `{"token": "right"}`
	a = login.do(t, base)
	a.problem(t, http.StatusServiceUnavailable, run.CodeUnavailable)
	require.Empty(t, a.header.Get("Set-Cookie"))
	require.Len(t, sessions.ended, 1, "a session without a record ends at once")
}

func TestServer_audit_list_and_export(t *testing.T) {
	t.Parallel()
	base, _ := audited(t, gateway.Deps{Auth: testTokens(t)})
	for range 3 {
		call{path: "/api/v1/pools"}.do(t, base)
	}
	admin := bearer(tokens.Admin)
	var page api.AuditPage
	call{path: "/api/v1/audit?action=listPools&resource=pool&result=refused&from=2026-01-01T00:00:00Z&limit=10", header: admin}.do(t, base).read(t, &page)
	require.Len(t, page.Records, 1)
	require.Equal(t, "rest", page.NextCursor)
	require.Equal(t, api.AuditResultRefused, page.Records[0].Result)
	require.Equal(t, "pool", page.Records[0].Resource.Kind)

	a := call{path: "/api/v1/audit/export?action=listPools", header: admin}.do(t, base)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		var r api.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Equal(t, "listPools", r.Action)
		require.Equal(t, 1, r.Count)
	}

	for _, query := range []string{"?result=maybe", "?from=yesterday", "?limit=501", "?what=1"} {
		call{path: "/api/v1/audit" + query, header: admin}.do(t, base).problem(t, http.StatusBadRequest, run.CodeInvalid)
	}
	call{path: "/api/v1/audit", header: bearer(tokens.Write)}.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
	without := serve(t, gateway.Deps{}, gateway.Options{})
	for _, path := range []string{"", "/export"} {
		call{path: filepath.Join("/api/v1/audit", path)}.do(t, without).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
	}
}

func TestServer_actors_of_a_run(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: &runtest.Service{GetFunc: func(context.Context, run.ID, ...string) (run.Run, error) {
		return run.Run{ID: runID, CreatedBy: "ana", Actions: []run.Action{
			{Kind: run.ActionStart, Actor: "ben"}, {Kind: run.ActionStop, Actor: "cleo"}, {Kind: run.ActionStop, Actor: "dan"},
		}}, nil
	}}}, gateway.Options{})
	var v api.Run
	call{path: "/api/v1/runs/" + runID}.do(t, base).read(t, &v)
	require.Equal(t, []string{"ana", "ben", "cleo", ""}, []string{v.CreatedBy, v.StartedBy, v.StoppedBy, v.CancelledBy})
}

// refusing refuses each session with the code that its task names.
type refusing struct{ commands }

func (refusing) ServeSession(ctx context.Context, _ run.ID, task, _ string, client execstream.Conn) error {
	err := run.Errorf(run.Code(task), "no")
	if m, encodeErr := execstream.Encode(execstream.Exit, execstream.ExitStatus{Error: "no", Problem: task}); encodeErr == nil {
		_ = client.Send(ctx, m)
	}
	return err
}

// TestServer_audits_refused_sessions: the connection of a session is upgraded before it is
// known whether the session may begin, and its record has the outcome nevertheless.
func TestServer_audits_refused_sessions(t *testing.T) {
	t.Parallel()
	base, log := audited(t, gateway.Deps{Auth: testTokens(t), Sessions: refusing{}})
	for code, want := range map[run.Code]auditlog.Record{
		run.CodeForbidden: {Status: 403, Result: auditlog.Refused}, run.CodeNotFound: {Status: 404, Result: auditlog.Failed},
		run.CodeConflict: {Status: 409, Result: auditlog.Failed}, run.CodeExhausted: {Status: 429, Result: auditlog.Failed},
		run.CodeUnavailable: {Status: 503, Result: auditlog.Unknown},
	} {
		log.take()
		end := session(t, base, string(code), bearer(tokens.Exec))
		require.Equal(t, "no", end())
		testenv.Await(t, func() (bool, string) {
			page, err := log.ListAudit(t.Context(), auditlog.Query{})
			require.NoError(t, err)
			return len(page.Records) == 1 && page.Records[0].Status != 0, fmt.Sprint(page.Records)
		})
		r := log.take()[0]
		require.Equal(t, "execInTask", r.Action)
		require.Equal(t, want, auditlog.Record{Status: r.Status, Result: r.Result})
		require.Equal(t, code, r.Code)
	}
}

// TestServer_audits_sessions_that_lose_their_caller: a caller who loses the right to a session
// before it begins is refused, and not gone.
func TestServer_audits_sessions_that_lose_their_caller(t *testing.T) {
	t.Parallel()
	w, token, log := newWatched(t), tokens.New(), &memoryLog{}
	w.source.set(t, ci(token, scoped(tokens.Exec)))
	recorder, err := audit.NewRecorder(log, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	base := serve(t, gateway.Deps{
		Runs: w.service, Sessions: sessions.New(w.store, slog.New(slog.DiscardHandler), sessions.Options{Join: time.Hour}), Auth: w.registry, Audit: recorder,
	}, gateway.Options{Recheck: 5 * time.Millisecond})
	session(t, base, "a", map[string]string{"Authorization": "Bearer " + token})
	w.awaitChecks(t)
	w.source.set(t)
	var r auditlog.Record
	testenv.Await(t, func() (bool, string) {
		page, err := log.ListAudit(t.Context(), auditlog.Query{})
		require.NoError(t, err)
		require.Len(t, page.Records, 1)
		r = page.Records[0]
		return r.Status != 0, fmt.Sprint(r)
	})
	require.Equal(t, []any{http.StatusUnauthorized, run.CodeUnauthenticated, auditlog.Refused}, []any{r.Status, r.Code, r.Result})
}

// TestServer_audits_created_tokens: the record of a token that was created, or could not be,
// has its name and its rights.
func TestServer_audits_created_tokens(t *testing.T) {
	t.Parallel()
	list, err := tokens.NewList([]tokens.Token{{Name: "ops", Hash: tokens.Hash("ops"), Scopes: []tokens.Scope{tokens.Admin}}})
	require.NoError(t, err)
	registry := tokens.NewRegistry(t.Context(), list, newStore(t), slog.New(slog.DiscardHandler))
	base, log := audited(t, gateway.Deps{Auth: registry, Tokens: registry})
	for _, body := range []string{`{"name": "backdoor", "scopes": ["admin"]}`, `{"name": "backdoor", "scopes": ["admin"]}`, `{"name": "` + strings.Repeat("a", 1000) + `", "scopes": ["admin"]}`} {
		call{method: http.MethodPost, path: "/api/v1/tokens", body: body, header: map[string]string{"Authorization": "Bearer ops"}}.do(t, base)
	}
	var got []string
	for _, r := range log.take() {
		got = append(got, fmt.Sprintf("%s %s/%s %s %s", r.Action, r.Kind, r.Resource.ID, r.Result, r.Details))
	}
	const details = `{"name":"backdoor","scopes":["admin"]}`
	require.Equal(t, []string{"createToken token/backdoor success " + details, "createToken token/backdoor failed " + details, "createToken token/ failed "}, got)
}
