package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// test makes the call and checks the error.
func (b badInput) test(t *testing.T, base string) {
	t.Helper()
	p := b.call.do(t, base).problem(t, b.status, b.code)
	details, paths := []string{p.Detail}, []string{}
	for _, f := range p.Errors {
		require.NotEmpty(t, f.Code)
		details, paths = append(details, f.Detail), append(paths, f.Path)
	}
	require.Contains(t, strings.Join(details, "\n"), b.detail)
	if b.path != "" {
		require.Contains(t, paths, b.path)
	}
}

// The gateway refuses all of these: the service answers not_supported to any call
// that reaches it.
func TestServer_bad_input_of_change_groups(t *testing.T) {
	t.Parallel()
	const runs, aRun, groups = "/api/v1/runs", "/api/v1/runs/" + runID, "/api/v1/changegroups"
	post, put, del := http.MethodPost, http.MethodPut, http.MethodDelete
	names := func(parameter string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%s=g%d", parameter, i))
		}
		return strings.Join(all, "&")
	}
	const stale = `{"changegroup_token": "rubbish"}`
	key := func(value string) map[string]string { return map[string]string{"Idempotency-Key": value} }
	withToken := strings.Replace(goodSpec, "{", `{"changegroup_token": "rubbish", `, 1)
	cases := map[string]badInput{
		"token of create":      {call{post, runs, withToken, nil}, 400, run.CodeUnreadable, "changegroup_token", ""},
		"token of start":       {call{post, aRun + "/start", stale, nil}, 400, run.CodeUnreadable, "changegroup_token", ""},
		"token of cancel":      {call{post, aRun + "/cancel", stale, nil}, 400, run.CodeUnreadable, "", ""},
		"token of stop":        {call{post, aRun + "/stop", stale, nil}, 400, run.CodeUnreadable, "", ""},
		"token of approve":     {call{post, aRun + "/tasks/a/approve", stale, nil}, 400, run.CodeUnreadable, "", ""},
		"token of restart":     {call{post, aRun + "/restart", `{"from": "start", "changegroup_token": "e30"}`, nil}, 400, run.CodeUnreadable, "", ""},
		"token of annotations": {call{put, aRun + "/annotations?changegroup_token=rubbish", `{}`, nil}, 400, run.CodeUnreadable, "", ""},
		"token of a task":      {call{put, aRun + "/tasks/a/annotations?changegroup_token=rubbish", `{}`, nil}, 400, run.CodeUnreadable, "", ""},
		"token of a group":     {call{put, groups + "/g", `{"max_running": 1, "changegroup_token": "rubbish"}`, nil}, 400, run.CodeUnreadable, "", ""},
		"token in the query":   {call{post, aRun + "/stop?changegroup_token=x", "", nil}, 422, run.CodeInvalid, "no parameter", "changegroup_token"},
		"token of two kinds":   {call{post, aRun + "/stop", `{"changegroup_token": 7}`, nil}, 422, run.CodeInvalid, "number", "changegroup_token"},
		"token twice":          {call{put, aRun + "/annotations?changegroup_token=x&changegroup_token=x", `{}`, nil}, 422, run.CodeInvalid, "once", "changegroup_token"},

		"key that is empty":    {call{post, runs, goodSpec, key(" ")}, 400, run.CodeUnreadable, "Idempotency-Key", ""},
		"key that is too long": {call{post, runs, goodSpec, key(strings.Repeat("k", 256))}, 400, run.CodeUnreadable, "255", ""},
		"key that is no ASCII": {call{post, runs, goodSpec, key("schlüssel")}, 400, run.CodeUnreadable, "ASCII", ""},
		"key of a restart":     {call{post, aRun + "/restart", `{"from": "start"}`, key("a\tb")}, 400, run.CodeUnreadable, "", ""},

		"restart without a body": {call{post, aRun + "/restart", "", map[string]string{"Content-Type": ""}}, 415, run.CodeUnsupportedMedia, "", ""},
		"restart with a key":     {call{post, aRun + "/restart", `{"form": "start"}`, nil}, 422, run.CodeInvalid, "form", ""},
		"restart of rubbish":     {call{post, aRun + "/restart", `{`, nil}, 400, run.CodeUnreadable, "", ""},
		"restart a number":       {call{post, aRun + "/restart", `{"environment": {"K": 1}}`, nil}, 422, run.CodeInvalid, "number", "environment"},

		"token_for 65":    {call{path: runs + "?" + names("token_for", 65)}, 400, run.CodeInvalid, "64", "token_for"},
		"token_for none":  {call{path: runs + "?token_for="}, 400, run.CodeInvalid, "", "token_for"},
		"token_for a run": {call{path: aRun + "?" + names("token_for", 65)}, 400, run.CodeInvalid, "64", "token_for"},
		"token_for bad":   {call{path: aRun + "?token_for=%00"}, 400, run.CodeInvalid, "shown", "token_for"},
		"token_for long":  {call{path: aRun + "?token_for=" + strings.Repeat("g", 101)}, 400, run.CodeInvalid, "100", "token_for"},
		"changegroup":     {call{path: runs + "?changegroup=%FF"}, 400, run.CodeInvalid, "shown", "changegroup"},

		"delete all":            {call{del, runs, "", nil}, 400, run.CodeInvalid, "keep", "created_before"},
		"delete a group":        {call{del, runs + "?group=/a/b", "", nil}, 400, run.CodeInvalid, "keep", "created_before"},
		"delete to keep none":   {call{del, runs + "?keep=0", "", nil}, 400, run.CodeInvalid, "at least 1", "keep"},
		"delete to keep few":    {call{del, runs + "?keep=few", "", nil}, 400, run.CodeInvalid, "at least 1", "keep"},
		"delete of yesterday":   {call{del, runs + "?created_before=yesterday", "", nil}, 400, run.CodeInvalid, "2006", "created_before"},
		"delete of a path":      {call{del, runs + "?keep=1&group=a", "", nil}, 400, run.CodeInvalid, "absolute", "group"},
		"delete two groups":     {call{del, runs + "?keep=1&group=/a/b&group=/c/d", "", nil}, 400, run.CodeInvalid, "once", "group"},
		"delete perhaps":        {call{del, runs + "?keep=1&dry_run=perhaps", "", nil}, 400, run.CodeInvalid, "true or false", "dry_run"},
		"delete by phase":       {call{del, runs + "?keep=1&phase=finished", "", nil}, 400, run.CodeInvalid, "no parameter", "phase"},
		"delete with a body":    {call{del, runs + "?keep=1", `{"keep": 2}`, nil}, 400, run.CodeInvalid, "keep", ""},
		"delete as a form":      {call{del, aRun, "a=b", map[string]string{"Content-Type": "text/plain"}}, 415, run.CodeUnsupportedMedia, "", ""},
		"delete a run by query": {call{del, aRun + "?force=true", "", nil}, 400, run.CodeInvalid, "no parameter", "force"},

		"groups by name and page":  {call{path: groups + "?name=a&limit=5"}, 400, run.CodeInvalid, "leave out", ""},
		"groups by name and after": {call{path: groups + "?name=a&after=b"}, 400, run.CodeInvalid, "leave out", ""},
		"65 groups":                {call{path: groups + "?" + names("name", 65)}, 400, run.CodeInvalid, "64", "name"},
		"groups limit":             {call{path: groups + "?limit=101"}, 400, run.CodeInvalid, "1 to 100", "limit"},
		"a group of a bad name":    {call{path: groups + "/a%00"}, 400, run.CodeInvalid, "shown", "name"},
		"a group by parameter":     {call{path: groups + "/a?limit=1"}, 400, run.CodeInvalid, "none", "limit"},
		"set nothing":              {call{put, groups + "/g", `{}`, nil}, 422, run.CodeInvalid, "missing", "max_running"},
		"set no body":              {call{put, groups + "/g", ``, nil}, 422, run.CodeInvalid, "missing", "max_running"},
		"set below 0":              {call{put, groups + "/g", `{"max_running": -1}`, nil}, 422, run.CodeInvalid, "-1", "max_running"},
		"set too high":             {call{put, groups + "/g", `{"max_running": 1000001}`, nil}, 422, run.CodeInvalid, "1000000", "max_running"},
		"set half a run":           {call{put, groups + "/g", `{"max_running": 0.5}`, nil}, 422, run.CodeInvalid, "number", "max_running"},
		"set another policy":       {call{put, groups + "/g", "max_running: 1\non_busy: wait", map[string]string{"Content-Type": "application/yaml"}}, 422, run.CodeInvalid, "cancel_queued", "on_busy"},
		"set another name":         {call{put, groups + "/g", `{"max_running": 1, "name": "h"}`, nil}, 422, run.CodeInvalid, "name", ""},
		"set a bad name":           {call{put, groups + "/" + strings.Repeat("g", 101), `{"max_running": 1}`, nil}, 422, run.CodeInvalid, "100", "name"},
		"set a dot":                {call{put, groups + "/..", `{"max_running": 1}`, nil}, 422, run.CodeInvalid, "named", "name"},
		"set no name":              {call{put, groups + "/", `{"max_running": 1}`, nil}, 404, run.CodeNotFound, "path", ""},

		"paths and a page": {call{path: "/api/v1/groups?path=/a&limit=1"}, 400, run.CodeInvalid, "leave out", ""},
		"paths and under":  {call{path: "/api/v1/groups?path=/a&under=/a"}, 400, run.CodeInvalid, "leave out", ""},
		"a relative path":  {call{path: "/api/v1/groups?path=/a&path=b"}, 400, run.CodeInvalid, "absolute", "path"},
		"a relative under": {call{path: "/api/v1/groups?under=b"}, 400, run.CodeInvalid, "absolute", "under"},
		"101 paths":        {call{path: "/api/v1/groups?" + strings.ReplaceAll(names("path", 101), "=g", "=/g")}, 400, run.CodeInvalid, "100", "path"},
		"groups of limit":  {call{path: "/api/v1/groups?limit=0"}, 400, run.CodeInvalid, "1 to 100", "limit"},
	}
	base := serve(t, gateway.Deps{Runs: &runtest.Service{}}, gateway.Options{})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, base)
		})
	}
}

// Two headers of one name are refused: it is unclear which of them is the key.
func TestServer_two_idempotency_keys(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Runs: &runtest.Service{}}, gateway.Options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v1/runs", strings.NewReader(goodSpec))
	require.NoError(t, err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"a", "b"}}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusUnprocessableEntity, response.StatusCode)
}
