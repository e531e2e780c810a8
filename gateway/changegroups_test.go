package gateway_test

import (
	"context"
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

const groupsPath = "/api/v1/changegroups"

func TestServer_ListChangeGroups(t *testing.T) {
	t.Parallel()
	token := run.Token{"a": 3, "b": 0}
	queries := make(chan run.ChangeGroupQuery, 1)
	service := &runtest.Service{ChangeGroupsFunc: func(_ context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
		queries <- q
		return []run.ChangeGroup{
			{Name: "a", MaxRunning: 1, OnBusy: run.OnBusyReject, Running: []run.ID{"r1"}, Queued: []run.ID{"r2", "r3"}, Held: 4, Waiting: 1202, Version: 3},
			{Name: "b", OnBusy: run.OnBusyQueue},
		}, token, nil
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for query, want := range map[string]struct {
		query run.ChangeGroupQuery
		next  string
	}{
		"":                           {run.ChangeGroupQuery{}, ""},
		"?name=a&name=b":             {run.ChangeGroupQuery{Names: []string{"a", "b"}}, ""},
		"?name=deploy/eu%20%26%20us": {run.ChangeGroupQuery{Names: []string{"deploy/eu & us"}}, ""},
		"?limit=2":                   {run.ChangeGroupQuery{Limit: 2}, "b"},
		"?limit=3&after=0":           {run.ChangeGroupQuery{Limit: 3, After: "0"}, ""},
	} {
		got := call{path: groupsPath + query}.do(t, base)
		require.JSONEq(t, `{"changegroups": [
			{"name": "a", "max_running": 1, "on_busy": "reject", "running": ["r1"], "queued": ["r2", "r3"], "held": 4, "waiting": 1202},
			{"name": "b", "max_running": 0, "on_busy": "queue", "running": [], "queued": [], "held": 0, "waiting": 0}],
			"changegroup_token": "`+token.String()+`"`+nextAfter(want.next)+`}`, got.body)
		conforms(t, "ChangeGroupPage", got.body)
		require.Empty(t, cmp.Diff(want.query, <-queries))
	}
}

func nextAfter(name string) string {
	if name == "" {
		return ""
	}
	return `, "next_after": "` + name + `"`
}

// Any printable text is a name, including names that must be escaped in a URL.
func TestServer_changegroup_names(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	service := &runtest.Service{
		ChangeGroupsFunc: func(_ context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
			seen <- q.Names[0]
			return []run.ChangeGroup{{Name: q.Names[0], OnBusy: run.OnBusyQueue, Version: 1}}, run.Token{q.Names[0]: 1}, nil
		},
		PutChangeGroupFunc: func(_ context.Context, g run.ChangeGroup, _ run.Token) (run.ChangeGroup, run.Token, error) {
			seen <- g.Name
			return g, run.Token{g.Name: 2}, nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	client, err := api.NewClient(base)
	require.NoError(t, err)
	for _, name := range []string{"deploys", "deploy/eu", "/", "a//b/", "100%", "%2F", "a b", "a+b", "a,b;c=d", "ü", "?x=1#y", "...", `"`, "a\\b", ":name", "*"} {
		got := call{path: groupsPath + "/" + url.PathEscape(name)}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
		require.Equal(t, name, <-seen)
		conforms(t, "ChangeGroup", got.body)
		var g api.ChangeGroup
		got.read(t, &g)
		require.Equal(t, name, g.Name)
		require.Equal(t, run.Token{name: 1}.String(), g.ChangegroupToken)
		got = call{http.MethodPut, groupsPath + "/" + url.PathEscape(name), `{"max_running": 1}`, nil}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
		require.Equal(t, name, <-seen)

		response, err := client.GetChangeGroup(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, name)
		require.Equal(t, name, <-seen, "as the generated client escapes it")
	}
}

func TestServer_PutChangeGroup(t *testing.T) {
	t.Parallel()
	type put struct {
		Group run.ChangeGroup
		Token run.Token
	}
	puts := make(chan put, 1)
	service := &runtest.Service{PutChangeGroupFunc: func(_ context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error) {
		puts <- put{g, token}
		if token["g"] == 1 {
			return g, nil, run.Errorf(run.CodeChangeGroupConflict, "change group g has changed")
		}
		return g, run.Token{"g": 9}, nil
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for body, want := range map[string]put{
		"max_running: 0":                        {Group: run.ChangeGroup{Name: "g", OnBusy: run.OnBusyQueue}},
		"{max_running: 3, on_busy: reject}":     {Group: run.ChangeGroup{Name: "g", MaxRunning: 3, OnBusy: run.OnBusyReject}},
		"max_running: 1\nchangegroup_token: ''": {Group: run.ChangeGroup{Name: "g", MaxRunning: 1, OnBusy: run.OnBusyQueue}},
		"max_running: 1\nchangegroup_token: " + run.Token{"g": 2}.String(): {
			Group: run.ChangeGroup{Name: "g", MaxRunning: 1, OnBusy: run.OnBusyQueue}, Token: run.Token{"g": 2},
		},
	} {
		got := call{http.MethodPut, groupsPath + "/g", body, map[string]string{"Content-Type": "application/yaml"}}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Empty(t, cmp.Diff(want, <-puts))
		require.Contains(t, got.body, run.Token{"g": 9}.String())
		conforms(t, "ChangeGroup", got.body)
	}
	stale := call{http.MethodPut, groupsPath + "/g", `{"max_running": 1, "changegroup_token": "` + run.Token{"g": 1}.String() + `"}`, nil}
	stale.do(t, base).problem(t, http.StatusConflict, run.CodeChangeGroupConflict)
}

func TestServer_GetChangeGroup_unknown(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{ChangeGroupsFunc: func(context.Context, run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
		return []run.ChangeGroup{{Name: "g"}}, run.Token{"g": 0}, nil
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	call{path: groupsPath + "/g"}.do(t, base).problem(t, http.StatusNotFound, run.CodeNotFound)
	var page api.ChangeGroupPage
	call{path: groupsPath + "?name=g"}.do(t, base).read(t, &page)
	require.Equal(t, run.Token{"g": 0}.String(), page.ChangegroupToken, "a client needs the token to create the first run of the group")
}

// Every call with an update token passes the token on unchanged.
func TestServer_update_tokens(t *testing.T) {
	t.Parallel()
	token := run.Token{"a/b": 7, "c": 0}
	calls := make(chan run.Token, 1)
	act := func(_ context.Context, id run.ID, token run.Token) (run.Run, error) {
		calls <- token
		return run.Run{ID: id}, nil
	}
	received := make(chan []string, 1)
	service := &runtest.Service{
		StartFunc: act, CancelFunc: act,
		StopFunc: func(ctx context.Context, id run.ID, _ run.StopOptions, token run.Token) (run.Run, error) {
			return act(ctx, id, token)
		},
		ApproveFunc: func(ctx context.Context, id run.ID, _, _ string, token run.Token) (run.Run, error) {
			return act(ctx, id, token)
		},
		AnnotateFunc: func(ctx context.Context, id run.ID, _ string, _ map[string]string, token run.Token) (run.Run, error) {
			return act(ctx, id, token)
		},
		CreateFunc:  func(ctx context.Context, req run.CreateRequest) (run.Run, error) { return act(ctx, runID, req.Token) },
		RestartFunc: func(ctx context.Context, req run.RestartRequest) (run.Run, error) { return act(ctx, runID, req.Token) },
		GetFunc: func(_ context.Context, _ run.ID, tokenFor ...string) (run.Run, error) {
			received <- tokenFor
			r := fullRun()
			r.Token = token
			return r, nil
		},
		ListFunc: func(_ context.Context, q run.ListQuery) (run.Page, error) {
			received <- append(q.TokenFor, q.ChangeGroups...)
			return run.Page{Token: token}, nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	const runs, aRun = "/api/v1/runs", "/api/v1/runs/" + runID

	var r api.Run
	got := call{path: aRun + "?token_for=a/b&token_for=c"}.do(t, base)
	got.read(t, &r)
	conforms(t, "Run", got.body)
	require.Equal(t, []string{"a/b", "c"}, <-received)
	var page api.RunPage
	call{path: runs + "?token_for=a%2Fb&token_for=c&changegroup=d"}.do(t, base).read(t, &page)
	require.Equal(t, []string{"a/b", "c", "d"}, <-received)
	require.Equal(t, token.String(), page.ChangegroupToken)
	text := r.ChangegroupToken
	require.Equal(t, token.String(), text)

	body := `{"changegroup_token": "` + text + `"`
	for _, c := range []call{
		{http.MethodPost, runs, body + "," + goodSpec[1:], nil},
		{http.MethodPost, runs, "changegroup_token: " + text + "\nname: n\ngroup: /a/b\ntasks: {a: {steps: [{run: x}]}}", map[string]string{"Content-Type": "application/yaml"}},
		{http.MethodPost, aRun + "/restart", body + `, "from": "failed"}`, nil},
		{http.MethodPost, aRun + "/start", body + "}", nil},
		{http.MethodPost, aRun + "/cancel", body + "}", nil},
		{http.MethodPost, aRun + "/stop", body + "}", nil},
		{http.MethodPost, aRun + "/tasks/a/approve", body + "}", nil},
		{http.MethodPut, aRun + "/annotations?changegroup_token=" + text, `{"changegroup_token": "is an ordinary key"}`, nil},
		{http.MethodPut, aRun + "/tasks/a/annotations?changegroup_token=" + text, `{}`, nil},
	} {
		got := c.do(t, base)
		require.Less(t, got.status, 300, "%s: %s", c.path, got.body)
		require.Equal(t, token, <-calls, c.path)
	}
}

// The entity tag changes with the update token in the answer.
func TestServer_GetRun_etag_of_a_token(t *testing.T) {
	t.Parallel()
	token := run.Token{"g": 1}
	service := &runtest.Service{GetFunc: func(_ context.Context, id run.ID, _ ...string) (run.Run, error) {
		return run.Run{ID: id, Token: token}, nil
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	get := call{path: "/api/v1/runs/" + runID + "?token_for=g"}
	get.header = map[string]string{"If-None-Match": get.do(t, base).header.Get("ETag")}
	require.Equal(t, http.StatusNotModified, get.do(t, base).status)
	token["g"]++
	require.Equal(t, http.StatusOK, get.do(t, base).status)
}

func TestServer_ListGroups(t *testing.T) {
	t.Parallel()
	queries := make(chan run.GroupQuery, 1)
	last := fullRun()
	last.Tasks, last.TaskCounts = nil, map[run.Status]int{run.StatusFailed: 1}
	service := &runtest.Service{GroupsFunc: func(_ context.Context, q run.GroupQuery) (run.GroupPage, error) {
		queries <- q
		return run.GroupPage{Groups: []run.Group{{Path: "/a", Queued: 2, Running: 3, Last: &last}, {Path: "/a/b"}}, After: "/a/b"}, nil
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for query, want := range map[string]run.GroupQuery{
		"":                           {},
		"?path=/a&path=/a/b":         {Paths: []string{"/a", "/a/b"}},
		"?under=/a&after=/a&limit=7": {Under: "/a", After: "/a", Limit: 7},
	} {
		got := call{path: "/api/v1/groups" + query}.do(t, base)
		var page api.GroupPage
		got.read(t, &page)
		require.Empty(t, cmp.Diff(want, <-queries))
		require.Equal(t, "/a/b", page.NextAfter)
		require.Len(t, page.Groups, 2)
		require.Equal(t, runID, page.Groups[0].LastRun.ID)
		require.Nil(t, page.Groups[1].LastRun)
		conforms(t, "GroupPage", got.body)
	}
}

func TestServer_DeleteRuns(t *testing.T) {
	t.Parallel()
	queries := make(chan run.DeleteQuery, 1)
	service := &runtest.Service{
		DeleteRunsFunc: func(_ context.Context, q run.DeleteQuery) (run.Deleted, error) {
			queries <- q
			return run.Deleted{Runs: 1000, More: true}, nil
		},
		DeleteFunc: func(_ context.Context, id run.ID) error {
			if id != runID {
				return notFound(id)
			}
			return nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for query, want := range map[string]run.DeleteQuery{
		"?keep=10":             {Keep: 10},
		"?keep=1&dry_run=true": {Keep: 1, DryRun: true},
		"?created_before=2026-01-01T00:00:00Z&group=/a/b": {Before: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Group: "/a/b"},
	} {
		got := call{http.MethodDelete, "/api/v1/runs" + query, "", map[string]string{"Content-Type": ""}}.do(t, base)
		require.JSONEq(t, `{"runs": 1000, "more": true}`, got.body)
		require.Empty(t, cmp.Diff(want, <-queries))
	}
	got := call{method: http.MethodDelete, path: "/api/v1/runs/" + runID}.do(t, base)
	require.Equal(t, http.StatusNoContent, got.status)
	require.Empty(t, got.body)
	call{method: http.MethodDelete, path: "/api/v1/runs/other"}.do(t, base).problem(t, http.StatusNotFound, run.CodeNotFound)
}
