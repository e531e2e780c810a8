package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// The records end a rejected task, and send the same signal as for an approval: the
// workflow finds that the task is final, dispatches nothing, and continues with its
// dependents.
func TestReject(t *testing.T) {
	t.Parallel()
	gate := node("gate")
	gate.Approvers = 1
	gate.Retry.MaxAttempts = 3
	rescue, after := node("rescue", 0), node("after", 0)
	rescue.Depends[0].On = run.MaskFailure
	for name, width := range map[string]int{"inline": 0, "in batches": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := newPlan(gate, rescue, after)
			w := newWorkflowEnv(t, plan)
			if width > 0 {
				w = inBatches(t, width, plan)
			}
			w.at(time.Minute, func() {
				w.fakeRecords.mu.Lock()
				defer w.fakeRecords.mu.Unlock()
				require.Equal(t, run.StatusWaitingApproval, w.tasks[0].Status)
				w.tasks[0].Status, w.tasks[0].Reason = run.StatusFailed, "rejected by bob: no"
				w.approved = []int{0}
			})
			w.signal(2*time.Minute, contract.SignalApprove, contract.Approve{Task: 0})
			require.Equal(t, run.ResultFailed, w.run().Result)
			require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSkipped}, w.statuses())
			require.Equal(t, "rejected by bob: no", w.tasks[0].Reason)
			for _, request := range w.requests() {
				require.NotContains(t, request, "gate")
			}
		})
	}
}
