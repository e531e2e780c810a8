package workflows

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// batchRunner is one execution of the batch workflow. It never continues as
// new: when its history is long, it returns the tasks that it would begin to
// its run.
type batchRunner struct {
	in     contract.BatchInput
	limits contract.Limits
	log    log.Logger
	root   workflow.Context

	taskSet *taskSet
	writes  *pendingWrites
	signals signals
	report  report

	orphan bool // the run has no workflow to report to
}

func newBatchRunner(root workflow.Context, in contract.BatchInput) *batchRunner {
	b := &batchRunner{
		in: in, limits: limits(in.Limits), log: workflow.GetLogger(root), root: root,
		writes: newPendingWrites(), report: report{run: in.Run, batch: in.Batch},
	}
	b.taskSet = newTaskSet(calls{run: in.Run, priority: contract.Priority(in.Priority, in.Group)}, b.writes, b.limits)
	b.signals = signals{
		on(root, contract.SignalBatchAddTasks, func(ctx workflow.Context, m contract.BatchAddTasks) { b.taskSet.start(ctx, m.Tasks...) }),
		on(root, contract.SignalBatchStop, func(ctx workflow.Context, s contract.Stop) { b.taskSet.stop(ctx, s) }),
		on(root, contract.SignalBatchWithdrawTasks, func(ctx workflow.Context, w contract.BatchWithdrawTasks) {
			b.taskSet.withdraw(ctx, w.Tasks, w.Reason, w.Stop)
		}),
		on(root, contract.SignalExecutorRemoved, func(ctx workflow.Context, e contract.ExecutorRemoved) { b.taskSet.remove(ctx, e) }),
	}
	return b
}

// run runs the tasks of the batch. A cancellation of the workflow stops them,
// on a context that outlives the cancellation.
func (b *batchRunner) run(root workflow.Context) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	for _, e := range b.in.Removed {
		b.taskSet.remove(ctx, e)
	}
	if b.in.Stop != nil {
		b.taskSet.stop(ctx, *b.in.Stop)
	}
	b.taskSet.start(ctx, b.in.Tasks...)
	for {
		again, err := b.turn(ctx)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if b.complete(ctx) {
			return nil
		}
		b.await(ctx)
	}
}

// turn handles signals and answers, writes the changes, and then reports them.
func (b *batchRunner) turn(ctx workflow.Context) (again bool, err error) {
	b.signals.drain(ctx)
	if b.root.Err() != nil {
		b.stopAll(ctx, "the workflow of its batch was cancelled")
	}
	b.taskSet.wake(ctx)
	endings := b.taskSet.takeEndings()
	for !b.writes.empty() {
		status, err := b.writes.flush(ctx, b.taskSet.calls, contract.ApplyInput{})
		if err != nil {
			return false, err
		}
		again = true
		b.applyRunStatus(ctx, status)
	}
	b.report.add(endings)
	if b.report.runGone && !b.orphan {
		b.orphan = true
		b.stopAll(ctx, "the workflow of its run has ended")
	}
	b.report.send(ctx, b.taskSet.idle())
	return again, nil
}

// stopAll stops all tasks, finally tasks too.
func (b *batchRunner) stopAll(ctx workflow.Context, reason string) {
	b.taskSet.stop(ctx, contract.Stop{Reason: reason, Finally: reason})
}

// applyRunStatus applies the run's state in the records.
func (b *batchRunner) applyRunStatus(ctx workflow.Context, s run.Progress) {
	if s.Phase.Final() || s.StopRequested {
		if s.Phase.Final() {
			b.stopAll(ctx, closedReason)
			return
		}
		b.taskSet.stop(ctx, contract.Stop{Reason: stopReason})
	}
}

func (b *batchRunner) await(ctx workflow.Context) {
	// ctx is disconnected and never cancelled.
	_ = workflow.Await(ctx, func() bool {
		idle := b.taskSet.idle()
		return b.signals.waiting() || len(b.taskSet.endings) > 0 || b.taskSet.answered() || !b.writes.empty() ||
			b.report.ready(idle) || b.report.runGone != b.orphan || idle && b.report.mustCheckIdle() || (b.taskSet.stopped == nil && b.root.Err() != nil)
	})
}

// complete reports whether the batch is complete: all results are reported, and the
// batch has lingered for more tasks or accepts no more.
func (b *batchRunner) complete(ctx workflow.Context) bool {
	if !b.taskSet.idle() || !b.report.empty() || b.signals.waiting() {
		b.report.resetIdle()
		return false
	}
	if b.orphan || b.taskSet.stopped != nil || b.taskSet.assigned >= b.limits.BatchTasks || b.taskSet.historyExhausted(ctx) {
		return true
	}
	return b.report.idleExpired(ctx)
}
