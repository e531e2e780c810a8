package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func on(n run.Node, mask run.OnMask) run.Node {
	for i := range n.Depends {
		n.Depends[i].On = mask
	}
	return n
}

func TestConditions(t *testing.T) {
	t.Parallel()
	allowed := node("a")
	allowed.AllowFailure = true
	skipped := node("a")
	skipped.Skip = true
	for name, tc := range map[string]struct {
		plan   run.Plan
		fails  string
		result run.Result
		want   []run.Status
	}{
		"a failure is handled": {
			newPlan(node("a"), on(node("b", 0), run.MaskFailure), node("c", 1)), "a", run.ResultFailed,
			[]run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSuccess},
		},
		"a failure is allowed": {
			newPlan(allowed, node("b", 0), on(node("c", 0), run.MaskFailure), on(node("d", 0), run.MaskSuccess|run.MaskFailure)), "a", run.ResultSuccess,
			[]run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess},
		},
		"all is skipped": {
			newPlan(skipped, node("b", 0)), "", run.ResultSuccess, []run.Status{run.StatusSkipped, run.StatusSkipped},
		},
		"a skip is handled": {
			newPlan(skipped, on(node("b", 0), run.MaskSkipped)), "", run.ResultSuccess, []run.Status{run.StatusSkipped, run.StatusSuccess},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, tc.plan)
			w.on(tc.fails, failStep)
			require.Equal(t, tc.result, w.run().Result)
			require.Equal(t, tc.want, w.statuses())
		})
	}
}

// The reason of a run that succeeded with warnings names the tasks, and it is written
// with the end of the run.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		width  int
		result run.Result
		want   string
	}{
		"one":                       {1, run.ResultSuccess, "with warnings: lint failed"},
		"several":                   {3, run.ResultSuccess, "with warnings: lint[I=0], lint[I=1], lint[I=2] failed"},
		"many":                      {7, run.ResultSuccess, "with warnings: lint[I=0], lint[I=1], lint[I=2], lint[I=3], lint[I=4] and 2 more failed"},
		"beside another that fails": {1, run.ResultFailed, "task b failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lint := wide("lint", tc.width)
			if tc.width == 1 {
				lint = node("lint")
			}
			lint.AllowFailure = true
			plan := newPlan(lint, node("b", 0))
			plan.FailFast = true
			w := newWorkflowEnv(t, plan)
			for task := range tc.width {
				w.on(lint.TaskName(task), failStep)
			}
			if tc.result == run.ResultFailed {
				w.on("b", failStep)
			}
			out := w.run()
			require.Equal(t, tc.result, out.Result)
			require.Equal(t, tc.want, out.Reason)
			require.Equal(t, tc.want, w.reason)
		})
	}
}

func TestResult_is_failed_at_once(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b")))
	w.on("a", failStep)
	w.on("b", hold)
	w.at(time.Minute, func() {
		require.Equal(t, run.ResultFailed, w.result)
		require.Equal(t, "task a failed", w.reason)
		require.Equal(t, run.PhaseRunning, w.phase)
		w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess}, w.statuses())
}

func TestFailFast(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), node("queued"), node("running"), on(node("handler", 0), run.MaskFailure), node("later", 2),
		retrying("retried", run.Retry{MaxAttempts: 3}))
	plan.FailFast = true
	w := newWorkflowEnv(t, plan)
	w.on("a", hold)
	w.on("queued", leaveQueued)
	w.on("running", hold)
	w.on("retried", hold)
	w.at(time.Minute, func() { w.complete(0, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil) })
	w.at(2*time.Minute, func() { w.complete(5, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil) })
	w.at(3*time.Minute, func() { w.complete(2, 1, 1, ended(run.StatusSuccess, "", ""), nil) })
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, []run.Status{
		run.StatusFailed, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusFailed,
	}, w.statuses())
	require.Equal(t, "fail_fast is set and a task has failed", w.tasks[1].Reason)
	require.NotContains(t, w.requests(), "execute retried 2.1 on pool:linux")
}

func TestFailFast_while_a_task_waits_for_its_retry(t *testing.T) {
	t.Parallel()
	plan := newPlan(node("a"), retrying("b", run.Retry{MaxAttempts: 2, Backoff: run.Duration(time.Hour)}))
	plan.FailFast = true
	w := newWorkflowEnv(t, plan)
	w.on("a", hold)
	w.on("b", failStep)
	w.at(time.Minute, func() { w.complete(0, 1, 1, ended(run.StatusFailed, run.CauseStep, "no"), nil) })
	begin := w.env.Now()
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Less(t, w.env.Now().Sub(begin), 2*time.Minute)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusFailed}, w.statuses())
	require.Equal(t, "attempt 1 failed: step 1 exited with code 3; not tried again: fail_fast is set and a task has failed", w.tasks[1].Reason)
}

func TestApproval(t *testing.T) {
	t.Parallel()
	approved := node("a")
	approved.Approvers = 2
	for name, trigger := range map[string]func(w *workflowEnv){
		"by a signal": func(w *workflowEnv) { w.env.SignalWorkflow(contract.SignalApprove, contract.Approve{Task: 0}) },
		"by a signal that comes twice": func(w *workflowEnv) {
			w.env.SignalWorkflow(contract.SignalApprove, contract.Approve{Task: 0})
			w.env.SignalWorkflow(contract.SignalApprove, contract.Approve{Task: 0})
			w.env.SignalWorkflow(contract.SignalApprove, contract.Approve{Task: 77})
		},
		"by what stands in the records": func(w *workflowEnv) {
			w.fakeRecords.mu.Lock()
			w.approved = []int{0}
			w.fakeRecords.mu.Unlock()
			w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(approved, node("b")))
			w.on("b", hold)
			w.at(time.Minute, func() { require.Equal(t, run.StatusWaitingApproval, w.tasks[0].Status) })
			w.at(2*time.Minute, func() { trigger(w) })
			w.at(3*time.Minute, func() {
				if w.statuses()[1] != run.StatusSuccess {
					w.complete(1, 1, 1, ended(run.StatusSuccess, "", ""), nil)
				}
			})
			require.Equal(t, run.ResultSuccess, w.run().Result)
			require.Equal(t, []change{
				{0, 0, 0, run.StatusWaitingApproval, "waits for 2 approvals"}, {0, 1, 1, run.StatusQueued, ""}, {0, 1, 1, run.StatusSuccess, ""},
			}, w.writes(0))
		})
	}
}

func TestAdmission_manual(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.admitted = false
	w.at(time.Hour, func() {
		require.Equal(t, run.PhaseQueued, w.phase)
		w.env.SignalWorkflow(contract.SignalAdmit, nil) // too early: the run reads the records, and continues to wait
	})
	w.at(2*time.Hour, func() {
		w.fakeRecords.mu.Lock()
		w.admitted = true
		w.fakeRecords.mu.Unlock()
		w.env.SignalWorkflow(contract.SignalAdmit, nil)
	})
	begin := w.env.Now()
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.GreaterOrEqual(t, w.env.Now().Sub(begin), 2*time.Hour)
}

func TestAdmission_cancelled(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.admitted = false
	w.signal(time.Minute, contract.SignalStop, nil)
	w.signal(time.Minute, contract.SignalApprove, contract.Approve{Task: 0})
	w.at(time.Hour, func() {
		w.fakeRecords.mu.Lock()
		w.phase = run.PhaseCancelled
		w.fakeRecords.mu.Unlock()
		w.env.SignalWorkflow(contract.SignalCancel, nil)
	})
	out := w.run()
	require.Equal(t, contract.RunOutput{Phase: run.PhaseCancelled, Result: run.ResultUnknown}, out)
	require.Empty(t, w.requests())
	require.Zero(t, w.applies)
}

func TestPlan_of_several_pages(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0), node("c", 1), node("d", 2), node("e", 3)))
	w.pageSize = 2
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), 5)
}

func TestRecords_outage(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b", 0)))
	w.onApply = func(c records.Changes) {
		if len(c.Tasks) > 0 && c.Tasks[0].Status == run.StatusSuccess {
			w.onApply = nil
			w.failures = 15 // longer than a local activity retries
		}
	}
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []run.Status{run.StatusSuccess, run.StatusSuccess}, w.statuses())
	require.Zero(t, w.failures)
}
