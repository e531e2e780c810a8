package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestLabels_of_executors runs tasks that require labels on a pool of which one executor
// of two has them.
func TestLabels_of_executors(t *testing.T) {
	t.Parallel()
	parts := harness.StartParts(t, "1", nil)
	gpu := "    requires: {labels: {gpu: a100}}\n"
	task := func(name, more, script string) string {
		return fmt.Sprintf("  %s:\n    pool: shell\n%s    steps: [{run: '%s'}]\n", name, more, script)
	}
	submit := func(tasks ...string) string {
		return parts.Submit("name: labels\ngroup: /test/labels\ntasks:\n" + strings.Join(tasks, "")).ID
	}

	// No executor has the label: only the other task runs, and the reason says so.
	waits := submit(task("a", gpu, "true"), task("b", "", "true"))
	r := parts.Await(waits, func(r api.Run) bool {
		return r.Tasks["b"].Status == "success" && harness.TemporalAnswers(r)
	})
	require.Equal(t, "no executor of pool shell has label gpu=a100", r.Tasks["a"].Reason)
	require.EqualValues(t, "queued", r.Tasks["a"].Status)
	status, body, err := parts.Do(t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml",
		"name: labels\ngroup: /test/labels\ntasks: {a: {requires: {labels: {gpu: a100}}, steps: [{run: 'true'}]}}\n")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	require.Contains(t, body, "unknown_pool")

	process := func() *harness.Process {
		return parts.AddExecutor("gpu", "1", "DROVER_EXECUTOR__ID=gpu", "DROVER_EXECUTOR__LABELS=gpu=a100,rack=7")
	}
	labelled := process()
	r = parts.AwaitPhase(waits, "finished")
	require.EqualValues(t, "success", r.Result)
	require.Equal(t, "gpu", r.Tasks["a"].Executor)

	// A task without a pool finds it by the label of its executor. The executor takes tasks
	// of both queues, and the other executor none with labels.
	var tasks []string
	for i := range 4 {
		tasks = append(tasks, strings.Replace(task(fmt.Sprintf("gpu%d", i), gpu, "sleep 0.2"), "    pool: shell\n", "", 1), task(fmt.Sprintf("any%d", i), "", "sleep 0.2"))
	}
	many := submit(tasks...)
	r = parts.AwaitPhase(many, "finished")
	require.EqualValues(t, "success", r.Result, harness.Describe(r))
	for name, x := range r.Tasks {
		require.Equal(t, 1, x.Attempt)
		if strings.HasPrefix(name, "gpu") {
			require.Equal(t, "gpu", x.Executor, name)
		}
	}
	for _, p := range []*harness.Process{labelled, parts.Processes[harness.Executor]} {
		require.NotContains(t, p.Output(), "requeued", "no executor received a task in vain")
	}

	// A killed executor adopts its task with a label, and the next one waits for it.
	killed := submit(task("a", gpu, "sleep 3"))
	parts.Await(killed, func(r api.Run) bool { return r.Tasks["a"].Status == "running" })
	labelled.Kill()
	next := submit(task("a", gpu, "true"))
	r = parts.Await(next, func(r api.Run) bool {
		return strings.Contains(r.Tasks["a"].Reason, "with label gpu=a100 is online") && harness.TemporalAnswers(r)
	})
	require.Equal(t, "no executor of pool shell with label gpu=a100 is online", r.Tasks["a"].Reason)
	process()
	for _, id := range []string{killed, next} {
		r = parts.AwaitPhase(id, "finished")
		require.EqualValues(t, "success", r.Result, harness.Describe(r))
		require.Equal(t, []any{"gpu", 1}, []any{r.Tasks["a"].Executor, r.Tasks["a"].Attempt})
	}
}

// TestPool_max_running limits the running tasks of a pool on two executors.
func TestPool_max_running(t *testing.T) {
	t.Parallel()
	const limit, tasks = 2, 8
	parts := harness.StartParts(t, "3", nil)
	put := func(n int) {
		t.Helper()
		status, body, err := parts.Do(t.Context(), http.MethodPut, "/api/v1/pools/shell", "application/json", fmt.Sprintf(`{"driver": "shell", "max_running": %d}`, n))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, fmt.Sprintf(`"max_running":%d`, n))
	}
	put(limit)
	second := parts.AddExecutor("second", "3", "DROVER_EXECUTOR__ID=second")
	second.AwaitReady()
	spec := "name: limited\ngroup: /test/limited\ntasks:\n"
	for i := range tasks {
		spec += fmt.Sprintf("  t%d: {pool: shell, steps: [{run: 'sleep 1'}]}\n", i)
	}
	running := func(r api.Run) (n int, reason string) {
		for _, x := range r.Tasks {
			switch x.Status { //nolint:exhaustive // the others do not run or wait
			case "running":
				n++
			case "queued":
				reason = max(reason, x.Reason)
			}
		}
		return n, reason
	}
	id := parts.Submit(spec).ID
	reasons := map[string]bool{}
	most := 0
	r := parts.Await(id, func(r api.Run) bool {
		n, reason := running(r)
		most = max(most, n)
		if strings.Contains(reason, "of at most 2 tasks of pool shell are running") {
			reasons["limit"] = true
		}
		require.LessOrEqual(t, n, limit)
		return r.Phase == "finished"
	})
	require.EqualValues(t, "success", r.Result, harness.Describe(r))
	require.Equal(t, limit, most)
	require.True(t, reasons["limit"])

	// A killed executor keeps its part of the limit until it is back, and no more.
	id = parts.Submit(spec).ID
	parts.Await(id, func(r api.Run) bool { n, _ := running(r); return n == limit })
	second.Kill()
	parts.Processes[harness.Executor].Kill()
	parts.Launch(harness.Executor)
	parts.AddExecutor("second", "3", "DROVER_EXECUTOR__ID=second")
	r = parts.Await(id, func(r api.Run) bool {
		n, _ := running(r)
		require.LessOrEqual(t, n, limit)
		return r.Phase == "finished"
	})
	require.EqualValues(t, "success", r.Result, harness.Describe(r))
}
