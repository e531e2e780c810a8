//go:build linux

package fleet

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestFleet_reasons reads why a task waits: first its instance starts, then the plugin
// refuses a request, beside a busy executor and without one, and at last nothing has taken
// the task in time.
func TestFleet_reasons(t *testing.T) {
	t.Parallel()
	plugin := testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty")
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	settings := func(changes map[string]any) string {
		t.Helper()
		var config map[string]any
		require.NoError(t, json.Unmarshal(c.Config(), &config))
		all := map[string]any{
			"pool": "linux", "plugin": plugin, "plugin_config": config, "max_use_count": 2, "max_instances": 1,
			"update_interval": "1s", "update_interval_when_expecting": "200ms", "hold_down": "0s",
		}
		maps.Copy(all, changes)
		text, err := json.Marshal(all)
		require.NoError(t, err)
		return string(text)
	}
	f := newFleetEnv(t, settings(nil))
	submit := func(script string) string {
		t.Helper()
		return f.Submit("name: waits\ngroup: /fleets/reasons\ntasks:\n  t: {pool: linux, steps: [{run: '" + script + "'}], retry: {max_attempts: 3}}\n").ID
	}
	await := func(id, part string) api.Task {
		t.Helper()
		var task api.Task
		testenv.Await(t, func() (bool, string) {
			r := f.Get(id)
			task = r.Tasks["t"]
			return strings.Contains(task.Reason, part) && harness.TemporalAnswers(r), "the reason is " + task.Reason
		})
		return task
	}
	release := filepath.Join(t.TempDir(), "release")
	starting := submit("until [ -e " + release + " ]; do sleep 0.1; done")
	require.Regexp(t, `^no executor of pool linux is online; instance 1 of fleet linux is \w+.* \(\d+ s\)`, await(starting, "instance 1 of fleet linux").Reason)
	other := submit("true")
	await(other, "fleet linux: it has 1 of at most 1 instances (max_instances)")
	testenv.Await(t, func() (bool, string) {
		f.syncExecutors()
		return len(f.executors) > 0, "there is no instance"
	})
	await(other, "the only slot of pool linux is in use")
	require.NoError(t, c.Inject(cloud.Fault{Call: "Increase", Outcome: cloud.Fail}))
	f.put("/api/v1/fleets/linux", settings(map[string]any{"max_instances": 2}))
	require.Regexp(t, `^the only slot of pool linux is in use; .*; fleet linux: it requests no more instances before .*the plugin answered: `,
		await(other, "fleet linux: it requests no more instances before ").Reason)
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	f.AwaitPhase(starting, api.PhaseFinished)
	f.AwaitPhase(other, api.PhaseFinished)
	other = submit("true")
	await(other, "fleet linux: it requests no more instances before ")

	// The next tasks have a limit, and get no instance.
	status, answer, err := f.Do(t.Context(), http.MethodPut, "/api/v1/fleets/linux", "application/json",
		settings(map[string]any{"connector_config": map[string]any{"protocol": "winrm"}}))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	require.Contains(t, answer, `"connector_config.protocol"`)
	require.Contains(t, answer, `"not_supported"`)
	f.put("/api/v1/fleets/linux", settings(map[string]any{"instance_acquire_timeout": "12s", "max_instances": 2}))
	refused := submit("true")
	require.Contains(t, await(refused, "fleet linux: it requests no more instances before ").Reason, "the plugin answered: ")
	r := f.AwaitPhase(refused, api.PhaseFinished)
	require.Equal(t, api.ResultFailed, r.Result)
	require.Equal(t, "instance_acquire_timeout", r.Tasks["t"].Cause)
	require.Regexp(t, `^instance_acquire_timeout: no instance of fleet linux took it within 1\ds$`, r.Tasks["t"].Reason)
	require.Equal(t, 1, r.Tasks["t"].Attempt, "it is not retried")
	require.Equal(t, api.StatusQueued, f.Get(other).Tasks["t"].Status, "it was queued without a limit")
}
