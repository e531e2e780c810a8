package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// propagateStop sends a stop to the holders of the tasks of a stopped task set until
// every task has ended. The cancellation of execute-task would reach an
// executor with its next heartbeat anyway; this is faster, and it also reaches
// an executor that returns after it was out of contact. A holder may appear
// late: a claim can be in flight while the run is stopped.
func (c *taskSet) propagateStop(ctx workflow.Context) {
	defer func() { c.propagatingStop = false }()
	for wait := time.Second; len(c.taskRuns) > 0; wait = min(2*wait, maxStopBackoff) {
		found, err := c.calls.holders(ctx, workflow.DeterministicKeys(c.taskRuns)...)
		if err != nil { // the records refuse: the run no longer exists
			workflow.GetLogger(ctx).Warn("failed to read the holders of tasks", "error", err)
		}
		holders := make(map[int]contract.Holder, len(found.Holders))
		for _, h := range found.Holders {
			holders[h.Task] = h
		}
		c.each(func(j *taskRun) {
			holder, set := j.holder, j.set
			if holder == "" && set == "" {
				holder, set = holders[j.Task].Executor, holders[j.Task].Set
			}
			if (holder != "" || set != "") && j.cancelStopRetry == nil && (!j.stopAcknowledged || wait >= stopResendInterval) {
				j.sendStop(ctx, contract.HolderQueue(holder, set))
			}
		})
		_, _ = workflow.AwaitWithTimeout(ctx, wait, func() bool { return len(c.taskRuns) == 0 })
	}
}

// sendStop sends stop-task to the queue of the holder. It is sent again to a
// holder that acknowledged it, but much later: the holder's process may have
// died meanwhile.
func (j *taskRun) sendStop(ctx workflow.Context, queue string) {
	ctx, j.cancelStopRetry = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := j.taskSet.calls.stop(ctx, queue, j.Assignment)
		if err != nil && !j.ended {
			workflow.GetLogger(ctx).Warn("failed to send a stop to an executor", "task", j.Name, "queue", queue, "error", err)
		}
		j.stopAcknowledged, j.cancelStopRetry = out.Known, nil
	})
}
