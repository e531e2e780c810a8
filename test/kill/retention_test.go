package kill

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestRetention_kill kills all of Drover while it deletes expired runs. In the
// end exactly the objects that the preview listed are deleted.
func TestRetention_kill(t *testing.T) {
	t.Parallel()
	temporal := harness.FreeAddress(t)
	dev := harness.StartDev(t, []string{
		"DROVER_CHAOS_KILL=deleting", "DROVER_CHAOS_ONCE=" + filepath.Join(t.TempDir(), "killed"),
		"DROVER_RETENTION__RUNS__KEEP=2", "DROVER_RETENTION__LOGS__MAX_AGE=1s",
	}, "--executor", "shell", "--temporal", temporal)
	status := func() (v api.Retention) {
		code, body, err := dev.Do(t.Context(), http.MethodGet, "/api/v1/retention", "", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code, body)
		require.NoError(t, json.Unmarshal([]byte(body), &v))
		return v
	}
	awaitIdle := func() {
		t.Helper()
		testenv.Await(t, func() (bool, string) {
			v := status()
			return !v.NextLookAt.IsZero(), "drover is removing " + string(v.Removing)
		})
	}
	awaitIdle() // after the first round, which removes nothing
	var ids []string
	for i := range 5 {
		ids = append(ids, dev.Submit(fmt.Sprintf(
			"name: r%d\ngroup: /test/retention\ntasks: {t: {steps: [{run: 'echo here; echo x > f'}, {save_artifacts: {name: report, paths: [f], retention: 1s}}]}}\n", i)).ID)
	}
	for _, id := range ids {
		require.Equal(t, api.ResultSuccess, dev.AwaitPhase(id, api.PhaseFinished).Result)
	}
	// Logs and artifacts are due a second after the end of their run.
	var due map[api.RetentionKind]api.RetentionDue
	dev.AwaitPath("/api/v1/retention/preview?limit=100", func(body string) bool {
		var preview api.RetentionPreview
		require.NoError(t, json.Unmarshal([]byte(body), &preview))
		due = map[api.RetentionKind]api.RetentionDue{}
		for _, d := range preview.Due {
			due[d.Kind] = d
		}
		return due["logs"].Count == 5 && due["artifacts"].Count == 5
	})
	require.Equal(t, int64(3), due["runs"].Count)
	var dueRuns []string
	for _, x := range due["runs"].First {
		dueRuns = append(dueRuns, x.Run)
	}
	require.Equal(t, ids[:3], dueRuns)
	before := status()
	require.True(t, before.Running)
	require.Equal(t, 2, before.Policy.RunsKeep)

	c, err := client.Dial(client.Options{HostPort: temporal, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SignalWorkflow(t.Context(), contract.RetentionWorkflowID, "", contract.SignalForceContinue, nil))
	testenv.Await(t, func() (bool, string) { return !dev.Running(), "drover was not killed" })
	dev.Restart()
	require.NotEqual(t, before.Removed, status().Removed, "the logs and artifacts were removed before the kill")
	for i, id := range ids {
		if i >= 3 {
			dev.Get(id)
			continue
		}
		testenv.Await(t, func() (bool, string) {
			code, body, err := dev.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id, "", "")
			require.NoError(t, err)
			return code == http.StatusNotFound, body
		})
	}
	for _, id := range ids[3:] {
		for _, path := range []string{"/tasks/t/logs", "/artifacts/t/report", "/artifacts/t/report/entries"} {
			code, body, err := dev.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id+path, "", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusGone, code, body)
		}
	}
	awaitIdle()
	for _, sum := range status().Removed {
		if sum.Kind == api.RetentionKindLogs || sum.Kind == api.RetentionKindArtifacts {
			require.Equal(t, int64(5), sum.Count, sum.Kind)
			require.Equal(t, due[sum.Kind].Bytes, sum.Bytes, sum.Kind)
		}
	}
	dev.AwaitPath("/api/v1/retention/preview", func(body string) bool {
		var preview api.RetentionPreview
		require.NoError(t, json.Unmarshal([]byte(body), &preview))
		for _, d := range preview.Due {
			require.Zero(t, d.Count, d.Kind)
		}
		return true
	})
}
