package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

const runID run.ID = "01k0000000000000000000000a"

// behaviour is what an executor does for one dispatch of a task.
type behaviour func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error)

// workflowEnv is a fake of everything around the workflows: the records, and scripted
// executors.
type workflowEnv struct {
	t   testing.TB
	env *testsuite.TestWorkflowEnvironment
	*fakeRecords
	limits *contract.Limits

	mu     sync.Mutex
	script map[string][]behaviour // by task name; the last one repeats
	adopts map[string][]behaviour
	calls  map[string]int
	tokens map[run.Key][]byte // of tasks that executors hold
	log    []string           // the calls of executors, in order
	stops  []string
}

func newWorkflowEnv(t testing.TB, plan run.Plan) *workflowEnv {
	return newWorkflowEnvWith(t, newFakeRecords(plan))
}

func newWorkflowEnvWith(t testing.TB, records *fakeRecords) *workflowEnv {
	w := &workflowEnv{
		t: t, fakeRecords: records, script: map[string][]behaviour{}, adopts: map[string][]behaviour{},
		calls: map[string]int{}, tokens: map[run.Key][]byte{},
	}
	w.env = newEnvironment(contract.RunWorkflowID(runID))
	w.env.SetDetachedChildWait(false)
	register(w.env, w.fakeRecords, w)
	return w
}

// register registers the workflows, the control activities over records, and
// the executors' activities of w.
func register(r worker.Registry, records *fakeRecords, w *workflowEnv) {
	workers.RegisterControl(r, workers.ControlDeps{Progress: records})
	r.RegisterActivityWithOptions(w.executeTask, activity.RegisterOptions{Name: contract.ActivityExecuteTask})
	r.RegisterActivityWithOptions(w.adoptTask, activity.RegisterOptions{Name: contract.ActivityAdoptTask})
	r.RegisterActivityWithOptions(w.stopTask, activity.RegisterOptions{Name: contract.ActivityStopTask})
}

// on sets the behaviour of a task's dispatches, one after the other.
func (w *workflowEnv) on(task string, b ...behaviour) { w.script[task] = b }

// onAdopt does the same for its adoptions.
func (w *workflowEnv) onAdopt(task string, b ...behaviour) { w.adopts[task] = b }

// at calls do at a time of the workflow.
func (w *workflowEnv) at(d time.Duration, do func()) { w.env.RegisterDelayedCallback(do, d) }

func (w *workflowEnv) signal(d time.Duration, name string, payload any) {
	w.at(d, func() { w.env.SignalWorkflow(name, payload) })
}

// run runs the workflow to its end.
func (w *workflowEnv) run() contract.RunOutput {
	w.t.Helper()
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	require.True(w.t, w.env.IsWorkflowCompleted())
	return w.output()
}

// output returns the output of a workflow that closed with the outcome of its
// run.
func (w *workflowEnv) output() contract.RunOutput {
	w.t.Helper()
	var out contract.RunOutput
	var failed *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch err := w.env.GetWorkflowError(); {
	case errors.As(err, &canceled):
		require.NoError(w.t, canceled.Details(&out))
		require.True(w.t, out.Phase == run.PhaseCancelled || out.Result == run.ResultStopped, "%v", out)
	case errors.As(err, &failed) && failed.Type() == contract.ErrorRunFailed:
		require.NoError(w.t, failed.Details(&out))
		require.True(w.t, out.Phase == run.PhaseSetupError || out.Result == run.ResultFailed, "%v", out)
	default:
		require.NoError(w.t, err)
		require.NoError(w.t, w.env.GetWorkflowResult(&out))
		require.Equal(w.t, run.ResultSuccess, out.Result)
	}
	return out
}

func (w *workflowEnv) next(kind string, scripts map[string][]behaviour, in contract.ExecuteInput, queue string) behaviour {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := kind + " " + in.Name
	n := w.calls[call]
	w.calls[call]++
	w.log = append(w.log, fmt.Sprintf("%s %s %d.%d on %s", kind, in.Name, in.Key.Attempt, in.Key.Dispatch, queue))
	list := scripts[in.Name]
	if len(list) == 0 {
		return succeed
	}
	return list[min(n, len(list)-1)]
}

func (w *workflowEnv) executeTask(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	info := activity.GetInfo(ctx)
	do := w.next("execute", w.script, in, info.TaskQueue)
	w.mu.Lock()
	w.tokens[in.Key] = info.TaskToken
	w.mu.Unlock()
	return do(w, in.Key)
}

func (w *workflowEnv) adoptTask(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	info := activity.GetInfo(ctx)
	do := w.next("adopt", w.adopts, in, info.TaskQueue)
	w.mu.Lock()
	w.tokens[in.Key] = info.TaskToken
	w.mu.Unlock()
	return do(w, in.Key)
}

func (w *workflowEnv) stopTask(ctx context.Context, in contract.StopInput) (contract.StopResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%d.%d.%d on %s", in.Key.Task, in.Key.Attempt, in.Key.Dispatch, activity.GetInfo(ctx).TaskQueue)
	if in.Force {
		text += " by force"
	}
	w.stops = append(w.stops, text)
	return contract.StopResult{Known: true}, nil
}

// complete completes a held task.
func (w *workflowEnv) complete(task, attempt, dispatch int, result contract.ExecuteResult, err error) {
	key := run.Key{Run: runID, Task: task, Attempt: attempt, Dispatch: dispatch}
	w.mu.Lock()
	token := w.tokens[key]
	w.mu.Unlock()
	require.NotNil(w.t, token, "no executor holds task %s", key)
	require.NoError(w.t, w.env.CompleteActivity(token, result, err))
}

// completeIn is complete for a task of a batch, which the test environment does
// not wake itself.
func (w *workflowEnv) completeIn(batch, task, attempt, dispatch int, result contract.ExecuteResult) {
	w.complete(task, attempt, dispatch, result, nil)
	require.NoError(w.t, w.env.SignalWorkflowByID(contract.BatchWorkflowID(runID, batch), contract.SignalBatchAddTasks, contract.BatchAddTasks{}))
}

// requests returns the calls of executors, in order.
func (w *workflowEnv) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func ended(status run.Status, cause run.Cause, reason string) contract.ExecuteResult {
	return contract.ExecuteResult{Ended: &run.TaskResult{Status: status, Cause: cause, Reason: reason}}
}

func succeed(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
	w.claim(key, "host-1")
	return ended(run.StatusSuccess, "", ""), nil
}

func failStep(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
	w.claim(key, "host-1")
	return ended(run.StatusFailed, run.CauseStep, "step 1 exited with code 3"), nil
}

func failStart(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
	w.claim(key, "host-1")
	return ended(run.StatusFailed, run.CauseStart, "image pull failed"), nil
}

// hold claims the task and answers later.
func hold(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
	w.claim(key, "host-1")
	return contract.ExecuteResult{}, activity.ErrResultPending
}

// holdOn is hold on an executor.
func holdOn(executor string) behaviour {
	return func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, executor)
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

// leaveQueued leaves the task in the queue.
func leaveQueued(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{}, activity.ErrResultPending
}

func requeueTask(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{}, requeued("host-1", "its disk is full")
}

func requeued(executor, reason string) error {
	return temporal.NewNonRetryableApplicationError(reason, contract.ErrorRequeued, nil, contract.Requeue{Executor: executor, Reason: reason})
}

// claimedElsewhere answers a delivery whose claim was refused: another executor
// holds the task.
func claimedElsewhere(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{Claimed: &contract.Heartbeat{}}, nil
}

// loseContact claims the task on an executor that then loses contact.
func loseContact(executor string) behaviour {
	return func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, executor)
		return contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError(contract.Heartbeat{Executor: executor, JournalID: "j-" + executor, Key: key.String()})
	}
}

// neverStarted answers the adoption of a task that never began.
func neverStarted(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{NeverStarted: "the key is closed"}, nil
}

func answer(status run.Status, cause run.Cause, reason string) behaviour {
	return func(*workflowEnv, run.Key) (contract.ExecuteResult, error) { return ended(status, cause, reason), nil }
}

// newPlan numbers the tasks of nodes.
func newPlan(nodes ...run.Node) run.Plan {
	p := run.Plan{Priority: 3, Group: "/a/b/c", Name: "test", Pools: []string{"linux"}}
	for _, n := range nodes {
		n.First = 0
		if k := len(p.Nodes); k > 0 {
			n.First = p.Nodes[k-1].First + p.Nodes[k-1].Width
		}
		n.Width = max(1, n.Width)
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

func node(name string, depends ...int) run.Node {
	n := run.Node{Name: name}
	for _, d := range depends {
		n.Depends = append(n.Depends, run.Edge{Node: d})
	}
	return n
}

// wide is a node of many tasks.
func wide(name string, width int, depends ...int) run.Node {
	n := node(name, depends...)
	n.Width = width
	values := make([]string, width)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	n.Axes = []run.Axis{{Name: "I", Values: values}}
	return n
}

// statuses returns the statuses of the tasks in the records, in order.
func (w *workflowEnv) statuses() []run.Status {
	w.fakeRecords.mu.Lock()
	defer w.fakeRecords.mu.Unlock()
	var out []run.Status
	for _, task := range slices.Sorted(maps.Keys(w.tasks)) {
		out = append(out, w.tasks[task].Status)
	}
	return out
}

var errOutage = errors.New("out of reach")
