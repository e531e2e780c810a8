package workflows_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// finally is a finally task.
func finally(n run.Node) run.Node {
	n.Finally = true
	return n
}

func TestFinally_begins_last(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0), finally(node("y")), finally(node("z", 2))))
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "execute b 1.1 on pool:linux", "execute y 1.1 on pool:linux", "execute z 1.1 on pool:linux",
	}, w.requests())
}

func TestFinally_after_a_failure(t *testing.T) {
	t.Parallel()
	for _, failFast := range []bool{false, true} {
		plan := newPlan(node("a"), node("b", 0), finally(node("y")), finally(node("z")))
		plan.FailFast, plan.StopRunning = failFast, failFast
		w := newWorkflowEnv(t, plan)
		w.on("a", failStep)
		w.on("y", failStep)
		out := w.run()
		require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "task a failed"}, out)
		require.Equal(t, []run.Status{run.StatusFailed, run.StatusSkipped, run.StatusFailed, run.StatusSuccess}, w.statuses())
	}
}

func TestFinally_that_fails(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), finally(retrying("z", run.Retry{MaxAttempts: 2}))))
	w.on("z", failStep)
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "task z failed"}, w.run())
	require.Len(t, w.requests(), 3, "its retries are those of any task")
}

func TestFinally_after_a_stop(t *testing.T) {
	t.Parallel()
	for _, inline := range []int{100, 2} { // in the run, and in batches
		w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0), node("c", 1), finally(node("z")), finally(retrying("again", run.Retry{MaxAttempts: 2}))))
		w.limits = &contract.Limits{InlineTasks: inline, BatchTasks: 10}
		w.on("a", leaveQueued)
		w.on("again", failStep, succeed)
		w.signal(time.Minute, contract.SignalStop, nil)
		out := w.run()
		require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultStopped, Reason: "the run was stopped"}, out)
		require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess}, w.statuses())
	}
}

// The records have the end of every other task before a finally task is queued: its
// condition and its claim read them.
func TestFinally_is_queued_after_all_ends_are_written(t *testing.T) {
	t.Parallel()
	for _, inline := range []int{10_000, 2} {
		w := newWorkflowEnv(t, newPlan(node("a"), wide("b", 1_200, 0), finally(node("y")), finally(node("z"))))
		w.limits = &contract.Limits{InlineTasks: inline}
		w.on("a", leaveQueued)
		w.signal(time.Minute, contract.SignalStop, nil)
		require.Equal(t, run.ResultStopped, w.run().Result)
		open := 1_201
		for _, c := range w.history {
			switch {
			case c.Task < 1_201 && c.Status.Final():
				open--
			case c.Task >= 1_201 && c.Status == run.StatusQueued:
				require.Zero(t, open)
			}
		}
	}
}

func TestFinally_after_the_timeout_of_the_run(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), finally(node("z")))
	plan.Timeout = run.Duration(time.Hour)
	w := newWorkflowEnv(t, plan)
	w.on("a", leaveQueued)
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "run timed out after 1h"}, w.run())
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSuccess}, w.statuses())
}

// A stop while only finally tasks run changes nothing, except that their time is
// bounded.
func TestFinally_stop_while_it_runs(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y")), finally(node("z", 1))))
	w.on("y", hold)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.at(2*time.Minute, func() {
		require.Empty(t, w.stops)
		w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSuccess}, w.statuses())
}

// No executor takes the finally task, and the stopped run ends all the same.
func TestFinally_is_bounded_after_a_stop(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{0: run.DefaultCleanupTimeout, 20 * time.Minute: 20 * time.Minute} {
		for _, inline := range []int{100, 1} {
			plan := newPlan(node("a"), node("b"), node("c"), finally(node("y")), finally(node("x")), finally(node("z", 3)))
			plan.FinallyTimeout = run.Duration(timeout)
			w := newWorkflowEnv(t, plan)
			w.limits = &contract.Limits{InlineTasks: inline, BatchTasks: 10}
			w.on("a", leaveQueued)
			w.on("x", leaveQueued)
			w.on("y", leaveQueued)
			w.signal(time.Minute, contract.SignalStop, nil)
			begin := w.env.Now()
			require.Equal(t, run.ResultStopped, w.run().Result)
			require.Equal(t, time.Minute+want, w.env.Now().Sub(begin).Round(time.Minute))
			require.Equal(t, []run.Status{
				run.StatusSkipped, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSkipped, run.StatusSkipped,
			}, w.statuses())
			for _, task := range []int{3, 4, 5} {
				require.Equal(t, "the finally tasks did not end within "+map[time.Duration]string{0: "5m", 20 * time.Minute: "20m"}[timeout]+" of the stop", w.tasks[task].Reason)
			}
		}
	}
}

func TestFinally_forced_stop(t *testing.T) {
	t.Parallel()
	const forced = "1.1.1 on executor:host-7 by force"
	end := func(w *workflowEnv) { w.complete(1, 1, 1, ended(run.StatusStopped, "", "stopped"), nil) }
	t.Run("while_it_runs", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y")), finally(node("z", 1))))
		w.on("a", leaveQueued)
		w.on("y", loseContact("host-7"))
		w.onAdopt("y", hold)
		w.signal(time.Minute, contract.SignalStop, nil)
		w.at(3*time.Minute, func() { require.Empty(t, w.stops, "a stop of the run does not reach it") })
		w.signal(3*time.Minute, contract.SignalForceStop, nil)
		w.at(4*time.Minute, func() {
			require.Contains(t, w.stops, forced)
			end(w)
		})
		require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultStopped, Reason: "the run was stopped"}, w.run())
		require.Equal(t, []run.Status{run.StatusSkipped, run.StatusStopped, run.StatusSkipped}, w.statuses())
		require.Equal(t, "the stop of the run was forced", w.tasks[2].Reason)
	})
	t.Run("at_once", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y"))))
		w.on("a", leaveQueued)
		w.signal(time.Minute, contract.SignalForceStop, nil)
		require.Equal(t, run.ResultStopped, w.run().Result)
		require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped}, w.statuses())
		require.Equal(t, "the stop of the run was forced", w.tasks[1].Reason)
	})
	t.Run("after_success", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y"))))
		w.on("y", loseContact("host-7"))
		w.onAdopt("y", hold)
		w.signal(3*time.Minute, contract.SignalForceStop, nil)
		w.at(4*time.Minute, func() { end(w) })
		require.Equal(t, run.ResultStopped, w.run().Result)
	})
	t.Run("by_the_timeout", func(t *testing.T) {
		t.Parallel()
		w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y"))))
		w.on("a", leaveQueued)
		w.on("y", loseContact("host-7"))
		w.onAdopt("y", hold)
		w.signal(time.Minute, contract.SignalStop, nil)
		w.at(5*time.Minute, func() { require.Empty(t, w.stops) })
		w.at(7*time.Minute, func() {
			require.Contains(t, w.stops, forced)
			end(w)
		})
		require.Equal(t, run.ResultStopped, w.run().Result)
	})
}

// A condition that skips a finally task does not interrupt the run.
func TestFinally_skipped_by_its_condition(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y")), conditional(finally(node("z", 1)), 0)))
	w.conditions = map[int][]run.Status{2: {run.StatusSkipped}}
	w.on("y", hold)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.at(2*time.Minute, func() { w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil) })
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSkipped}, w.statuses())
}

// The run continues as new while its finally task waits: the bound stays.
func TestFinally_continued_as_new(t *testing.T) {
	t.Parallel()
	records := newFakeRecords(newPlan(node("a"), finally(node("z"))))
	records.phase, records.stop = run.PhaseRunning, true
	records.tasks[0].Status = run.StatusSkipped
	w := newWorkflowEnvWith(t, records)
	w.on("z", leaveQueued)
	begin := w.env.Now()
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, State: &contract.RunState{
		Statuses: []byte{run.StatusSkipped.Byte(), run.StatusNotStarted.Byte()}, Started: begin.Add(-time.Hour), FailedTask: -1, Interrupted: true,
		Stop: &contract.Stop{Reason: "the run was stopped"}, FinallyDue: begin.Add(-time.Second),
	}})
	require.True(t, temporal.IsCanceledError(w.env.GetWorkflowError()), "%v", w.env.GetWorkflowError())
	require.Less(t, w.env.Now().Sub(begin), time.Minute)
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped}, w.statuses())
}

func TestFinally_of_a_run_closed_from_outside(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), finally(node("y")), finally(node("x")), finally(node("z", 1))))
	w.on("y", hold)
	w.on("x", leaveQueued)
	w.at(time.Minute, func() {
		w.fakeRecords.mu.Lock()
		w.phase, w.result = run.PhaseFinished, run.ResultFailed
		for _, task := range w.tasks {
			task.Status = run.StatusFailed
		}
		w.fakeRecords.mu.Unlock()
		w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultFailed}, w.run())
}

// inTheEnd are runs with finally tasks, on a server.
func inTheEnd() []scenario {
	stopped := newPlan(node("a"), node("b", 0), finally(node("y")), finally(node("z", 2)))
	forced := newPlan(node("a"), finally(node("y")), finally(node("z", 1)))
	bounded := newPlan(node("a"), finally(node("queued")), finally(node("running")))
	bounded.FinallyTimeout = run.Duration(time.Second)
	bounded.Pools = append(bounded.Pools, "nowhere")
	bounded.Nodes[1].Pool = 1
	var over atomic.Bool
	return []scenario{
		{
			name: "finally", plan: newPlan(node("a"), node("b", 0), finally(node("z"))), actions: map[string][]executorAction{"execute a": {doFail}},
			drive: func(g *scenarioRun) {
				g.finished(run.ResultFailed, run.StatusFailed, run.StatusSkipped, run.StatusSuccess)
			},
		},
		{
			name: "finally-stop", plan: stopped, actions: map[string][]executorAction{"execute a": {doUntil(false, never)}, "execute y": {doUntil(false, over.Load)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.requestStop()
				g.awaitStatus(2, run.StatusRunning)
				g.requestStop()
				over.Store(true)
				g.finished(run.ResultStopped, run.StatusStopped, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess)
			},
		},
		{
			name: "finally-force-stop", plan: forced, actions: map[string][]executorAction{"execute a": {doUntil(false, never)}, "execute y": {doCleanUp}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.requestStop()
				g.awaitStatus(1, run.StatusRunning)
				g.signal(contract.SignalForceStop, nil)
				g.finished(run.ResultStopped, run.StatusStopped, run.StatusStopped, run.StatusSkipped)
			},
		},
		{
			name: "finally-timeout", plan: bounded, actions: map[string][]executorAction{"execute a": {doUntil(false, never)}, "execute running": {doUntil(false, never)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(0, run.StatusRunning)
				g.requestStop()
				g.finished(run.ResultStopped, run.StatusStopped, run.StatusSkipped, run.StatusStopped)
			},
		},
		{
			name: "finally-batches-stop", limits: &contract.Limits{InlineTasks: 2, BatchTasks: 4}, batches: 3,
			plan:    newPlan(wide("a", 8), node("b", 0), finally(wide("y", 3)), finally(node("z", 2))),
			actions: map[string][]executorAction{"execute a[I=3]": {doUntil(false, never)}, "execute a[I=6]": {doUntil(true, never)}},
			drive: func(g *scenarioRun) {
				g.awaitStatus(3, run.StatusRunning)
				g.awaitStatus(6, run.StatusRunning)
				g.requestStop()
				g.finished(run.ResultStopped)
				require.Equal(g.t, run.StatusSkipped, g.tasks[8].Status)
				for task := 9; task < 13; task++ {
					require.Equal(g.t, run.StatusSuccess, g.tasks[task].Status)
				}
			},
		},
	}
}

// The finally tasks of a stopped run whose batch is lost go on: they are not stopped, and
// those that wait are not skipped.
func TestFinally_of_a_lost_batch(t *testing.T) {
	t.Parallel()
	w := inBatches(t, 10, newPlan(wide("a", 3), finally(node("y")), finally(node("z"))))
	for _, task := range []string{"a[I=0]", "a[I=1]", "a[I=2]", "z"} {
		w.on(task, leaveQueued)
	}
	w.on("y", hold)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.signal(2*time.Minute, contract.SignalForceContinue, nil)
	w.env.ExecuteWorkflow(contract.RunWorkflow, contract.RunInput{Run: runID, Limits: w.limits})
	in := w.continued()
	require.Len(t, in.State.Batches, 1)
	require.Equal(t, []int{3, 4}, in.State.Batches[0].Tasks)

	next := adopted(t, w)
	next.env.OnSignalExternalWorkflow(anything, contract.BatchWorkflowID(runID, in.State.Batches[0].Batch), "", anything, anything).Return(errWorkflowNotFound())
	next.onAdopt("y", answer(run.StatusSuccess, "", ""))
	next.env.ExecuteWorkflow(contract.RunWorkflow, in)
	require.Equal(t, run.ResultStopped, next.output().Result)
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess}, next.statuses())
	require.ElementsMatch(t, []string{"adopt y 1.1 on executor:host-1", "execute z 1.2 on pool:linux"}, next.requests())
	require.Empty(t, next.stops)
}
