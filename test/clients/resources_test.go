package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestResources_of_executors runs tasks that reserve CPU and memory on a pool of which one
// executor of two offers them.
func TestResources_of_executors(t *testing.T) {
	t.Parallel()
	parts := harness.StartParts(t, "1", nil)
	task := func(name, resources, script string) string {
		return fmt.Sprintf("  %s:\n    pool: shell\n    resources: {%s}\n    steps: [{run: '%s'}]\n", name, resources, script)
	}
	spec := func(tasks ...string) string {
		return "name: resources\ngroup: /test/resources\ntasks:\n" + strings.Join(tasks, "")
	}
	plain := "  plain%d:\n    pool: shell\n    steps: [{run: '%s'}]\n"

	// A pool on hosts without such an executor limits nothing, so it refuses.
	status, body, err := parts.Do(t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml", spec(task("a", "cpu: 2", "true")))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	require.Contains(t, body, "pool_mismatch")

	process := func() *harness.Process {
		p := parts.AddExecutor("large", "0", "DROVER_EXECUTOR__ID=large", "DROVER_EXECUTOR__RESOURCES__CPU=4",
			"DROVER_EXECUTOR__RESOURCES__MEMORY=8Gi", "DROVER_EXECUTOR__RESOURCES__GPUS=1")
		p.AwaitReady()
		return p
	}
	large := process()
	var x api.Executor
	status, body, err = parts.Do(t.Context(), http.MethodGet, "/api/v1/executors/large", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, json.Unmarshal([]byte(body), &x))
	require.Equal(t, 4, x.Slots, "one for each CPU")
	require.Equal(t, &api.OfferedResources{CPU: "4", Memory: "8Gi", GPUs: 1}, x.Resources)
	require.Empty(t, x.Labels)

	// No executor can hold the task; the others run, and only where resources are offered.
	waits := parts.Submit(spec(task("huge", "cpu: 5", "true"), task("small", "cpu: 500m, memory: 1Gi", "true"), task("gpu", "gpus: 1", "true"))).ID
	r := parts.Await(waits, func(r api.Run) bool {
		return r.Tasks["small"].Status == "success" && r.Tasks["gpu"].Status == "success" && harness.TemporalAnswers(r)
	})
	require.Equal(t, "no executor of pool shell has 5 CPU", r.Tasks["huge"].Reason)
	require.Equal(t, []string{"large", "large"}, []string{r.Tasks["small"].Executor, r.Tasks["gpu"].Executor})
	status, _, err = parts.Do(t.Context(), http.MethodPost, "/api/v1/runs/"+waits+"/stop", "application/json", "{}")
	require.NoError(t, err)
	require.Less(t, status, 300)
	parts.AwaitPhase(waits, "finished")

	// Tasks of 3 CPUs never run at the same time, and small ones fill the rest.
	mark := func(name string) string {
		return fmt.Sprintf("echo begin %s >> %[2]s; sleep 0.3; echo end %[1]s >> %[2]s", name, parts.Dir+"/marks")
	}
	var tasks []string
	for i := range 4 {
		tasks = append(tasks, task(fmt.Sprintf("big%d", i), "cpu: 3", mark("big")), fmt.Sprintf(plain, i, mark("plain")))
	}
	many := parts.Submit(spec(tasks...)).ID
	r = parts.AwaitPhase(many, "finished")
	require.EqualValues(t, "success", r.Result, harness.Describe(r))
	running := 0
	marks, err := os.ReadFile(filepath.Join(parts.Dir, "marks"))
	require.NoError(t, err)
	for line := range strings.Lines(string(marks)) {
		line = strings.TrimSpace(line)
		switch line {
		case "begin big":
			running++
			require.Equal(t, 1, running)
		case "end big":
			running--
		}
	}

	readByUsers(t, parts, waits)

	// After a kill the executor still counts what its task took.
	held := parts.Submit(spec(task("held", "cpu: 3", "sleep 8"))).ID
	parts.Await(held, func(r api.Run) bool { return r.Tasks["held"].Status == "running" })
	large.Kill()
	next := parts.Submit(spec(task("next", "cpu: 2", "true"))).ID
	process()
	r = parts.Await(next, func(r api.Run) bool {
		return strings.Contains(r.Tasks["next"].Reason, "free") && harness.TemporalAnswers(r)
	})
	require.Equal(t, "no executor of pool shell has 2 CPU free; 3 of 4 slots are in use", r.Tasks["next"].Reason)
	for _, id := range []string{held, next} {
		r = parts.AwaitPhase(id, "finished")
		require.EqualValues(t, "success", r.Result, harness.Describe(r))
	}
	held2, next2 := parts.Get(held), parts.Get(next)
	require.False(t, next2.Tasks["next"].StartedAt.Before(held2.Tasks["held"].EndedAt), "they did not run at the same time")
}

// readByUsers reads the executor's resources and the reason of a task that waited for them
// as an operator of all groups, who may read both, and as two users of groups: the group's
// submitter reads only the reason, and the other user neither.
func readByUsers(t *testing.T, parts *harness.Parts, run string) {
	t.Helper()
	all, own, other := parts.User("operations", "operator=/**"), parts.User("test-ci", "submitter=/test/**"), parts.User("other-ci", "submitter=/other/**")
	for _, c := range []struct {
		user *harness.Client
		path string
		want int
		part string
	}{
		{all, "/api/v1/executors/large", http.StatusOK, `"memory":"8Gi"`},
		{own, "/api/v1/executors/large", http.StatusForbidden, "does not have the role viewer in all groups"},
		{other, "/api/v1/executors/large", http.StatusForbidden, "does not have the role viewer in all groups"},
		{all, "/api/v1/runs/" + run, http.StatusOK, `"huge"`},
		{own, "/api/v1/runs/" + run, http.StatusOK, `"huge"`},
		{other, "/api/v1/runs/" + run, http.StatusNotFound, "there is no run"},
	} {
		status, body, err := c.user.Do(t.Context(), http.MethodGet, c.path, "", "")
		require.NoError(t, err)
		require.Equal(t, c.want, status, body)
		require.Contains(t, body, c.part)
	}
	id := own.Submit("name: own\ngroup: /test/own\ntasks: {a: {pool: shell, resources: {cpu: 5}, steps: [{run: 'true'}]}}\n").ID
	own.Await(id, func(r api.Run) bool { return r.Tasks["a"].Reason == "no executor of pool shell has 5 CPU" })
	out, code := own.Command("runs", "stop", id)
	require.Zero(t, code, out)
	own.AwaitPhase(id, api.PhaseFinished)
}
