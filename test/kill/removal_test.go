package kill

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestRemove_executor_out_of_contact kills an executor and removes it. Its tasks
// end at once, as their on_executor_lost says. When its process is started again,
// it removes its environments and exits.
func TestRemove_executor_out_of_contact(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(parts *harness.Parts, id, executor string){
		// The registration has expired, and the heartbeat timeout has not.
		"offline": func(parts *harness.Parts, _, executor string) {
			awaitExecutor(parts, executor, func(e api.Executor) bool { return e.State == "offline" })
		},
		"out_of_contact": func(parts *harness.Parts, id, _ string) {
			parts.Await(id, func(r api.Run) bool {
				return strings.Contains(r.Tasks["fails"].Reason, "out of contact since") &&
					strings.Contains(r.Tasks["default"].Reason, "out of contact since") &&
					strings.Contains(r.Tasks["retries"].Reason, "out of contact since")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			removeExecutor(t, lost)
		})
	}
}

// lostSpec returns a run with a task for each on_executor_lost. Their first
// attempts never end, and write the id of their process to a file.
func lostSpec(dir string) string {
	step := fmt.Sprintf(`echo $$ > %s/$DROVER_TASK_NAME.$DROVER_TASK_ATTEMPT; [ $DROVER_TASK_ATTEMPT = 2 ] || while :; do sleep 0.1; done`, dir)
	return fmt.Sprintf(`
name: lost
group: /registry/removal
tasks:
  fails: {on_executor_lost: fail, retry: {max_attempts: 3}, steps: [{run: %[1]q}]}
  retries: {on_executor_lost: retry, retry: {max_attempts: 2, backoff: 1ms}, steps: [{run: %[1]q}]}
  default: {retry: {max_attempts: 3}, steps: [{run: %[1]q}]}
  after: {depends: [{task: fails, on: [failure]}, retries], steps: [{run: 'true'}]}
`, step)
}

func removeExecutor(t *testing.T, lost func(parts *harness.Parts, id, executor string)) {
	t.Helper()
	dir := t.TempDir()
	parts := harness.StartParts(t, "4", nil)
	id := parts.Submit(lostSpec(dir)).ID
	r := parts.Await(id, func(api.Run) bool {
		return written(dir, "fails.1") && written(dir, "retries.1") && written(dir, "default.1")
	})
	executor := r.Tasks["fails"].Executor
	require.Equal(t, executor, r.Tasks["retries"].Executor)
	e := awaitExecutor(parts, executor, func(e api.Executor) bool { return e.Tasks == 3 })
	require.Len(t, e.Held, 3)
	require.Equal(t, id, e.Held[0].Run)
	status, body := deleteExecutor(t, parts, executor, "")
	require.Equal(t, http.StatusConflict, status, "the executor is in contact and has tasks: %s", body)

	parts.Processes[harness.Executor].Kill()
	parts.AddExecutor("second", "4").AwaitReady()
	lost(parts, id, executor)
	for _, task := range []string{"fails", "default", "retries"} {
		require.Equal(t, api.Status("running"), parts.Get(id).Tasks[task].Status, "only a removal ends a task without a result")
	}
	status, body = deleteExecutor(t, parts, executor, "its disk burnt")
	require.Equal(t, http.StatusOK, status, body)
	r = parts.Await(id, func(r api.Run) bool {
		return r.Tasks["fails"].Status == "failed" && r.Tasks["default"].Status == "failed" && r.Tasks["retries"].Attempt == 2
	})
	require.Equal(t, "executor "+executor+" was removed while it had the task: its disk burnt", r.Tasks["fails"].Reason)
	require.Equal(t, r.Tasks["fails"].Reason, r.Tasks["default"].Reason)
	require.Equal(t, []int{1, 1}, []int{r.Tasks["fails"].Attempt, r.Tasks["default"].Attempt})

	r = parts.AwaitPhase(id, "finished")
	require.Equal(t, api.Result("failed"), r.Result)
	require.Equal(t, api.Status("success"), r.Tasks["retries"].Status)
	require.Equal(t, api.Status("success"), r.Tasks["after"].Status)
	require.NotEqual(t, executor, r.Tasks["retries"].Executor)
	requireRemovedExits(t, parts, dir, executor)
}

// requireRemovedExits starts the process of a removed executor again, and checks that it
// removes its environments and exits.
func requireRemovedExits(t *testing.T, parts *harness.Parts, dir, executor string) {
	t.Helper()
	for _, task := range []string{"fails.1", "default.1", "retries.1"} {
		require.True(t, alive(t, dir, task), "the environments survive their executor")
	}
	log, err := parts.Launch(harness.Executor).AwaitEnd()
	require.Error(t, err, "a removed executor does not register again")
	require.Contains(t, log, "executor was removed")
	for _, task := range []string{"fails.1", "default.1", "retries.1"} {
		testenv.Await(t, func() (bool, string) { return !alive(t, dir, task), task + " still runs" })
	}
	left, err := filepath.Glob(filepath.Join(parts.Dir, "executor", "tasks", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	e := awaitExecutor(parts, executor, func(api.Executor) bool { return true })
	require.Equal(t, api.ExecutorState("removed"), e.State)
	require.Equal(t, "its disk burnt", e.Reason)
	status, body := deleteExecutor(t, parts, executor, "again")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "its disk burnt", "the reason of the first removal stays")
}

func deleteExecutor(t *testing.T, parts *harness.Parts, executor, reason string) (status int, body string) {
	t.Helper()
	path := "/api/v1/executors/" + executor
	if reason != "" {
		path += "?reason=" + url.QueryEscape(reason)
	}
	status, body, err := parts.Do(t.Context(), http.MethodDelete, path, "application/json", "{}")
	require.NoError(t, err)
	return status, body
}

func awaitExecutor(parts *harness.Parts, id string, want func(api.Executor) bool) (e api.Executor) {
	parts.AwaitPath("/api/v1/executors/"+id, func(body string) bool {
		e = api.Executor{}
		return json.Unmarshal([]byte(body), &e) == nil && want(e)
	})
	return e
}

func written(dir, name string) bool {
	data, err := os.ReadFile(filepath.Join(dir, name))
	return err == nil && len(data) > 0
}

// alive reports whether the process whose id a step wrote to a file exists.
func alive(t *testing.T, dir, name string) bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(t, err)
	return syscall.Kill(pid, 0) == nil
}
