package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// inParallel returns a task with a matrix of which at most some tasks run at once.
func inParallel(name string, width, most int) run.Node {
	n := wide(name, width)
	n.MaxParallel = most
	return n
}

func TestMaxParallel(t *testing.T) {
	t.Parallel()
	for name, width := range map[string]int{"inline": 0, "in batches": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := newPlan(inParallel("a", 4, 2), node("b", 0))
			w := newWorkflowEnv(t, plan)
			if width > 0 {
				w = inBatches(t, width, plan)
			}
			if width == 0 {
				w.on("a[I=0]", hold)
			}
			w.at(time.Minute, func() {
				if width > 0 {
					return
				}
				require.Equal(t, []run.Status{run.StatusRunning, run.StatusSuccess, run.StatusSuccess, run.StatusSuccess, run.StatusNotStarted}, w.statuses())
				w.complete(0, 1, 1, ended(run.StatusSuccess, "", ""), nil)
			})
			most, open := 0, map[int]bool{}
			require.Equal(t, run.ResultSuccess, w.run().Result)
			for _, c := range w.history {
				if c.Task == 4 {
					continue
				}
				open[c.Task] = !c.Status.Final()
				n := 0
				for _, is := range open {
					if is {
						n++
					}
				}
				most = max(most, n)
			}
			require.Equal(t, 2, most)
		})
	}
}

// A control worker that does not know the limit began this execution.
func TestMaxParallel_of_an_older_worker(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(inParallel("a", 3, 1)))
	w.env.OnGetVersion("max-parallel", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	for _, task := range []string{"a[I=0]", "a[I=1]", "a[I=2]"} {
		w.on(task, hold)
	}
	w.at(time.Minute, func() {
		require.Equal(t, []run.Status{run.StatusRunning, run.StatusRunning, run.StatusRunning}, w.statuses())
		for task := range 3 {
			w.complete(task, 1, 1, ended(run.StatusSuccess, "", ""), nil)
		}
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
}

// The run continues as new between the tasks of a matrix, of which a condition skips the first
// and the second is tried twice.
func TestMaxParallel_continued_as_new(t *testing.T) {
	t.Parallel()
	a := inParallel("a", 4, 1)
	a.Retry, a.If, a.Approvers = run.Retry{MaxAttempts: 2}, true, 1
	w := newWorkflowEnv(t, newPlan(a))
	w.conditions = map[int][]run.Status{0: {run.StatusSkipped}}
	w.on("a[I=1]", failStep, succeed)
	w.signal(time.Minute, contract.SignalApprove, contract.Approve{Task: 1})
	w.signal(time.Hour, contract.SignalForceContinue, nil)
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	in := w.continued()
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSuccess, run.StatusWaitingApproval, run.StatusNotStarted}, w.statuses())

	next := adopted(t, w)
	next.signal(time.Minute, contract.SignalApprove, contract.Approve{Task: 2})
	next.at(2*time.Minute, func() {
		require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSuccess, run.StatusSuccess, run.StatusWaitingApproval}, next.statuses())
	})
	next.signal(3*time.Minute, contract.SignalStop, nil)
	next.env.ExecuteWorkflow(contract.RunWorkflow, in)
	next.output()
	require.Equal(t, run.StatusSkipped, next.statuses()[3])
}

// limited are runs with a limit of the tasks of a matrix, on a server.
func limited() []scenario {
	return []scenario{
		{
			name: "max-parallel", plan: newPlan(inParallel("a", 4, 2), node("b", 0)), actions: map[string][]executorAction{"execute a[I=2]": {doFail}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusSuccess, run.StatusSuccess, run.StatusFailed, run.StatusSuccess, run.StatusSkipped)
			},
		},
	}
}
