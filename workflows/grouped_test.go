package workflows_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// inChangeGroups are runs of change groups.
func inChangeGroups() []scenario {
	return []scenario{
		{
			name: "group-waits", groups: []string{"deploy", "disk"}, plan: newPlan(node("a")),
			drive: func(g *scenarioRun) {
				g.signal(contract.SignalAdmit, nil) // the run has no slot yet
				g.awaitQueued()
				g.admit()
				g.signal(contract.SignalAdmit, nil)
				g.finished(run.ResultSuccess, run.StatusSuccess)
			},
		},
		{
			name: "group-admitted-before", groups: []string{"deploy"}, plan: newPlan(node("a")), before: (*scenarioRun).admit,
			drive: func(g *scenarioRun) { g.finished(run.ResultSuccess, run.StatusSuccess) },
		},
		{
			name: "group-displaced", groups: []string{"deploy"}, plan: newPlan(node("a")),
			drive: func(g *scenarioRun) {
				g.awaitQueued()
				g.mu.Lock()
				g.phase = run.PhaseCancelled
				g.mu.Unlock()
				g.signal(contract.SignalCancel, nil)
			},
		},
		{
			// The workflow is reset while it waits.
			name: "group-reset", groups: []string{"deploy"}, plan: newPlan(node("a")),
			drive: func(g *scenarioRun) {
				g.awaitQueued()
				_, err := g.f.client.ResetWorkflowExecution(g.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
					Namespace: contract.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(g.id)},
					Reason: "a test", WorkflowTaskFinishEventId: 4, RequestId: string(newRunID()),
				})
				require.NoError(g.t, err)
				g.admit()
				g.signal(contract.SignalAdmit, nil)
				g.finished(run.ResultSuccess, run.StatusSuccess)
			},
		},
	}
}

// admit writes what a grant writes.
func (g *scenarioRun) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = run.PhaseRunning
}

// awaitQueued waits until the workflow's own state says that it waits for
// admission.
func (g *scenarioRun) awaitQueued() {
	g.t.Helper()
	testenv.Await(g.t, func() (bool, string) {
		answer, err := g.f.client.QueryWorkflow(g.t.Context(), contract.RunWorkflowID(g.id), "", contract.QueryState)
		if err != nil {
			return false, err.Error()
		}
		var view contract.StateView
		require.NoError(g.t, answer.Get(&view))
		return view.Phase == run.PhaseQueued && view.Counts[run.StatusNotStarted] == 1, "it does not wait"
	})
}

// restarts are runs that keep tasks of the runs that they restart.
func restarts() []scenario {
	failed := keeping(newPlan(node("a"), node("b"), node("c", 1), node("d", 0)), map[int]run.Status{0: run.StatusFailed})
	failed.FailFast = true
	var over atomic.Bool
	return []scenario{
		{
			name: "kept", plan: keeping(newPlan(node("a"), node("b", 0), node("c", 1)), map[int]run.Status{0: run.StatusSuccess}),
			drive: func(g *scenarioRun) {
				g.finished(run.ResultSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess)
				require.Zero(g.t, g.f.count(g.id, "execute a"))
			},
		},
		{
			name: "kept-failure", plan: failed,
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusFailed, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped)
				require.Equal(g.t, "task a failed before the run was restarted", g.reason)
			},
		},
		{
			name: "kept-in-batches", limits: &contract.Limits{InlineTasks: 2, BatchTasks: 5}, batches: 3, executions: 2,
			plan:    keeping(newPlan(wide("a", 20), node("b", 0)), allBut(21, run.StatusSuccess, 1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 17, 20)),
			actions: map[string][]executorAction{"execute a[I=3]": {doUntil(false, over.Load)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(3, run.StatusRunning)
				g.awaitStatus(17, run.StatusSuccess)
				g.signal(contract.SignalForceContinue, nil)
				g.f.awaitContinued(g.t, contract.RunWorkflowID(g.id))
				over.Store(true)
				g.finished(run.ResultSuccess)
				require.Zero(g.t, g.f.count(g.id, "execute a[I=0]"))
			},
		},
	}
}

// Grant admits runs of the cluster's change groups.
func (f *cluster) Grant(ctx context.Context, name string) ([]records.Grant, bool, error) {
	f.mu.Lock()
	l := f.groupQueues[name]
	f.mu.Unlock()
	return l.Grant(ctx, name)
}

// newGroupQueue creates a change group. trigger signals its workflow, as the outbox
// does.
func (f *cluster) newGroupQueue(t *testing.T, limits *contract.Limits) (l *fakeGroupQueue, id string, trigger func(signal string)) {
	t.Helper()
	name := string(newRunID())
	l = &fakeGroupQueue{}
	f.mu.Lock()
	f.groupQueues[name] = l
	f.mu.Unlock()
	id = contract.ChangeGroupWorkflowID(name)
	return l, id, func(signal string) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), id, signal, nil, client.StartWorkflowOptions{
			ID: id, TaskQueue: contract.ControlQueue,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, contract.ChangeGroupWorkflow, contract.ChangeGroupInput{Name: name, Limits: limits})
		require.NoError(t, err)
	}
}

// awaitGranted waits until n runs were admitted.
func (l *fakeGroupQueue) awaitGranted(t *testing.T, n int) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.granted == n, "runs wait that should have been let in"
	})
}

// runGroupScenarios plays change-group workflows.
func (f *cluster) runGroupScenarios(t *testing.T) {
	t.Run("grants", func(t *testing.T) {
		t.Parallel()
		l, id, trigger := f.newGroupQueue(t, &contract.Limits{IdleTimeout: run.Duration(500 * time.Millisecond)})
		l.join(3)
		trigger(contract.SignalGrant)
		l.awaitGranted(t, 3)
		l.join(1)
		trigger(contract.SignalGrant)
		l.awaitGranted(t, 4)
		f.keep(t, contract.ChangeGroupWorkflow, "grants", id)
	})
	t.Run("continued", func(t *testing.T) {
		t.Parallel()
		l, id, trigger := f.newGroupQueue(t, &contract.Limits{IdleTimeout: run.Duration(500 * time.Millisecond)})
		l.join(1)
		trigger(contract.SignalGrant)
		l.awaitGranted(t, 1)
		trigger(contract.SignalForceContinue)
		f.awaitContinued(t, id)
		l.join(1)
		trigger(contract.SignalGrant)
		l.awaitGranted(t, 2)
		f.keep(t, contract.ChangeGroupWorkflow, "continued", id)
	})
	t.Run("many-signals", func(t *testing.T) {
		t.Parallel()
		l, _, trigger := f.newGroupQueue(t, nil)
		const n = 2_000
		l.batch = n
		f.runClients(t, 16, n, func() { l.join(1); trigger(contract.SignalGrant) })
		l.awaitGranted(t, n)
		t.Logf("%d signals, %d grants", n, l.calls)
		require.Less(t, l.calls, n)
	})
	// The server lets a workflow end only if no signal arrived during its last
	// workflow task. Here a signal arrives after the last grant.
	t.Run("signal-while-it-ends", func(t *testing.T) {
		t.Parallel()
		l, id, trigger := f.newGroupQueue(t, nil)
		l.join(1)
		trigger(contract.SignalGrant)
		l.awaitGranted(t, 1)
		l.afterNext(func() {
			l.join(1)
			trigger(contract.SignalGrant)
		})
		require.NoError(t, f.client.CancelWorkflow(t.Context(), id, ""))
		l.awaitGranted(t, 2)
		f.keep(t, contract.ChangeGroupWorkflow, "cancelled", id)
	})
	for name, limits := range map[string]*contract.Limits{
		"signals-while-it-continues": {HistoryEvents: 20, IdleTimeout: run.Duration(time.Minute)},
		"signals-all-the-time":       {HistoryEvents: 100, IdleTimeout: run.Duration(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients, n := 2, 200
			if name == "signals-all-the-time" {
				// With many more clients, the server would schedule no task of
				// the workflow before the end: it serves calls before its own
				// work.
				clients, n = 4, 1_500
			}
			l, id, trigger := f.newGroupQueue(t, limits)
			f.runClients(t, clients, n, func() {
				l.join(1)
				trigger(contract.SignalGrant)
			})
			l.awaitGranted(t, n)
			executions, longest := f.executions(t, id, 3)
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Logf("%d executions of up to %d events, %d grants", executions, longest, l.calls)
		})
	}
}

// runClients runs do n times, from a number of concurrent clients.
func (f *cluster) runClients(t *testing.T, clients, n int, do func()) {
	t.Helper()
	work := make(chan struct{})
	done := make(chan struct{})
	for range clients {
		go func() {
			for range work {
				do()
			}
			done <- struct{}{}
		}()
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	for range clients {
		<-done
	}
}

// executions returns the number of executions of a workflow, and the events of
// the longest, once there are at least some.
func (f *cluster) executions(t *testing.T, id string, some int) (n, longest int) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		n, longest = 0, 0
		list, err := f.client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: contract.Namespace, Query: "WorkflowId = '" + id + "'", PageSize: 1000,
		})
		if err != nil {
			return false, err.Error()
		}
		for _, x := range list.GetExecutions() {
			n, longest = n+1, max(longest, int(x.GetHistoryLength()))
		}
		return n >= some, fmt.Sprintf("visibility knows %d executions", n)
	})
	return n, longest
}
