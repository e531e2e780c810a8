package test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// scenario is what must come of the run whose specification lies beside it.
type scenario struct {
	// Do lists calls, each made once its task has its status (or, without a
	// task, the run its phase), in order.
	Do     []action            `json:"do"`
	Phase  string              `json:"phase"`
	Result string              `json:"result"`
	Tasks  map[string]expected `json:"tasks"`
}

type action struct {
	Task   string `json:"task"`
	Status string `json:"status"`
	Phase  string `json:"phase"`
	// Call is approve, stop, start or cancel; Code the HTTP status it must
	// have, 200 if left out, and Error the code of the problem.
	Call  string `json:"call"`
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// expected is a task's end: a status, or more of it.
type expected struct {
	Status   string   `json:"status"`
	Reason   string   `json:"reason"` // contained in it
	ExitCode *int     `json:"exit_code"`
	TimedOut bool     `json:"timed_out"`
	Attempt  int      `json:"attempt"`
	Log      string   `json:"log"` // the whole of it
	Steps    []string `json:"steps"`
}

// UnmarshalJSON takes a status alone as well.
func (e *expected) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(string(data), `"`) {
		return json.Unmarshal(data, &e.Status)
	}
	type plain expected
	return json.Unmarshal(data, (*plain)(e))
}

// TestScenarios runs every specification of testdata's kind under scenarios/
// through the HTTP API of one drover, all at once.
func TestScenarios(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=16"}, "--executor", "shell")
	files, err := filepath.Glob("scenarios/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	t.Run("all", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
				t.Parallel()
				playScenario(t, harness.NewClient(t, dev.Server, dev.Token), file)
			})
		}
	})
	require.NoError(t, dev.Stop())
}

func playScenario(t *testing.T, client *harness.Client, file string) {
	t.Helper()
	spec, err := os.ReadFile(file)
	require.NoError(t, err)
	data, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".json")
	require.NoError(t, err)
	var s scenario
	require.NoError(t, json.Unmarshal(data, &s))

	id := client.Submit(string(spec)).ID
	for _, a := range s.Do {
		client.Await(id, time.Minute, func(r api.Run) bool {
			return (a.Task == "" || a.Status == "" || string(r.Tasks[a.Task].Status) == a.Status) && (a.Phase == "" || string(r.Phase) == a.Phase)
		})
		path := "/api/v1/runs/" + id + "/" + a.Call
		if a.Call == "approve" {
			path = "/api/v1/runs/" + id + "/tasks/" + url.PathEscape(a.Task) + "/approve"
		}
		code, body, err := client.Do(t.Context(), http.MethodPost, path, "application/json", "{}")
		require.NoError(t, err)
		if a.Code == 0 {
			a.Code = http.StatusOK
		}
		require.Equal(t, a.Code, code, "%s: %s", a.Call, body)
		if a.Error != "" {
			require.Contains(t, body, `"code":"`+a.Error+`"`)
		}
	}
	r := client.AwaitPhase(id, api.Phase(s.Phase), 2*time.Minute)
	require.Equal(t, s.Result, string(r.Result), harness.Describe(r))
	require.Len(t, r.Tasks, len(s.Tasks), harness.Describe(r))
	for name, want := range s.Tasks {
		got, ok := r.Tasks[name]
		require.True(t, ok, "task %s is missing: %s", name, harness.Describe(r))
		require.Equal(t, want.Status, string(got.Status), "task %s: %s", name, harness.Describe(r))
		require.Contains(t, got.Reason, want.Reason, name)
		require.Equal(t, want.TimedOut, got.TimedOut, name)
		if want.ExitCode != nil {
			require.Equal(t, want.ExitCode, got.ExitCode, name)
		}
		if want.Attempt != 0 {
			require.Equal(t, want.Attempt, got.Attempt, name)
		}
		if want.Log != "" {
			require.Equal(t, want.Log, client.Logs(id, name), name)
		}
		for i, status := range want.Steps {
			require.Equal(t, status, string(got.Steps[i].Status), "step %d of %s", i, name)
		}
		if got.Status == "success" || got.Status == "failed" || got.Status == "stopped" {
			require.False(t, got.EndedAt.IsZero(), "task %s has no end time", name)
		}
	}
}
