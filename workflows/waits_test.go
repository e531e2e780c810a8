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
				{0, 0, 0, run.StatusWaitingApproval, "waits for an approval"},
				{0, 0, 0, run.StatusWaitingChangeGroup, ""},
				{0, 1, 1, run.StatusQueued, ""},
				{0, 1, 1, run.StatusSuccess, ""},
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

// A run continues as new while its tasks wait for slots. Its state has nothing that a control
// worker of an earlier version could not restore, and its next execution learns of the slots that
// were granted meanwhile.
func TestSlots_continued_as_new(t *testing.T) {
	t.Parallel()
	approved := locking("b")
	approved.Approvers = 1
	w := newWorkflowEnv(t, newPlan(locking("a"), approved, node("c", 0, 1)))
	w.signal(time.Minute, contract.SignalApprove, contract.Approve{Task: 1})
	w.signal(time.Hour, contract.SignalForceContinue, nil)
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	in := w.continued()
	require.Equal(t, []byte{run.StatusNotStarted.Byte(), run.StatusWaitingApproval.Byte() | 0x80, run.StatusNotStarted.Byte()}, in.State.Statuses)

	next := adopted(t, w)
	next.grant(0)
	next.at(time.Minute, func() {
		require.Equal(t, []run.Status{run.StatusSuccess, run.StatusWaitingChangeGroup, run.StatusNotStarted}, next.statuses())
		next.grant(1)
	})
	next.signal(2*time.Minute, contract.SignalSlots, nil)
	next.env.ExecuteWorkflow(contract.RunWorkflow, in)
	next.output()
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, next.statuses())
}

// A task keeps its slots through its attempts, and the workflow asks for them once.
func TestSlots_attempts(t *testing.T) {
	t.Parallel()
	a := locking("a")
	a.Retry = run.Retry{MaxAttempts: 2}
	w := newWorkflowEnv(t, newPlan(a))
	w.on("a", failStep, succeed)
	w.grant(0)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusWaitingChangeGroup, run.StatusQueued, run.StatusQueued, run.StatusSuccess}, statusesOf(w.writes(0)))
}

func statusesOf(changes []change) []run.Status {
	var out []run.Status
	for _, c := range changes {
		out = append(out, c.Status)
	}
	return out
}

// withSlots are runs whose tasks take slots of change groups, on a server.
func withSlots() []scenario {
	approved := locking("b")
	approved.Approvers = 1
	return []scenario{
		{
			name: "slots-of-tasks", plan: newPlan(locking("a"), approved, node("c", 0, 1), locking("stopped", 2)),
			before: func(g *scenarioRun) { g.grant(0) },
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusSuccess)
				g.signal(contract.SignalSlots, nil) // for nothing
				g.signal(contract.SignalApprove, contract.Approve{Task: 1})
				g.awaitStatus(1, run.StatusWaitingChangeGroup)
				g.grant(1)
				g.signal(contract.SignalSlots, nil)
				g.awaitStatus(3, run.StatusWaitingChangeGroup)
				g.requestStop()
				g.finished(run.ResultStopped, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped)
			},
		},
	}
}
