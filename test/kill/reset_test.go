package kill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// threeTasks is a run of three sequential tasks, the second of which succeeds in
// its second attempt. Each start of an attempt appends a line to a file of that
// attempt. The backoff puts a workflow task between the event that records an
// attempt and the event that schedules it: a reset in between loses only the
// second event. A fourth task is skipped by its condition.
type threeTasks struct{ dir string }

func (g threeTasks) spec(pause string) string {
	const mark = "echo ran >> $DIR/$DROVER_TASK_NAME.$DROVER_TASK_ATTEMPT; sleep "
	return fmt.Sprintf("name: reset\ngroup: /test/reset\nenvironment: {DIR: %q}\ntasks:\n", g.dir) +
		"  a: {steps: [{run: '" + mark + pause + "'}]}\n" +
		"  b:\n    depends: [a]\n    retry: {max_attempts: 2, backoff: 1s}\n    steps: [{run: '" + mark + pause + "; [ $DROVER_TASK_ATTEMPT = 2 ]'}]\n" +
		"  c: {depends: [b], if: tasks.b.status == \"success\", steps: [{run: '" + mark + pause + "'}]}\n" +
		"  d: {depends: [c], if: tasks.c.status != \"success\", steps: [{run: '" + mark + pause + "'}]}\n"
}

// requireOnce checks that the steps of each attempt began exactly once.
func (g threeTasks) requireOnce(t *testing.T, r api.Run) {
	t.Helper()
	require.Equal(t, api.Result("success"), r.Result, harness.Describe(r))
	files, err := os.ReadDir(g.dir)
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(g.dir, f.Name()))
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(data), "the steps of %s must have begun once", f.Name())
	}
	for name, attempt := range map[string]int{"a": 1, "b": 2, "c": 1} {
		require.Equal(t, attempt, r.Tasks[name].Attempt, name)
	}
	require.Equal(t, api.StatusSkipped, r.Tasks["d"].Status)
}

// resetEnv is a Drover and a Temporal client that resets the workflows of its
// runs.
type resetEnv struct {
	*harness.Parts
	t testing.TB
	c client.Client
}

func newResetEnv(t *testing.T) *resetEnv {
	t.Helper()
	parts := harness.StartParts(t, "2", nil)
	parts.AddExecutor("second", "2")
	r := &resetEnv{Parts: parts, t: t, c: dialTemporal(t, parts.Temporal())}
	r.AwaitPath("/api/v1/executors", func(body string) bool { return strings.Count(body, `"online"`) == 2 })
	return r
}

func dialTemporal(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// awaitEvent waits until the history of a run's workflow has n events or the
// workflow has completed. It returns the history and whether the workflow has
// completed.
func (r *resetEnv) awaitEvent(id string, n int) (events []*historypb.HistoryEvent, closed bool) {
	r.t.Helper()
	testenv.Await(r.t, func() (bool, string) {
		events, closed = nil, false
		iterator := r.c.GetWorkflowHistory(r.t.Context(), contract.RunWorkflowID(run.ID(id)), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for iterator.HasNext() {
			event, err := iterator.Next()
			if err != nil {
				return false, err.Error()
			}
			events = append(events, event)
			closed = closed || event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
		}
		return closed || len(events) >= n, fmt.Sprintf("%d events of %d", len(events), n)
	})
	return events, closed
}

// reset resets the workflow to the last workflow task that completed at or before
// event n. It returns false if Temporal refused the reset, as it does once the
// workflow has closed.
func (r *resetEnv) reset(id string, events []*historypb.HistoryEvent, n int) bool {
	r.t.Helper()
	at := int64(0)
	for _, e := range events {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && (at == 0 || e.GetEventId() <= int64(n)) {
			at = e.GetEventId()
		}
	}
	_, err := r.c.ResetWorkflowExecution(r.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: contract.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(run.ID(id))},
		Reason: "a test", WorkflowTaskFinishEventId: at, RequestId: fmt.Sprintf("%s-%d-%d", id, n, time.Now().UnixNano()),
	})
	if err != nil {
		r.t.Logf("reset of %s to event %d: %v", id, at, err)
	}
	return err == nil
}

// runWithReset submits a run, resets its workflow to the workflow task before event back
// as soon as the history has n events, and waits for the end of the run. It
// returns false if the workflow completed before it had n events.
func (r *resetEnv) runWithReset(t *testing.T, n, back int) bool {
	t.Helper()
	g := threeTasks{dir: t.TempDir()}
	id := r.Submit(g.spec("0.4")).ID
	events, closed := r.awaitEvent(id, n)
	if !closed {
		r.reset(id, events, back)
	}
	g.requireOnce(t, r.AwaitPhase(id, "finished"))
	return !closed
}

// TestReset_at_any_event resets the workflow of a run at its n-th event, to that
// event and to earlier ones. The steps of each attempt begin once, the run
// succeeds, and no slot is lost. The short form tries twelve events around
// dispatch and claim; the long form tries every event, for twenty minutes.
func TestReset_at_any_event(t *testing.T) {
	t.Parallel()
	r := newResetEnv(t)
	if !harness.Soak() {
		for _, n := range []int{5, 6, 7, 8, 9, 10, 12, 14, 17, 21, 26, 31} {
			r.runWithReset(t, n, n)
		}
		r.requireIdle()
		return
	}
	for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); {
		for n := 5; time.Now().Before(end) && r.runWithReset(t, n, n); n++ {
			r.runWithReset(t, n, 4+(n*7)%max(1, n-4))
		}
	}
	r.requireIdle()
}

// requireIdle waits until no executor uses a slot and the journals of both
// executors are empty.
func (r *resetEnv) requireIdle() {
	r.t.Helper()
	r.AwaitPath("/api/v1/executors", func(body string) bool {
		return strings.Count(body, `"slots_used":0`) == strings.Count(body, `"slots_used"`) && strings.Contains(body, `"slots_used"`)
	})
	for _, dir := range []string{"executor", "second"} {
		testenv.Await(r.t, func() (bool, string) {
			left, err := filepath.Glob(filepath.Join(r.Dir, dir, "journal", "*.jsonl"))
			return err == nil && len(left) == 0, fmt.Sprintf("the journal has %v, %v", left, err)
		})
	}
}

// TestReset_while_the_executor_drains resets a workflow while its task runs on a
// draining executor. Temporal then delivers the task to another executor.
func TestReset_while_the_executor_drains(t *testing.T) {
	t.Parallel()
	parts := harness.StartParts(t, "1", nil)
	r := &resetEnv{Parts: parts, t: t, c: dialTemporal(t, parts.Temporal())}
	g := threeTasks{dir: t.TempDir()}
	id := r.Submit(g.spec("8")).ID
	awaitFile(t, filepath.Join(g.dir, "b.2"))
	events, _ := r.awaitEvent(id, 1)
	r.drainAll()
	parts.AddExecutor("second", "2")
	r.AwaitPath("/api/v1/executors", func(body string) bool { return strings.Contains(body, `"online"`) })
	require.True(t, r.reset(id, events, len(events)))
	g.requireOnce(t, r.AwaitPhase(id, "finished"))
	r.requireIdle()
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		_, err := os.Stat(path)
		return err == nil, path + " does not exist"
	})
}

// executors returns the ids of all executors.
func (r *resetEnv) executors() []string {
	r.t.Helper()
	status, body, err := r.Do(r.t.Context(), http.MethodGet, "/api/v1/executors", "", "")
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, status, body)
	var list struct {
		Executors []struct {
			ID string `json:"id"`
		} `json:"executors"`
	}
	require.NoError(r.t, json.Unmarshal([]byte(body), &list))
	var ids []string
	for _, e := range list.Executors {
		ids = append(ids, e.ID)
	}
	return ids
}

// drainAll drains all executors.
func (r *resetEnv) drainAll() {
	r.t.Helper()
	for _, id := range r.executors() {
		status, body, err := r.Do(r.t.Context(), http.MethodPost, "/api/v1/executors/"+id+"/drain", "application/json", "{}")
		require.NoError(r.t, err)
		require.Less(r.t, status, 300, body)
	}
}

// TestReset_of_an_activity resets the activity of a task and its heartbeats, so
// that Temporal delivers the task again. It does so while the executor runs the
// task, and while the executor is frozen.
func TestReset_of_an_activity(t *testing.T) {
	t.Parallel()
	r := newResetEnv(t)
	for _, frozen := range []bool{false, true} {
		g := threeTasks{dir: t.TempDir()}
		id := r.Submit(g.spec("6")).ID
		awaitFile(t, filepath.Join(g.dir, "b.2"))
		if frozen {
			r.Processes[harness.Executor].Freeze()
		}
		_, err := r.c.WorkflowService().ResetActivity(t.Context(), &workflowservice.ResetActivityRequest{
			Namespace: contract.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(run.ID(id))},
			Activity:       &workflowservice.ResetActivityRequest_Type{Type: contract.ActivityExecuteTask},
			ResetHeartbeat: true,
		})
		if frozen {
			awaitHeartbeatTimeout(t, r.c, id)
			r.Processes[harness.Executor].Thaw()
		}
		require.NoError(t, err)
		g.requireOnce(t, r.AwaitPhase(id, "finished"))
	}
	r.requireIdle()
}

// awaitHeartbeatTimeout waits until the heartbeat timeout of the activity has passed or
// the activity is closed.
func awaitHeartbeatTimeout(t *testing.T, c client.Client, id string) {
	t.Helper()
	begin := time.Now()
	testenv.Await(t, func() (bool, string) {
		d, err := c.DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run.ID(id)), "")
		if err != nil {
			return false, err.Error()
		}
		// The heartbeat timeout is 30 s, for every executor.
		return time.Since(begin) > 35*time.Second || len(d.GetPendingActivities()) == 0, "the heartbeat timeout has not passed"
	})
}

// TestReset_by_an_older_database replaces Temporal's database by an older copy,
// while tasks run and after they have ended.
func TestReset_by_an_older_database(t *testing.T) {
	t.Parallel()
	r := newResetEnv(t)
	for _, until := range []string{"b.1", "b.2", "c.1"} {
		g := threeTasks{dir: t.TempDir()}
		id := r.Submit(g.spec("2")).ID
		awaitFile(t, filepath.Join(g.dir, "a.1"))
		r.stopTemporal()
		copyDatabase(t, r.Dir, filepath.Join(r.Dir, "older"))
		r.startTemporal()
		awaitFile(t, filepath.Join(g.dir, until))
		r.stopTemporal()
		copyDatabase(t, filepath.Join(r.Dir, "older"), r.Dir)
		r.startTemporal()
		g.requireOnce(t, r.AwaitPhase(id, "finished"))
	}
	r.requireIdle()
}

func (r *resetEnv) stopTemporal() {
	r.t.Helper()
	require.NoError(r.t, r.Processes[harness.Temporal].Stop())
}

func (r *resetEnv) startTemporal() {
	r.t.Helper()
	r.Launch(harness.Temporal).AwaitReady()
}

// copyDatabase copies the database of a stopped Temporal server.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o700))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		name := "temporal.db" + suffix
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			require.NoError(t, os.RemoveAll(filepath.Join(to, name)))
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), data, 0o600))
	}
}
