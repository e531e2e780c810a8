package workflows_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// scenario is a run on a real server. The stored ones make the corpus of
// histories that every later build must replay.
type scenario struct {
	name    string
	slow    bool // waits for heartbeats to time out
	manual  bool
	groups  []string // change groups whose slots are not free at first
	plan    run.Plan
	limits  *contract.Limits
	actions map[string][]executorAction
	before  func(g *scenarioRun) // before its workflow is started
	drive   func(g *scenarioRun)
	// batches and executions are the numbers of histories that the run leaves.
	batches, executions int
}

// scenarios returns new scenarios: they have state.
func scenarios() []scenario {
	return concat(simple(), inChangeGroups(), restarts(), stopping(), stopRunning(), inTheEnd(), withSlots(), limited(), contacts(), batched(), dynamic(), externalFaults(), acquiring())
}

func concat(lists ...[]scenario) []scenario {
	var out []scenario
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func simple() []scenario {
	approved := node("b", 0)
	approved.Approvers = 1
	failFast := newPlan(node("a"), node("queued"), node("running"), on(node("handler", 0), run.MaskFailure), node("later", 2))
	failFast.FailFast = true
	failFast.Pools = append(failFast.Pools, "nowhere")
	failFast.Nodes[1].Pool = 1
	allowed := node("a")
	allowed.AllowFailure = true
	approvedIf := conditional(node("asked", 0), 1)
	var fail, over atomic.Bool
	return []scenario{
		{
			name: "if-conditions", plan: newPlan(node("a"), conditional(node("true", 0), 0), conditional(node("false", 0), 0), conditional(node("late"), 0), approvedIf),
			before: func(g *scenarioRun) {
				g.conditions = map[int][]run.Status{
					2: {run.StatusSkipped}, 3: {run.StatusNotStarted, run.StatusNotStarted}, 4: {run.StatusNotStarted, run.StatusSkipped},
				}
			},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess, run.StatusSkipped)
			},
		},
		{
			name:    "labels",
			plan:    newPlan(labelled(retrying("a", run.Retry{MaxAttempts: 2})), node("b", 0)),
			actions: map[string][]executorAction{"execute a": {doRequeue, doFail, doSucceed}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess)
				require.Equal(g.t, 2, g.tasks[0].Attempt)
			},
		},
		{name: "one", plan: newPlan(node("a")), drive: func(g *scenarioRun) { g.finished(run.ResultSuccess, run.StatusSuccess) }},
		{name: "fan", plan: newPlan(node("a"), wide("b", 20, 0), node("c", 1)), drive: func(g *scenarioRun) { g.finished(run.ResultSuccess) }},
		{
			name: "retry-and-requeue",
			plan: newPlan(retrying("a", run.Retry{MaxAttempts: 3, Backoff: run.Duration(100 * time.Millisecond)}), node("b")),
			actions: map[string][]executorAction{
				"execute a": {doFail, doFail, doSucceed}, "execute b": {doRequeue, doRequeue, doSucceed},
			},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess)
				require.Equal(g.t, 3, g.tasks[0].Attempt)
				require.Equal(g.t, 3, g.tasks[1].Dispatch)
			},
		},
		{
			name: "conditions", plan: newPlan(node("a"), on(node("b", 0), run.MaskFailure), node("c", 0)),
			actions: map[string][]executorAction{"execute a": {doFail}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusFailed, run.StatusSuccess, run.StatusSkipped)
			},
		},
		{
			name: "allowed-failure", plan: newPlan(allowed, node("b", 0), on(node("c", 0), run.MaskFailure)),
			actions: map[string][]executorAction{"execute a": {doFail}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusFailed, run.StatusSuccess, run.StatusSkipped)
			},
		},
		{
			name: "fail-fast", plan: failFast,
			actions: map[string][]executorAction{"execute a": {doUntilFailure(&fail)}, "execute running": {doUntil(false, over.Load)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(1, run.StatusQueued)
				g.awaitStatus(2, run.StatusRunning)
				fail.Store(true)
				g.awaitStatus(1, run.StatusSkipped)
				over.Store(true)
				g.finished(run.ResultFailed, run.StatusFailed, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped)
			},
		},
		{
			name: "approval", plan: newPlan(node("a"), approved),
			drive: func(g *scenarioRun) {
				g.awaitStatus(1, run.StatusWaitingApproval)
				g.signal(contract.SignalApprove, contract.Approve{Task: 1})
				g.signal(contract.SignalApprove, contract.Approve{Task: 1})
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess)
			},
		},
		{
			name: "manual", manual: true, plan: newPlan(node("a")),
			drive: func(g *scenarioRun) {
				g.signal(contract.SignalAdmit, nil)
				g.mu.Lock()
				g.admitted = true
				g.mu.Unlock()
				g.signal(contract.SignalAdmit, nil)
				g.finished(run.ResultSuccess, run.StatusSuccess)
			},
		},
		{
			name: "cancelled", manual: true, plan: newPlan(node("a")),
			drive: func(g *scenarioRun) {
				g.mu.Lock()
				g.phase = run.PhaseCancelled
				g.mu.Unlock()
				g.signal(contract.SignalCancel, nil)
			},
		},
	}
}

// doUntilFailure fails the task once over is set.
func doUntilFailure(over *atomic.Bool) executorAction {
	return doThen(over.Load, ended(run.StatusFailed, run.CauseStep, "no"))
}

func stopping() []scenario {
	timeout := newPlan(node("a"), node("b", 0))
	timeout.Timeout = run.Duration(time.Second)
	queued := newPlan(node("running"), node("queued"), node("later", 0))
	queued.Pools = append(queued.Pools, "nowhere")
	queued.Nodes[1].Pool = 1
	return []scenario{
		{
			name: "stop", plan: queued, actions: map[string][]executorAction{"execute running": {doUntil(false, never)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.awaitStatus(1, run.StatusQueued)
				g.requestStop()
				g.finished(run.ResultStopped, run.StatusStopped, run.StatusSkipped, run.StatusSkipped)
				require.Equal(g.t, "it received a stop", g.tasks[0].Reason)
			},
		},
		{
			name: "force-stop", plan: newPlan(node("a"), node("b", 0)), actions: map[string][]executorAction{"execute a": {doCleanUp}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.requestStop()
				g.await("the executor knows of the stop", func(*fakeRecords) bool {
					return g.f.isStopped(run.Key{Run: g.id, Attempt: 1, Dispatch: 1})
				})
				g.signal(contract.SignalForceStop, nil)
				g.finished(run.ResultStopped, run.StatusStopped, run.StatusSkipped)
				require.Equal(g.t, "its cleanup was stopped", g.tasks[0].Reason)
			},
		},
		{
			name: "stop-by-heartbeat", plan: newPlan(node("a")), actions: map[string][]executorAction{"execute a": {doUntil(true, never)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.requestStop()
				g.finished(run.ResultStopped, run.StatusStopped)
				require.Equal(g.t, "it was cancelled", g.tasks[0].Reason)
			},
		},
		{
			name: "timeout", plan: timeout, actions: map[string][]executorAction{"execute a": {doUntil(false, never)}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusStopped, run.StatusSkipped)
				require.Equal(g.t, "run timed out after 1s", g.reason)
			},
		},
		{
			name: "workflow-cancelled", plan: newPlan(node("a"), node("b", 0)), actions: map[string][]executorAction{"execute a": {doUntil(false, never)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				require.NoError(g.t, g.f.client.CancelWorkflow(g.t.Context(), contract.RunWorkflowID(g.id), ""))
				g.finished(run.ResultStopped, run.StatusStopped, run.StatusSkipped)
			},
		},
	}
}

func contacts() []scenario {
	lost := node("a")
	lost.OnLost, lost.Retry.MaxAttempts = run.OnLostRetry, 2
	return []scenario{
		{
			name: "adopted", slow: true, plan: newPlan(node("a"), node("b")),
			actions: map[string][]executorAction{
				"execute a": {doVanish("host-1")}, "adopt a": {doAnswer(ended(run.StatusSuccess, "", ""))},
				"execute b": {doVanish("host-2"), doSucceed}, "adopt b": {doAnswer(contract.ExecuteResult{NeverStarted: "the key is closed"})},
			},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess)
				require.Equal(g.t, 2, g.tasks[1].Dispatch)
			},
		},
		{
			// A member of a set vanishes with one task, and another member
			// already has the other task.
			name: "adopted-by-a-set", slow: true, plan: newPlan(node("a"), node("b")),
			actions: map[string][]executorAction{
				"execute a": {doVanishOf("pod-1", "blue")}, "adopt a": {doAnswer(ended(run.StatusSuccess, "", ""))},
				"execute b": {doAnswer(contract.ExecuteResult{Claimed: &contract.Heartbeat{Set: "blue"}})},
				"adopt b":   {doUntil(false, never)},
			},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusSuccess)
				g.awaitStatus(1, run.StatusRunning)
				g.requestStop()
				g.finished(run.ResultStopped, run.StatusSuccess, run.StatusStopped)
			},
		},
		{
			name: "executor-removed", slow: true, plan: newPlan(lost, node("b")),
			actions: map[string][]executorAction{"execute a": {doVanish("host-9"), doSucceed}, "execute b": {doVanish("host-9")}},
			drive: func(g *scenarioRun) {
				g.await("task 0 is to be out of contact", func(f *fakeRecords) bool { return f.tasks[0].Reason != "" && f.tasks[1].Reason != "" })
				g.signal(contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-9", Reason: "it burnt"})
				g.finished(run.ResultFailed, run.StatusSuccess, run.StatusFailed)
				require.Equal(g.t, 2, g.tasks[0].Attempt)
			},
		},
		{
			// Its heartbeats have not timed out yet.
			name: "executor-removed-early", plan: newPlan(lost, node("b"), node("c")),
			actions: map[string][]executorAction{
				"execute a": {doVanish("host-9"), doSucceed}, "execute b": {doVanish("host-9")}, "execute c": {doUntil(false, never)},
			},
			drive: func(g *scenarioRun) {
				for task := range 3 {
					g.awaitStatus(task, run.StatusRunning)
				}
				g.signal(contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-9", Reason: "it burnt"})
				g.awaitStatus(0, run.StatusSuccess)
				g.awaitStatus(1, run.StatusFailed)
				g.requestStop()
				g.finished(run.ResultFailed, run.StatusSuccess, run.StatusFailed, run.StatusStopped)
			},
		},
		{
			name: "executor-removed-while-stopping", plan: newPlan(lost),
			actions: map[string][]executorAction{"execute a": {doVanish("host-9")}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.requestStop()
				g.signal(contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-9"})
				g.await("task 0 is to fail", func(f *fakeRecords) bool { return f.tasks[0].Status == run.StatusFailed })
				g.finished(run.ResultFailed, run.StatusFailed)
			},
		},
		{
			// It was removed before the run waited for it, so no signal reports
			// that.
			name: "executor-removed-before", slow: true, plan: newPlan(node("a")),
			actions: map[string][]executorAction{"execute a": {doVanish(removedExecutor)}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusFailed)
				require.Equal(g.t, "executor "+removedExecutor+" was removed while it had the task: it burnt", g.tasks[0].Reason)
			},
		},
		{
			// It had only acknowledged the task, without a claim.
			name: "executor-removed-unclaimed", slow: true, plan: newPlan(node("a")),
			actions: map[string][]executorAction{"execute a": {doHeartbeatOnly("host-9"), doSucceed}},
			drive: func(g *scenarioRun) {
				g.await("task 0 is to be out of contact", func(f *fakeRecords) bool { return f.tasks[0].Reason != "" })
				g.signal(contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-9", Reason: "it burnt"})
				g.finished(run.ResultSuccess, run.StatusSuccess)
				require.Equal(g.t, 2, g.tasks[0].Dispatch)
			},
		},
		{
			// A set is removed while the run waits for another member than the
			// one that the signal names. A member of the set also has a task
			// that was delivered to another executor too.
			name: "set-removed", slow: true, plan: newPlan(node("a"), node("b")),
			actions: map[string][]executorAction{
				"execute a": {doVanishLast(removedExecutor, "pod-2", "red")},
				"execute b": {doVanishLast("pod-1", "host-9", "")}, "adopt b": {doAnswer(ended(run.StatusSuccess, "", ""))},
			},
			before: func(g *scenarioRun) { g.sets = map[string]string{removedExecutor: "red", "pod-1": "blue"} },
			drive: func(g *scenarioRun) {
				g.await("both are to be out of contact", func(f *fakeRecords) bool { return f.tasks[0].Reason != "" && f.tasks[1].Reason != "" })
				g.signal(contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: removedExecutor, Reason: "it burnt"})
				g.await("task 0 is to fail", func(f *fakeRecords) bool { return f.tasks[0].Status == run.StatusFailed })
				g.signal(contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-9", Reason: "it burnt"})
				g.finished(run.ResultFailed, run.StatusFailed, run.StatusSuccess)
				require.Equal(g.t, "executor "+removedExecutor+" was removed while it had the task: it burnt", g.tasks[0].Reason)
			},
		},
		{
			name: "stop-out-of-contact", slow: true, plan: newPlan(node("a")),
			actions: map[string][]executorAction{"execute a": {doVanish("host-1")}, "adopt a": {doUntil(false, never)}},
			drive: func(g *scenarioRun) {
				g.await("task 0 is to be out of contact", func(f *fakeRecords) bool { return f.tasks[0].Reason != "" })
				g.requestStop()
				g.finished(run.ResultStopped, run.StatusStopped)
			},
		},
	}
}

func batched() []scenario {
	small := &contract.Limits{InlineTasks: 2, BatchTasks: 5}
	chain := append(chainOfPairs(6), node("last", 5))
	var over atomic.Bool
	failFast := newPlan(node("a"), wide("b", 8))
	failFast.FailFast = true
	failFast.Pools = append(failFast.Pools, "nowhere")
	failFast.Nodes[1].Pool = 1
	return []scenario{
		{
			name: "batches", limits: small, batches: 4, plan: newPlan(node("a"), wide("b", 20, 0), node("c", 1)),
			drive: func(g *scenarioRun) { g.finished(run.ResultSuccess) },
		},
		{
			name: "batches-chain", limits: small, batches: 3, plan: newPlan(chain...),
			drive: func(g *scenarioRun) { g.finished(run.ResultSuccess) },
		},
		{
			name: "batches-stop", limits: small, batches: 2, plan: newPlan(wide("a", 8), node("b", 0)),
			actions: map[string][]executorAction{"execute a[I=3]": {doUntil(false, never)}, "execute a[I=6]": {doUntil(true, never)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(3, run.StatusRunning)
				g.awaitStatus(6, run.StatusRunning)
				g.requestStop()
				g.finished(run.ResultStopped)
				require.Equal(g.t, run.StatusStopped, g.tasks[3].Status)
				require.Equal(g.t, run.StatusStopped, g.tasks[6].Status)
				require.Equal(g.t, run.StatusSkipped, g.tasks[8].Status)
			},
		},
		{
			name: "batches-fail-fast", limits: small, batches: 2, plan: failFast, actions: map[string][]executorAction{"execute a": {doFail}},
			drive: func(g *scenarioRun) { g.finished(run.ResultFailed, run.StatusFailed, run.StatusSkipped) },
		},
		{
			name: "batches-continued", limits: small, batches: 2, executions: 2, plan: newPlan(wide("a", 8), node("b", 0)),
			actions: map[string][]executorAction{"execute a[I=3]": {doUntil(false, over.Load)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(3, run.StatusRunning)
				g.awaitStatus(7, run.StatusSuccess)
				g.signal(contract.SignalForceContinue, nil)
				g.signal(contract.SignalApprove, contract.Approve{Task: 99})
				g.f.awaitContinued(g.t, contract.RunWorkflowID(g.id))
				over.Store(true)
				g.finished(run.ResultSuccess)
			},
		},
	}
}

// dynamic are runs whose tasks are expanded from lists.
func dynamic() []scenario {
	listed := func(name string, depends ...int) run.Node {
		n := node(name, depends...)
		n.Foreach = true
		return n
	}
	var over atomic.Bool
	none := on(node("none", 2), run.MaskFailure)
	return []scenario{
		{
			name: "foreach", plan: newPlan(node("plan"), listed("build", 0), listed("bad", 0), node("join", 1), none),
			before: func(g *scenarioRun) { g.lists[1] = 7 },
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed)
				require.Len(g.t, g.tasks, 12)
				for task, want := range []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusFailed, run.StatusSuccess, run.StatusSuccess} {
					require.Equal(g.t, want, g.tasks[task].Status)
				}
				require.Equal(g.t, "tasks created from its list: 7", g.tasks[1].Reason)
				require.Equal(g.t, "the list is null", g.tasks[2].Reason)
				require.Equal(g.t, run.StatusSuccess, g.tasks[11].Status)
				require.Equal(g.t, 1, g.f.count(g.id, "execute build[6]"))
				require.Zero(g.t, g.f.count(g.id, "execute build"))
			},
		},
		{
			name: "foreach-empty", plan: newPlan(node("plan"), listed("build", 0), node("join", 1), on(node("none", 1), run.MaskFailure), listed("more", 2)),
			before: func(g *scenarioRun) { g.lists[1], g.lists[4] = 0, 2 },
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess)
				require.Len(g.t, g.tasks, 7)
				for task, want := range []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess} {
					require.Equal(g.t, want, g.tasks[task].Status)
				}
				require.Equal(g.t, "its list has 0 items", g.tasks[1].Reason)
				require.Zero(g.t, g.f.count(g.id, "execute build"))
				require.Equal(g.t, 1, g.f.count(g.id, "execute more[1]"))
			},
		},
		{
			name: "foreach-batches-continued", limits: &contract.Limits{InlineTasks: 2, BatchTasks: 5}, batches: 3, executions: 2,
			plan:    newPlan(listed("build"), node("join", 0)),
			before:  func(g *scenarioRun) { g.lists[0] = 11 },
			actions: map[string][]executorAction{"execute build[3]": {doUntil(false, over.Load)}},
			drive: func(g *scenarioRun) {
				g.await("all but one task is to end", func(f *fakeRecords) bool {
					n := 0
					for _, t := range f.tasks {
						if t.Status == run.StatusSuccess {
							n++
						}
					}
					return n == 11 && f.tasks[5].Status == run.StatusRunning
				})
				g.signal(contract.SignalForceContinue, nil)
				g.signal(contract.SignalApprove, contract.Approve{Task: 99})
				g.f.awaitContinued(g.t, contract.RunWorkflowID(g.id))
				over.Store(true)
				g.finished(run.ResultSuccess)
				require.Equal(g.t, 1, g.f.count(g.id, "execute build[10]"))
				require.Equal(g.t, 1, g.f.count(g.id, "execute join"))
				require.Equal(g.t, 1, g.expands)
			},
		},
	}
}

// externalFaults are faults outside of the workflows.
func externalFaults() []scenario {
	return []scenario{
		{
			// The records are unavailable for longer than a local activity
			// retries.
			name: "outage", slow: true, plan: newPlan(node("a"), node("b", 0)),
			actions: map[string][]executorAction{"execute a": {func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
				out, err := doSucceed(ctx, f, in)
				records := f.of(in.Key.Run)
				records.mu.Lock()
				records.backAt = time.Now().Add(9 * time.Second)
				records.mu.Unlock()
				return out, err
			}}},
			drive: func(g *scenarioRun) { g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess) },
		},
		{
			// The claim is refused, because an executor holds a later attempt.
			name: "claimed-elsewhere", plan: newPlan(retrying("a", run.Retry{MaxAttempts: 3})),
			actions: map[string][]executorAction{
				"execute a": {func(_ context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
					f.of(in.Key.Run).setClaim(run.Key{Run: in.Key.Run, Attempt: 2, Dispatch: 3}, "host-1")
					return contract.ExecuteResult{Claimed: &contract.Heartbeat{}}, nil
				}},
				"adopt a": {doAnswer(ended(run.StatusSuccess, "", ""))},
			},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusSuccess)
				require.Equal(g.t, 1, g.f.count(g.id, "execute a"))
				require.Equal(g.t, []int{2, 3}, []int{g.tasks[0].Attempt, g.tasks[0].Dispatch})
			},
		},
		{
			// The workflow is reset: its earlier effects remain.
			name: "reset", plan: newPlan(node("done"), node("running"), node("queued"), node("later", 0, 1, 2)),
			actions: map[string][]executorAction{
				"execute running": {doVanish("host-1")}, "adopt running": {doAnswer(ended(run.StatusSuccess, "", ""))},
				"execute queued": {doRequeue, doRequeue, doRequeue, doSucceed},
			},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusSuccess)
				g.awaitStatus(1, run.StatusRunning)
				g.await("task 2 is to be queued for the fourth time", func(f *fakeRecords) bool { return f.tasks[2].Dispatch == 4 })
				_, err := g.f.client.ResetWorkflowExecution(g.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
					Namespace: contract.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(g.id)},
					Reason: "a test", WorkflowTaskFinishEventId: 4, RequestId: string(newRunID()),
				})
				require.NoError(g.t, err)
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess)
				require.Equal(g.t, 1, g.f.count(g.id, "execute done"))
				require.Equal(g.t, 1, g.f.count(g.id, "execute running"))
			},
		},
	}
}

// requestStop does what a client's stop does: it changes the records first, then
// sends the signal.
func (g *scenarioRun) requestStop() {
	g.mu.Lock()
	g.stop = true
	g.mu.Unlock()
	g.signal(contract.SignalStop, nil)
}
