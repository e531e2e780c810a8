package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

const goodSpec = `{"name": "hello", "group": "/demo/hello", "tasks": {"a": {"steps": [{"run": "true"}]}}}`

// strictService fails the test when the gateway passes on a call that it should
// refuse.
func strictService(t *testing.T) *runtest.Service {
	t.Helper()
	return &runtest.Service{
		CreateFunc: func(context.Context, run.CreateRequest) (run.Run, error) {
			t.Error("the gateway passed on a bad specification")
			return run.Run{}, nil
		},
		ListFunc: func(context.Context, run.ListQuery) (run.Page, error) {
			t.Error("the gateway passed on a bad query")
			return run.Page{}, nil
		},
		GetFunc: func(_ context.Context, id run.ID, _ ...string) (run.Run, error) { return run.Run{}, notFound(id) },
		EventFloorFunc: func(_ context.Context, id run.ID) (int64, error) {
			if id == "" {
				return 0, nil
			}
			return 0, notFound(id)
		},
		StopFunc: func(_ context.Context, id run.ID, _ run.StopOptions, _ run.Token) (run.Run, error) {
			return run.Run{}, wrongPhase()
		},
		CancelFunc: func(_ context.Context, id run.ID, _ run.Token) (run.Run, error) { return run.Run{}, wrongPhase() },
		StartFunc:  func(_ context.Context, id run.ID, _ run.Token) (run.Run, error) { return run.Run{}, notFound(id) },
		ApproveFunc: func(_ context.Context, _ run.ID, task, _ string, _ run.Token) (run.Run, error) {
			return run.Run{}, run.Errorf(run.CodeNotWaitingApproval, "task %s is queued", task)
		},
		AnnotateFunc: func(context.Context, run.ID, string, map[string]string, run.Token) (run.Run, error) {
			return run.Run{}, run.InvalidError("an annotation is too long", []run.Fault{{Path: "k", Code: run.CodeTooLarge}})
		},
		LogsFunc: func(_ context.Context, q run.LogQuery) (run.LogReader, error) {
			if q.Task != "a" {
				return nil, run.Errorf(run.CodeNotFound, "run %s has no task %s", q.Run, q.Task)
			}
			return nil, run.Errorf(run.CodeNotFound, "task a has 1 step, so there is no step %d", *q.Step)
		},
	}
}

func notFound(id run.ID) error { return run.Errorf(run.CodeNotFound, "there is no run %s", id) }

func wrongPhase() error { return run.Errorf(run.CodeWrongPhase, "the run is finished") }

type badInput struct {
	call   call
	status int
	code   run.Code
	// a substring of the detail of the problem, or of one of its faults
	detail string
	path   string // of a fault
}

func TestServer_bad_input(t *testing.T) {
	t.Parallel()
	yaml := map[string]string{"Content-Type": "application/yaml"}
	const runs, aRun = "/api/v1/runs", "/api/v1/runs/" + runID
	const logs = aRun + "/tasks/a/logs"
	post, put := http.MethodPost, http.MethodPut
	cases := map[string]badInput{
		"unreadable JSON": {call{post, runs, `{"name": `, nil}, 400, run.CodeUnreadable, "", ""},
		"unreadable YAML": {call{post, runs, "a: [", yaml}, 400, run.CodeUnreadable, "", ""},
		"empty":           {call{post, runs, "", yaml}, 400, run.CodeUnreadable, "", ""},
		"not an object":   {call{post, runs, "[1]", nil}, 422, run.CodeInvalid, "", ""},
		"unknown field":   {call{post, runs, "name: x\ngroup: /a/b\ncolour: red\ntasks: {a: {steps: [{run: x}]}}", yaml}, 422, run.CodeInvalid, "colour", "colour"},
		"unknown dependency": {
			call{post, runs, "name: x\ngroup: /a/b\ntasks:\n  a: {steps: [{run: x}], depends: [b]}", yaml},
			422, run.CodeInvalid, "b", "tasks.a.depends[0].task",
		},
		"cycle": {
			call{post, runs, "name: x\ngroup: /a/b\ntasks:\n  a: {steps: [{run: x}], depends: [b]}\n  b: {steps: [{run: x}], depends: [a]}", yaml},
			422, run.CodeInvalid, "", "",
		},
		"no steps":      {call{post, runs, "name: x\ngroup: /a/b\ntasks: {a: {steps: []}}", yaml}, 422, run.CodeInvalid, "", "tasks.a.steps"},
		"bad duration":  {call{post, runs, "name: x\ngroup: /a/b\ntimeout: soon\ntasks: {a: {steps: [{run: x}]}}", yaml}, 422, run.CodeInvalid, "soon", "timeout"},
		"not supported": {call{post, runs, "name: x\ngroup: /a/b\nenvironment: {A: '{{ output \"a\" \"k\" }}'}\ntasks: {a: {steps: [{run: x}]}}", yaml}, 422, run.CodeNotSupported, "", "environment.A"},
		"9 MiB":         {call{post, runs, strings.Repeat(" ", 9<<20), nil}, 413, run.CodeTooLarge, "8388608", ""},
		"packed 9 MiB":  {call{post, runs, packed(t, strings.Repeat(" ", 9<<20)), map[string]string{"Content-Encoding": "gzip"}}, 413, run.CodeTooLarge, "", ""},
		"aliases":       {call{post, aRun + "/restart", "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]", yaml}, 413, run.CodeTooLarge, "aliases", ""},
		"nested":        {call{post, aRun + "/restart", strings.Repeat("[", 1000) + strings.Repeat("]", 1000), yaml}, 413, run.CodeTooLarge, "deeper", ""},
		"badly packed":  {call{post, runs, "x", map[string]string{"Content-Encoding": "gzip"}}, 400, run.CodeUnreadable, "", ""},
		"other packing": {call{post, runs, "x", map[string]string{"Content-Encoding": "br"}}, 415, run.CodeUnsupportedMedia, "br", ""},
		"form":          {call{post, runs, "a=b", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, 415, run.CodeUnsupportedMedia, "application/json", ""},
		"text":          {call{post, runs, goodSpec, map[string]string{"Content-Type": "text/plain"}}, 415, run.CodeUnsupportedMedia, "text/plain", ""},
		"no type":       {call{post, runs, goodSpec, map[string]string{"Content-Type": ""}}, 415, run.CodeUnsupportedMedia, "", ""},
		"other charset": {call{post, runs, goodSpec, map[string]string{"Content-Type": "application/json; charset=latin1"}}, 415, run.CodeUnsupportedMedia, "", ""},

		"unknown run":          {call{path: aRun}, 404, run.CodeNotFound, runID, ""},
		"unknown run to start": {call{post, aRun + "/start", "", nil}, 404, run.CodeNotFound, "", ""},
		"wrong phase":          {call{post, aRun + "/stop", "{}", nil}, 409, run.CodeWrongPhase, "finished", ""},
		"stop as text":         {call{post, aRun + "/stop", "", map[string]string{"Content-Type": "text/plain"}}, 415, run.CodeUnsupportedMedia, "", ""},
		"stop with a key":      {call{post, aRun + "/stop", `{"forced": true}`, nil}, 422, run.CodeInvalid, "forced", ""},
		"stop with rubbish":    {call{post, aRun + "/stop", `{`, nil}, 400, run.CodeUnreadable, "", ""},
		"two bodies":           {call{post, aRun + "/stop", `{}{}`, nil}, 400, run.CodeUnreadable, "", ""},
		"not waiting":          {call{post, aRun + "/tasks/a/approve", "", nil}, 409, run.CodeNotWaitingApproval, "queued", ""},
		"no annotations":       {call{put, aRun + "/annotations", "", nil}, 422, run.CodeInvalid, "", ""},
		"annotation number":    {call{put, aRun + "/annotations", `{"a": 1}`, nil}, 422, run.CodeInvalid, "number", ""},
		"annotation list":      {call{put, aRun + "/annotations", `- a`, yaml}, 422, run.CodeInvalid, "", ""},
		"annotation YAML":      {call{put, aRun + "/annotations", `{`, yaml}, 400, run.CodeUnreadable, "", ""},
		"annotation refused":   {call{put, aRun + "/tasks/a/annotations", `{"k": "v"}`, nil}, 422, run.CodeInvalid, "", "k"},
		"no such path":         {call{path: "/api/v1/nothing"}, 404, run.CodeNotFound, "path", ""},
		"no such method":       {call{http.MethodPatch, aRun, "", nil}, 405, "method_not_allowed", "", ""},

		"unknown parameter":  {call{path: runs + "?colour=red"}, 400, run.CodeInvalid, "colour", "colour"},
		"unknown phase":      {call{path: runs + "?phase=queued&phase=done"}, 400, run.CodeInvalid, "setup_error", "phase"},
		"unknown result":     {call{path: runs + "?result="}, 400, run.CodeInvalid, "success", "result"},
		"limit 0":            {call{path: runs + "?limit=0"}, 400, run.CodeInvalid, "1 to 100", "limit"},
		"limit 101":          {call{path: runs + "?limit=101"}, 400, run.CodeInvalid, "1 to 100", "limit"},
		"limit x":            {call{path: runs + "?limit=x"}, 400, run.CodeInvalid, "1 to 100", "limit"},
		"limit twice":        {call{path: runs + "?limit=1&limit=2"}, 400, run.CodeInvalid, "once", "limit"},
		"limit far too much": {call{path: runs + "?limit=99999999999999999999"}, 400, run.CodeInvalid, "", "limit"},
		"order":              {call{path: runs + "?order=up"}, 400, run.CodeInvalid, "desc, asc", "order"},
		"created_after":      {call{path: runs + "?created_after=yesterday"}, 400, run.CodeInvalid, "2006", "created_after"},
		"annotation":         {call{path: runs + "?annotation=commit"}, 400, run.CodeInvalid, "key=value", "annotation"},
		"input":              {call{path: runs + "?input=target"}, 400, run.CodeInvalid, `input must be name=value, not "target"`, "input"},
		"input name":         {call{path: runs + "?input==prod"}, 400, run.CodeInvalid, `not "=prod"`, "input"},
		"input value":        {call{path: runs + "?input=a=" + strings.Repeat("x", 1025)}, 400, run.CodeInvalid, "input a has 1025 bytes; runs are found by values of at most 1024", "input"},
		"warnings":           {call{path: runs + "?warnings=perhaps"}, 400, run.CodeInvalid, "", "warnings"},
		"group":              {call{path: runs + "?group=project"}, 400, run.CodeInvalid, "absolute", "group"},
		"empty cursor":       {call{path: runs + "?cursor="}, 400, run.CodeInvalid, "cursor", "cursor"},
		"query escape":       {call{path: runs + "?group=%zz"}, 400, run.CodeInvalid, "", ""},

		"log of unknown task": {call{path: aRun + "/tasks/b/logs"}, 404, run.CodeNotFound, "no task b", ""},
		"step x":              {call{path: logs + "?step=x"}, 400, run.CodeInvalid, `not "x"`, "step"},
		"step -1":             {call{path: logs + "?step=-1"}, 400, run.CodeInvalid, "setup", "step"},
		"step 1.5":            {call{path: logs + "?step=1.5"}, 400, run.CodeInvalid, "", "step"},
		"step beyond":         {call{path: logs + "?step=7"}, 404, run.CodeNotFound, "step 7", ""},
		"negative offset":     {call{path: logs + "?offset=-1"}, 400, run.CodeInvalid, "at least 0", "offset"},
		"attempt 0":           {call{path: logs + "?attempt=0"}, 400, run.CodeInvalid, "at least 1", "attempt"},
		"follow perhaps":      {call{path: logs + "?follow=perhaps"}, 400, run.CodeInvalid, "true or false", "follow"},
		"last log event":      {call{path: logs, header: map[string]string{"Last-Event-ID": "x"}}, 400, run.CodeInvalid, "Last-Event-ID", ""},
		"after -1":            {call{path: "/api/v1/events?after=-1"}, 400, run.CodeInvalid, "at least 0", "after"},
		"last event":          {call{path: "/api/v1/events", header: map[string]string{"Last-Event-ID": "-5"}}, 400, run.CodeInvalid, "Last-Event-ID", ""},
		"events of no run":    {call{path: "/api/v1/events?run=" + runID}, 404, run.CodeNotFound, runID, ""},
		"events of a group":   {call{path: "/api/v1/events?group=x"}, 400, run.CodeInvalid, "absolute", "group"},
		"unknown executor":    {call{path: "/api/v1/executors/x"}, 404, run.CodeNotFound, "x", ""},
		"unknown pool":        {call{path: "/api/v1/pools/x"}, 404, run.CodeNotFound, "x", ""},
	}
	base := serve(t, gateway.Deps{Runs: strictService(t)}, gateway.Options{})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, base)
		})
	}
}

// The words of encoding/json are not those of the API.
func TestServer_faults_of_bodies(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: strictService(t), Schedules: &runtest.Schedules{}}, gateway.Options{})
	yaml := map[string]string{"Content-Type": "application/yaml"}
	for name, tc := range map[string]struct {
		body   string
		header map[string]string
		status int
		code   run.Code
		want   []api.Fault
	}{
		"cut": {"{\n\"driver\": ", nil, 400, run.CodeUnreadable, []api.Fault{{Line: 2, Code: "unreadable", Detail: "it ends too early"}}},
		"a comma too many": {"{\n\"driver\": \"a\",\n}", nil, 400, run.CodeUnreadable, []api.Fault{
			{Line: 3, Code: "unreadable", Detail: "the last item of a map is followed by a comma"},
		}},
		"a line break in a text": {"{\"driver\": \"a\n\"}", nil, 400, run.CodeUnreadable, []api.Fault{
			{Line: 1, Code: "unreadable", Detail: `a text has a line break or another control character: write \n for a line break`},
		}},
		"wrong type": {`{"driver": "a", "flavor": {"weight": "b"}}`, nil, 422, run.CodeInvalid, []api.Fault{
			{Path: "flavor.weight", Code: "wrong_type", Detail: "a string where a number is expected"},
		}},
		"unknown fields": {"driwer: a\nkubernetes: {tolerations: [{efect: b}]}", yaml, 422, run.CodeInvalid, []api.Fault{
			{Path: "driwer", Code: "unknown_field", Detail: `there is no field "driwer" here; did you mean "driver"?`},
			{Path: "kubernetes.tolerations[0].efect", Code: "unknown_field", Detail: `there is no field "efect" here; did you mean "effect"?`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := call{http.MethodPut, "/api/v1/pools/x", tc.body, tc.header}.do(t, base).problem(t, tc.status, tc.code)
			require.Equal(t, tc.want, p.Errors)
		})
	}
	p := call{http.MethodPost, "/api/v1/schedules/x/backfill", `{"from": "yesterday"}`, nil}.do(t, base).problem(t, 422, run.CodeInvalid)
	require.Equal(t, "a time such as 2026-01-31T12:00:00Z is expected", p.Errors[0].Detail)
}

func TestServer_faults_have_lines(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: strictService(t)}, gateway.Options{})
	body := "name: x\ngroup: /a/b\ntasks:\n  a:\n    steps: [{run: x}]\n    colour: red\n  b:\n    steps: []\n"
	p := call{http.MethodPost, "/api/v1/runs", body, map[string]string{"Content-Type": "application/yaml"}}.
		do(t, base).problem(t, 422, run.CodeInvalid)
	require.Len(t, p.Errors, 2)
	require.Equal(t, "tasks.a.colour", p.Errors[0].Path)
	require.Equal(t, 6, p.Errors[0].Line)
	require.Equal(t, "tasks.b.steps", p.Errors[1].Path)
	require.Equal(t, 8, p.Errors[1].Line)
}

// Refuses a body without Content-Length as well.
func TestServer_too_large_without_length(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: strictService(t)}, gateway.Options{MaxBody: 1000})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v1/runs", nil)
	require.NoError(t, err)
	r.Body = readCloser{strings.NewReader(strings.Repeat(" ", 2000))}
	r.ContentLength = -1
	r.Header.Set("Content-Type", "application/json")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
}

// Stops working on a request that has timed out.
func TestServer_reads_no_specification_after_the_timeout(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: strictService(t)}, gateway.Options{RequestTimeout: time.Nanosecond})
	call{http.MethodPost, "/api/v1/runs", goodSpec, nil}.do(t, base).problem(t, http.StatusGatewayTimeout, run.CodeTimeout)
}
