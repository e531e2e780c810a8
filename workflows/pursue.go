package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// pursue tells whoever has a task of a stopped crew to stop it, and goes on
// until every task ended. It only hastens what the cancellation of execute-task
// brings by the executor's next heartbeat, and it is what reaches an executor
// that comes back after it was out of contact. A holder may show late: a claim
// can be under way while the run is stopped.
func (c *crew) pursue(ctx workflow.Context) {
	defer func() { c.pursuing = false }()
	for wait := time.Second; len(c.jobs) > 0; wait = min(2*wait, longestPursuit) {
		found, err := c.calls.holders(ctx, workflow.DeterministicKeys(c.jobs)...)
		if err != nil { // the records refuse: there is no such run any more
			workflow.GetLogger(ctx).Warn("asking who has the tasks failed", "error", err)
		}
		holders := make(map[int]contract.Holder, len(found.Holders))
		for _, h := range found.Holders {
			holders[h.Task] = h
		}
		c.each(func(j *job) {
			holder, set := j.holder, j.set
			if holder == "" && set == "" {
				holder, set = holders[j.Task].Executor, holders[j.Task].Set
			}
			if (holder != "" || set != "") && j.hush == nil && (!j.told || wait >= tellAgain) {
				j.tellStop(ctx, contract.HolderQueue(holder, set))
			}
		})
		_, _ = workflow.AwaitWithTimeout(ctx, wait, func() bool { return len(c.jobs) == 0 })
	}
}

// tellStop sends stop-task to the queue of who has the task. One that knows
// the task is told again much later, since its process may have died over it.
func (j *job) tellStop(ctx workflow.Context, queue string) {
	ctx, j.hush = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := j.crew.calls.stop(ctx, queue, j.Assignment)
		if err != nil && !j.ended {
			workflow.GetLogger(ctx).Warn("telling an executor to stop failed", "task", j.Name, "queue", queue, "error", err)
		}
		j.told, j.hush = out.Known, nil
	})
}
