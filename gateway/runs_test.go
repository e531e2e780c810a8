package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// fullRun has a value in every field.
func fullRun() run.Run {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	return run.Run{
		ID: runID, Counter: 7, Name: "build", Group: "/project/42", ChangeGroups: []string{"g"}, Priority: 2,
		Admission: run.AdmissionManual, Phase: run.PhaseRunning, Result: run.ResultFailed, Reason: "task a failed",
		Annotations: map[string]string{"commit": "4f2a"}, Environment: map[string]string{"K": "V"}, SecretNames: []string{"TOKEN"},
		SetupErrors: []string{"no"}, CreatedAt: at, StartedAt: at, EndedAt: at, RestartedFrom: "x", RestartedAs: []run.ID{"y"},
		StopRequested: true, Version: 12,
		Tasks: []run.Task{{
			Number: 0, Name: "a[GO=1.25,OS=linux]", Status: run.StatusFailed, Reason: "step 0 exited with 3", Pool: "linux", Executor: "host-7",
			Attempt: 2, Dispatch: 1, ExitCode: new(3), TimedOut: true, Cause: run.CauseTimeout, QueuedAt: at, StartedAt: at, EndedAt: at,
			Depends: []run.Depend{{Task: "b"}, {Task: "c", On: []run.Condition{run.OnFailure, run.OnSkipped}}},
			Outputs: map[string]string{"o": "1"}, Annotations: map[string]string{"x": "y"},
			Approval: run.Approval{Approvers: 2}, ApprovedBy: []string{"me"}, ChangeGroups: []run.TaskChangeGroup{{Name: "g"}, {Name: "h", Units: 3}},
			Steps: []run.StepState{{Name: "s", Type: "run", StepResult: run.StepResult{
				Status: run.StatusFailed, ExitCode: new(3), TimedOut: true, Stage: run.StageCleanup, Started: at, Ended: at,
			}}},
		}, {Number: 1, Name: "b", Status: run.StatusNotStarted}, {Number: 2, Name: "lint", Status: run.StatusFailed, AllowFailure: true}},
	}
}

func TestServer_GetRun(t *testing.T) {
	t.Parallel()
	now := fullRun()
	service := &runtest.Service{GetFunc: func(_ context.Context, id run.ID, _ ...string) (run.Run, error) {
		if id != runID {
			return run.Run{}, notFound(id)
		}
		return now, nil
	}}
	got := call{path: "/api/v1/runs/" + runID}.do(t, serve(t, gateway.Deps{Runs: service}, gateway.Options{}))
	require.Equal(t, http.StatusOK, got.status)
	want := `{"id": "01jd0000000000000000000000", "counter": 7, "name": "build", "group": "/project/42", "changegroups": ["g"], "priority": 2,
		"admission": "manual", "phase": "running", "result": "failed", "reason": "task a failed", "annotations": {"commit": "4f2a"},
		"environment": {"K": "V"}, "secret_names": ["TOKEN"], "setup_errors": ["no"], "created_at": "2026-01-02T02:04:05.000006Z",
		"started_at": "2026-01-02T02:04:05.000006Z", "ended_at": "2026-01-02T02:04:05.000006Z", "stop_requested": true, "restarted_from": "x", "restarted_as": ["y"],
		"tasks": {
			"a[GO=1.25,OS=linux]": {"number": 0, "status": "failed", "reason": "step 0 exited with 3", "pool": "linux", "executor": "host-7",
				"attempt": 2, "exit_code": 3, "timed_out": true, "cause": "timeout", "queued_at": "2026-01-02T02:04:05.000006Z",
				"started_at": "2026-01-02T02:04:05.000006Z", "ended_at": "2026-01-02T02:04:05.000006Z",
				"depends": [{"task": "b", "on": ["success"]}, {"task": "c", "on": ["failure", "skipped"]}], "outputs": {"o": "1"},
				"annotations": {"x": "y"}, "approval": {"approvers": 2, "approved_by": ["me"]},
				"changegroups": [{"name": "g", "units": 1}, {"name": "h", "units": 3}],
				"stages": [{"stage": "prepare", "started_at": "2026-01-02T02:04:05.000006Z", "ended_at": "2026-01-02T02:04:05.000006Z"},
					{"stage": "cleanup", "step": 0, "started_at": "2026-01-02T02:04:05.000006Z", "ended_at": "2026-01-02T02:04:05.000006Z"}],
				"steps": [{"name": "s", "type": "run", "status": "failed", "exit_code": 3, "timed_out": true,
					"started_at": "2026-01-02T02:04:05.000006Z", "ended_at": "2026-01-02T02:04:05.000006Z"}]},
			"b": {"number": 1, "status": "not_started", "reason": "", "pool": "", "executor": "", "attempt": 0, "timed_out": false,
				"depends": [], "outputs": {}, "annotations": {}, "steps": []},
			"lint": {"number": 2, "status": "failed", "allow_failure": true, "reason": "", "pool": "", "executor": "", "attempt": 0, "timed_out": false,
				"depends": [], "outputs": {}, "annotations": {}, "steps": []}},
		"warnings": ["lint"]}`
	require.JSONEq(t, want, got.body)
	conforms(t, "Run", got.body)
}

// conforms checks a document against a schema of the contract.
func conforms(t *testing.T, schema, document string) {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(document), &v))
	require.NoError(t, contract(t).Components.Schemas[schema].Value.VisitJSON(v))
}

func TestServer_GetRun_etag(t *testing.T) {
	t.Parallel()
	now := fullRun()
	service := &runtest.Service{GetFunc: func(context.Context, run.ID, ...string) (run.Run, error) { return now, nil }}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	get := func(known string) answer {
		return call{path: "/api/v1/runs/" + runID, header: map[string]string{"If-None-Match": known}}.do(t, base)
	}
	tag := get(`"old"`).header.Get("ETag")
	require.NotEmpty(t, tag)
	for _, known := range []string{tag, `"a", W/` + tag, "*"} {
		got := get(known)
		require.Equal(t, http.StatusNotModified, got.status, known)
		require.Empty(t, got.body)
		require.Equal(t, tag, got.header.Get("ETag"))
	}
	now.Tasks[1].Reason = "no executor of pool gpu is online"
	require.Equal(t, http.StatusOK, get(tag).status, "the version does not cover reasons that are computed on read")
	tag = get("").header.Get("ETag")
	now.Version++
	require.Equal(t, http.StatusOK, get(tag).status)
}

func TestServer_CreateRun(t *testing.T) {
	t.Parallel()
	received := make(chan run.CreateRequest, 1)
	service := &runtest.Service{CreateFunc: func(_ context.Context, req run.CreateRequest) (run.Run, error) {
		received <- req
		return run.Run{ID: runID, Name: req.Spec.Name, Tasks: []run.Task{}}, nil
	}}
	base := serve(t, gateway.Deps{Runs: service, Auth: testTokens(t)}, gateway.Options{})
	for media, body := range map[string]string{
		"application/json":                goodSpec,
		"application/json; charset=UTF-8": goodSpec,
		"application/yaml":                "name: hello\ngroup: /demo/hello\nsecrets: {T: hunter2}\ntasks: {a: {steps: [{run: 'true'}]}}",
	} {
		header := map[string]string{"Content-Type": media, "Authorization": "Bearer secret-write"}
		got := call{http.MethodPost, "/api/v1/runs", body, header}.do(t, base)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		require.Equal(t, "/api/v1/runs/"+runID, got.header.Get("Location"))
		require.NotContains(t, got.body, "hunter2")
		req := <-received
		require.Equal(t, "write", req.Subject)
		require.Equal(t, "true", req.Spec.Tasks["a"].Steps[0].Run)
	}
}

func TestServer_actions(t *testing.T) {
	t.Parallel()
	type made struct {
		Call, Task, Subject, Note string
		Stop                      run.StopOptions
	}
	calls := make(chan made, 1)
	act := func(name string) func(context.Context, run.ID, run.Token) (run.Run, error) {
		return func(_ context.Context, id run.ID, _ run.Token) (run.Run, error) {
			calls <- made{Call: name}
			return run.Run{ID: id}, nil
		}
	}
	service := &runtest.Service{
		StartFunc: act("start"), CancelFunc: act("cancel"),
		StopFunc: func(_ context.Context, id run.ID, opts run.StopOptions, _ run.Token) (run.Run, error) {
			calls <- made{Call: "stop", Stop: opts}
			return run.Run{ID: id}, nil
		},
		ApproveFunc: func(ctx context.Context, id run.ID, task, subject string, _ run.Token) (run.Run, error) {
			calls <- made{Call: "approve", Task: task, Subject: subject, Note: run.CommentOf(ctx)}
			return run.Run{ID: id}, nil
		},
		AnnotateFunc: func(_ context.Context, id run.ID, task string, a map[string]string, _ run.Token) (run.Run, error) {
			calls <- made{Call: "annotate", Task: task, Note: a["note"]}
			return run.Run{ID: id}, nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	const name = "a[GO=1.25,OS=linux]"
	task := "/tasks/" + url.PathEscape(name)
	for _, tc := range []struct {
		method, path, body, media string
		want                      made
	}{
		{http.MethodPost, "/start", "", "", made{Call: "start"}},
		{http.MethodPost, "/stop", "{}", "application/json", made{Call: "stop"}},
		{http.MethodPost, "/stop", "", "", made{Call: "stop"}},
		{http.MethodPost, "/stop", `{"force": true}`, "application/json", made{Call: "stop", Stop: run.StopOptions{Force: true}}},
		{http.MethodPost, "/stop", `{"cancel_queued": true}`, "application/json", made{Call: "stop", Stop: run.StopOptions{CancelQueued: true}}},
		{http.MethodPost, "/stop", `{"cancel_queued": true, "force": true}`, "application/json", made{Call: "stop", Stop: run.StopOptions{Force: true, CancelQueued: true}}},
		{http.MethodPost, "/cancel", "", "application/json", made{Call: "cancel"}},
		{http.MethodPost, task + "/approve", "", "", made{Call: "approve", Task: name, Subject: "local"}},
		{http.MethodPost, task + "/approve", `{"comment": "seen"}`, "application/json", made{Call: "approve", Task: name, Subject: "local", Note: "seen"}},
		{http.MethodPost, "/tasks/" + name + "/approve", "", "", made{Call: "approve", Task: name, Subject: "local"}},
		{http.MethodPut, "/annotations", `{"note": "x"}`, "application/json", made{Call: "annotate", Note: "x"}},
		{http.MethodPut, "/annotations", "note: x", "application/yaml", made{Call: "annotate", Note: "x"}},
		{http.MethodPut, "/annotations", "{}", "application/yaml", made{Call: "annotate"}},
		{http.MethodPut, task + "/annotations", `{"note": "y"}`, "application/json", made{Call: "annotate", Task: name, Note: "y"}},
	} {
		got := call{tc.method, "/api/v1/runs/" + runID + tc.path, tc.body, map[string]string{"Content-Type": tc.media}}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.NotEmpty(t, got.header.Get("ETag"))
		require.Equal(t, tc.want, <-calls)
	}
}

func TestServer_ListRuns(t *testing.T) {
	t.Parallel()
	queries := make(chan run.ListQuery, 1)
	summary := fullRun()
	summary.Tasks, summary.TaskCounts = nil, map[run.Status]int{run.StatusFailed: 1, run.StatusNotStarted: 1}
	service := &runtest.Service{ListFunc: func(_ context.Context, q run.ListQuery) (run.Page, error) {
		queries <- q
		return run.Page{Runs: []run.Run{summary}, Next: "n", Prev: "p"}, nil
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	early, late := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for query, want := range map[string]run.ListQuery{
		"": {},
		"?phase=queued&phase=running&result=failed": {
			Phases: []run.Phase{run.PhaseQueued, run.PhaseRunning}, Results: []run.Result{run.ResultFailed},
		},
		"?group=/a/b&group=/c": {Groups: []string{"/a/b", "/c"}},
		"?annotation=a=b=c&annotation=d=": {
			Annotations: []run.Annotation{{Key: "a", Value: "b=c"}, {Key: "d"}},
		},
		"?input=a=b=c&input=d=&input=a=x&warnings=true": {
			Inputs: []run.InputValue{{Name: "a", Value: "b=c"}, {Name: "d"}, {Name: "a", Value: "x"}}, Warnings: true,
		},
		"?warnings=false": {},
		"?created_after=2026-02-01T00:00:00Z&created_after=2026-01-01T00:00:00Z": {CreatedAfter: early},
		"?created_before=2026-02-01T01:00:00%2B01:00":                            {CreatedBefore: late},
		"?limit=100&order=asc&cursor=abc":                                        {Limit: 100, Ascending: true, Cursor: "abc"},
		"?order=desc":                                                            {},
		"?name=build&name=a%20b&created_by=ann&created_by=schedule:nightly":      {Names: []string{"build", "a b"}, CreatedBy: []string{"ann", "schedule:nightly"}},
		"?mine=true":  {CreatedBy: []string{"local"}},
		"?mine=false": {},
	} {
		got := call{path: "/api/v1/runs" + query}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Empty(t, cmp.Diff(want, <-queries), query)
		var page api.RunPage
		got.read(t, &page)
		require.Equal(t, "n", page.NextCursor)
		require.Equal(t, "p", page.PrevCursor)
		require.Len(t, page.Runs, 1)
		require.Nil(t, page.Runs[0].Tasks)
		require.Equal(t, map[string]int{"failed": 1, "not_started": 1}, page.Runs[0].TaskCounts)
		conforms(t, "RunPage", got.body)
	}
	got := call{path: "/api/v1/runs?mine=true&created_by=ann"}.do(t, base)
	got.problem(t, http.StatusBadRequest, run.CodeInvalid)
}

func TestServer_executors_and_pools(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	service := &runtest.Service{
		ExecutorsFunc: func(context.Context) ([]run.Executor, error) {
			return []run.Executor{{
				ID: "e1", Pool: "linux", Driver: "docker", OS: "linux", Arch: "amd64", Slots: 4, SlotsUsed: 1, Version: "v1",
				JournalID: "journal-secret", State: run.ExecutorOnline, RegisteredAt: at, LastContact: at, Temporary: true, Set: "s",
				Tasks: 1, Held: []run.HeldTask{{Key: run.Key{Run: runID, Task: 3, Attempt: 2, Dispatch: 1}, Name: "a[GO=1]", StartedAt: at}},
			}}, nil
		},
		PoolsFunc: func(context.Context) ([]run.Pool, error) {
			return []run.Pool{{
				Name: "linux", Driver: "docker", Online: 1, Slots: 4, SlotsUsed: 1, Queued: 2, Running: 1, Default: true,
				Flavor: run.Flavor{Name: "large"}, Kubernetes: &run.KubernetesPool{ServiceAccount: "tasks"},
			}}, nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for path, schema := range map[string]string{
		"/executors": "ExecutorList", "/executors/e1": "Executor", "/pools": "PoolList", "/pools/linux": "Pool",
	} {
		got := call{path: "/api/v1" + path}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, got.body)
		conforms(t, schema, got.body)
		require.NotContains(t, got.body, "journal-secret")
	}
}

func TestServer_health(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{ReadyFunc: func(context.Context) error {
		return run.Errorf(run.CodeUnavailable, "Temporal is out of reach")
	}}
	base := serve(t, gateway.Deps{Runs: service, Auth: testTokens(t)}, gateway.Options{})
	require.Equal(t, http.StatusOK, call{path: "/healthz"}.do(t, base).status)
	got := call{path: "/readyz"}.do(t, base)
	require.Equal(t, "Temporal is out of reach", got.problem(t, http.StatusServiceUnavailable, run.CodeUnavailable).Detail)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	ready := serve(t, gateway.Deps{}, gateway.Options{})
	require.Equal(t, http.StatusOK, call{path: "/readyz"}.do(t, ready).status)
}

func TestServer_internal_errors(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{
		StartFunc: func(context.Context, run.ID, run.Token) (run.Run, error) { return run.Run{}, errors.New("hunter2") },
		StopFunc:  func(context.Context, run.ID, run.StopOptions, run.Token) (run.Run, error) { panic("hunter2") },
		CancelFunc: func(ctx context.Context, _ run.ID, _ run.Token) (run.Run, error) {
			<-ctx.Done()
			return run.Run{}, ctx.Err()
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{RequestTimeout: 20 * time.Millisecond})
	for action, want := range map[string]struct {
		status int
		code   run.Code
	}{
		"start": {http.StatusInternalServerError, run.CodeInternal}, "stop": {http.StatusInternalServerError, run.CodeInternal},
		"cancel": {http.StatusGatewayTimeout, run.CodeTimeout},
	} {
		got := call{method: http.MethodPost, path: "/api/v1/runs/" + runID + "/" + action}.do(t, base)
		got.problem(t, want.status, want.code)
		require.NotContains(t, got.body, "hunter2")
	}
	metrics := call{path: "/metrics"}.do(t, base)
	require.Contains(t, metrics.body, "drover_gateway_panics_total 1")
}
