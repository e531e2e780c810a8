package workflows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// locking returns a task with change groups.
func locking(name string, depends ...int) run.Node {
	n := node(name, depends...)
	n.ChangeGroups = true
	return n
}

func TestSlots_free(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(locking("a"), node("b", 0)))
	w.grant(0)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []change{
		{0, 0, 0, run.StatusWaitingChangeGroup, ""}, {0, 1, 1, run.StatusQueued, ""}, {0, 1, 1, run.StatusSuccess, ""},
	}, w.writes(0))
}

// A task waits for its slots, while others run. The signal has no payload: it may come
// twice, and for nothing.
func TestSlots_granted_later(t *testing.T) {
	t.Parallel()
	for name, width := range map[string]int{"inline": 0, "in batches": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := locking("a")
			gate.Approvers = 1
			plan := newPlan(gate, node("b"), locking("c"))
			w := newWorkflowEnv(t, plan)
			if width > 0 {
				w = inBatches(t, width, plan)
			}
			w.signal(time.Minute, contract.SignalSlots, nil)
			w.at(2*time.Minute, func() {
				require.Equal(t, []run.Status{run.StatusWaitingApproval, run.StatusSuccess, run.StatusWaitingChangeGroup}, w.statuses())
			})
			w.signal(3*time.Minute, contract.SignalApprove, contract.Approve{Task: 0})
			w.at(4*time.Minute, func() {
				require.Equal(t, run.StatusWaitingChangeGroup, w.statuses()[0])
				w.grant(2)
				w.env.SignalWorkflow(contract.SignalSlots, nil)
				w.env.SignalWorkflow(contract.SignalSlots, nil)
			})
			w.at(5*time.Minute, func() {
				require.Equal(t, []run.Status{run.StatusWaitingChangeGroup, run.StatusSuccess, run.StatusSuccess}, w.statuses())
				w.grant(0)
			})
			w.signal(6*time.Minute, contract.SignalSlots, nil)
			require.Equal(t, run.ResultSuccess, w.run().Result)
			require.Equal(t, []change{
				{0, 0, 0, run.StatusWaitingApproval, "waits for an approval"}, {0, 0, 0, run.StatusWaitingChangeGroup, ""},
				{0, 1, 1, run.StatusQueued, ""}, {0, 1, 1, run.StatusSuccess, ""},
			}, w.writes(0))
		})
	}
}

// A task that waits for its slots ends with a stop of the run, and with fail_fast, and does
// not begin if it gets them at the same time.
func TestSlots_stopped(t *testing.T) {
	t.Parallel()
	for name, failFast := range map[string]bool{"by a client": false, "by fail_fast": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := newPlan(locking("a"), node("b"))
			plan.FailFast = failFast
			w := newWorkflowEnv(t, plan)
			w.on("b", hold)
			w.at(time.Minute, func() {
				if failFast {
					w.complete(1, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil)
				} else {
					w.env.SignalWorkflow(contract.SignalStop, nil)
				}
				w.grant(0)
				w.env.SignalWorkflow(contract.SignalSlots, nil)
			})
			w.run()
			require.Equal(t, run.StatusSkipped, w.statuses()[0])
			for _, request := range w.requests() {
				require.NotContains(t, request, "execute a")
			}
		})
	}
}

// A workflow that was reset makes a task wait that is further on in the records.
func TestSlots_reset(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(locking("a"), locking("b"), node("c", 0, 1)))
	w.tasks[0].TaskChange = run.TaskChange{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusSuccess}
	w.tasks[1].TaskChange = run.TaskChange{Task: 1, Attempt: 1, Dispatch: 1, Status: run.StatusQueued}
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Empty(t, w.writes(0))
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, w.statuses())
}

// A control worker that does not know the slots of tasks began this execution, so they are
// queued at once: the records make them wait.
func TestSlots_of_an_older_worker(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(locking("a"), node("b", 0)))
	w.env.OnGetVersion("slots-of-tasks", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	w.at(time.Minute, func() {
		require.Equal(t, []run.Status{run.StatusWaitingChangeGroup, run.StatusNotStarted}, w.statuses())
		w.grant(0)
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []change{
		{0, 0, 0, run.StatusWaitingChangeGroup, ""}, {0, 1, 1, run.StatusQueued, ""}, {0, 1, 1, run.StatusSuccess, ""},
	}, slices.Compact(w.writes(0)), "it is queued again and again")
}

// The condition of a task is decided before it waits.
func TestSlots_condition(t *testing.T) {
	t.Parallel()
	a, b := locking("a"), locking("b")
	a.If, b.If = true, true
	w := newWorkflowEnv(t, newPlan(a, b))
	w.conditions = map[int][]run.Status{0: {run.StatusNotStarted, run.StatusSkipped}, 1: {run.StatusNotStarted, ""}}
	w.grant(1)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSuccess}, w.statuses())
}
