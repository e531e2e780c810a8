package workflows

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// batchRunner is one execution of the batch workflow. It never continues as
// new: when its history is long, it returns the tasks that it would begin to
// its run.
type batchRunner struct {
	in     contract.BatchInput
	limits contract.Limits
	log    log.Logger
	root   workflow.Context

	crew   *crew
	ledger *ledger
	inbox  inbox
	report report

	orphan bool // the run has no workflow to report to
}

func newBatchRunner(root workflow.Context, in contract.BatchInput) *batchRunner {
	b := &batchRunner{
		in: in, limits: limits(in.Limits), log: workflow.GetLogger(root), root: root,
		ledger: newLedger(), report: report{run: in.Run, batch: in.Batch},
	}
	b.crew = newCrew(calls{run: in.Run, priority: contract.Priority(in.Priority, in.Group)}, b.ledger, b.limits)
	b.inbox = inbox{
		on(root, contract.SignalBatchMore, func(ctx workflow.Context, m contract.BatchMore) { b.crew.start(ctx, m.Tasks...) }),
		on(root, contract.SignalBatchStop, func(ctx workflow.Context, s contract.Stop) { b.crew.stop(ctx, s) }),
		on(root, contract.SignalBatchWithdraw, func(ctx workflow.Context, w contract.BatchWithdraw) {
			b.crew.withdraw(ctx, w.Tasks, w.Reason)
		}),
		on(root, contract.SignalExecutorRemoved, func(ctx workflow.Context, e contract.ExecutorRemoved) { b.crew.remove(ctx, e) }),
	}
	return b
}

// run runs the tasks of the batch. A cancellation of the workflow stops them,
// on a context that outlives the cancellation.
func (b *batchRunner) run(root workflow.Context) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	for _, e := range b.in.Removed {
		b.crew.remove(ctx, e)
	}
	if b.in.Stop != nil {
		b.crew.stop(ctx, *b.in.Stop)
	}
	b.crew.start(ctx, b.in.Tasks...)
	for {
		again, err := b.turn(ctx)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if b.over(ctx) {
			return nil
		}
		b.await(ctx)
	}
}

// turn handles signals and answers, writes the changes, and then reports them.
func (b *batchRunner) turn(ctx workflow.Context) (again bool, err error) {
	b.inbox.drain(ctx)
	if b.root.Err() != nil {
		b.crew.stop(ctx, contract.Stop{Reason: "the workflow of its batch was cancelled"})
	}
	b.crew.wake(ctx)
	endings := b.crew.take()
	for !b.ledger.empty() {
		standing, err := b.ledger.flush(ctx, b.crew.calls, contract.ApplyInput{})
		if err != nil {
			return false, err
		}
		again = true
		b.stand(ctx, standing)
	}
	b.report.add(endings)
	if b.report.gone && !b.orphan {
		b.orphan = true
		b.crew.stop(ctx, contract.Stop{Reason: "the workflow of its run has ended"})
	}
	b.report.send(ctx, b.crew.idle())
	return again, nil
}

// stand applies the run's state in the records.
func (b *batchRunner) stand(ctx workflow.Context, s contract.Standing) {
	if s.Phase.Final() || s.StopWanted {
		reason := stopReason
		if s.Phase.Final() {
			reason = closedReason
		}
		b.crew.stop(ctx, contract.Stop{Reason: reason})
	}
}

func (b *batchRunner) await(ctx workflow.Context) {
	// ctx is disconnected and never cancelled.
	_ = workflow.Await(ctx, func() bool {
		idle := b.crew.idle()
		return b.inbox.waiting() || len(b.crew.endings) > 0 || b.crew.answered() || !b.ledger.empty() ||
			b.report.due(idle) || b.report.gone != b.orphan || idle && b.report.restless() || (b.crew.stopped == nil && b.root.Err() != nil)
	})
}

// over reports whether the batch is complete: all results are reported, and the
// batch has lingered for more tasks or accepts no more.
func (b *batchRunner) over(ctx workflow.Context) bool {
	if !b.crew.idle() || !b.report.empty() || b.inbox.waiting() {
		b.report.busy()
		return false
	}
	if b.orphan || b.crew.stopped != nil || b.crew.given >= b.limits.Batch || b.crew.spent(ctx) {
		return true
	}
	return b.report.lingered(ctx)
}
