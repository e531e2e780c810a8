package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestBadInput sends invalid requests to a real gateway during a run. The
// gateway answers each with a precise problem document, and neither the run nor
// the process is affected.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	other := dev.Submit("name: other\ngroup: /test/bad\ntasks: {t: {steps: [{run: 'sleep 2; echo fine'}]}}\n").ID
	manual := dev.Submit("name: m\ngroup: /test/bad\nadmission: manual\ntasks: {t: {steps: [{run: 'true'}]}}\n").ID
	const yaml = "application/yaml"
	spec := func(tasks string) string { return "name: n\ngroup: /a/b\ntasks:\n" + tasks }
	many := func(n int) string {
		numbers := make([]string, n)
		for i := range numbers {
			numbers[i] = fmt.Sprintf("%q", fmt.Sprint(i))
		}
		return spec("  t: {matrix: {N: [" + strings.Join(numbers, ",") + "]}, steps: [{run: 'true'}]}\n")
	}
	ok := spec("  t: {steps: [{run: 'true'}]}\n")
	tests := map[string]struct {
		method, path, media, body string
		token                     string // "": a valid token
		status                    int
		code                      string
		fault                     string // path of a fault that the problem must name
	}{
		"unreadable YAML":           {"POST", "/runs", yaml, "name: [", "", 400, "unreadable", ""},
		"unknown field":             {"POST", "/runs", yaml, ok + "tassks: {}\n", "", 422, "invalid", "tassks"},
		"unknown dependency":        {"POST", "/runs", yaml, spec("  t: {depends: [u], steps: [{run: 'true'}]}\n"), "", 422, "invalid", "tasks.t.depends[0]"},
		"a cycle":                   {"POST", "/runs", yaml, spec("  t: {depends: [u], steps: [{run: 'true'}]}\n  u: {depends: [t], steps: [{run: 'true'}]}\n"), "", 422, "invalid", "tasks"},
		"no steps":                  {"POST", "/runs", yaml, spec("  t: {steps: []}\n"), "", 422, "invalid", "tasks.t.steps"},
		"a bad duration":            {"POST", "/runs", yaml, spec("  t: {timeout: soon, steps: [{run: 'true'}]}\n"), "", 422, "invalid", "tasks.t.timeout"},
		"an unknown pool":           {"POST", "/runs", yaml, spec("  t: {pool: gpu, steps: [{run: 'true'}]}\n"), "", 422, "invalid", "tasks.t.pool"},
		"10,001 tasks":              {"POST", "/runs", yaml, many(10_001), "", 422, "invalid", "tasks"},
		"9 MiB":                     {"POST", "/runs", yaml, ok + "#" + strings.Repeat("x", 9<<20), "", 413, "too_large", ""},
		"a wrong content type":      {"POST", "/runs", "text/plain", ok, "", 415, "unsupported_media_type", ""},
		"a group of one element":    {"POST", "/runs", yaml, strings.Replace(ok, "/a/b", "/a", 1), "", 422, "invalid", "group"},
		"archives":                  {"POST", "/runs", yaml, spec("  t: {steps: [{save_workspace: {paths: ['**'], to: ../up}}]}\n"), "", 422, "invalid", "tasks.t.steps[0].save_workspace.to"},
		"foreach":                   {"POST", "/runs", yaml, spec("  t: {foreach: '[1]', steps: [{run: 'true'}]}\n"), "", 422, "invalid", "tasks.t.foreach"},
		"an unknown run":            {"GET", "/runs/01jd0000000000000000000000", "", "", "", 404, "not_found", ""},
		"the wrong phase":           {"POST", "/runs/" + manual + "/stop", "application/json", "{}", "", 409, "wrong_phase", ""},
		"not waiting for approval":  {"POST", "/runs/" + manual + "/tasks/t/approve", "application/json", "{}", "", 409, "not_waiting_approval", ""},
		"a bad step number":         {"GET", "/runs/" + other + "/tasks/t/logs?step=first", "", "", "", 400, "invalid", ""},
		"a step that is not there":  {"GET", "/runs/" + other + "/tasks/t/logs?step=7", "", "", "", 404, "not_found", ""},
		"a negative offset":         {"GET", "/runs/" + other + "/tasks/t/logs?offset=-1", "", "", "", 400, "invalid", ""},
		"an unknown task":           {"GET", "/runs/" + other + "/tasks/u/logs", "", "", "", 404, "not_found", ""},
		"a bad cursor":              {"GET", "/runs?cursor=nonsense", "", "", "", 400, "invalid", ""},
		"a limit over the greatest": {"GET", "/runs?limit=101", "", "", "", 400, "invalid", ""},
		"a wrong token":             {"GET", "/runs", "", "", "nonsense", 401, "unauthenticated", ""},
		"no token":                  {"POST", "/runs", yaml, ok, "-", 401, "unauthenticated", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			token := dev.Token
			switch tt.token {
			case "":
			case "-":
				token = ""
			default:
				token = tt.token
			}
			status, body, err := harness.NewClient(t, dev.Server, token).Do(t.Context(), tt.method, "/api/v1"+tt.path, tt.media, tt.body)
			require.NoError(t, err)
			require.Equal(t, tt.status, status, body)
			var problem struct {
				Title  string `json:"title"`
				Status int    `json:"status"`
				Code   string `json:"code"`
				Detail string `json:"detail"`
				Errors []struct {
					Path string `json:"path"`
				} `json:"errors"`
			}
			require.NoError(t, json.Unmarshal([]byte(body), &problem), body)
			require.Equal(t, tt.status, problem.Status)
			require.Equal(t, tt.code, problem.Code, body)
			require.NotEmpty(t, problem.Detail)
			if tt.fault != "" {
				require.NotEmpty(t, problem.Errors, body)
				require.True(t, strings.HasPrefix(problem.Errors[0].Path, tt.fault), body)
			}
		})
	}
	require.True(t, dev.Running())
	r := dev.AwaitPhase(other, "finished")
	require.Equal(t, "success", string(r.Result))
	status, _, err := dev.Do(t.Context(), http.MethodGet, "/readyz", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}
