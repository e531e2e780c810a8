package workflows

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// runner is one execution of the run workflow.
type runner struct {
	in     contract.RunInput
	limits contract.Limits
	log    log.Logger
	calls  calls
	root   workflow.Context // cancelled when the workflow is cancelled

	plan    run.Plan
	graph   *run.Graph // nil until the plan is loaded
	open    int        // tasks that a restart did not keep: all tasks of a run that is no restart
	crew    *crew
	ledger  *ledger
	batches *batches
	inbox   inbox
	board   board
	growth  growth

	phase    run.Phase
	started  time.Time
	deadline workflow.Future // the run's timeout; nil for none

	stopped  *contract.Stop
	cut      bool                // the stop, or the timeout, kept a task from its end
	culprit  int                 // the task that made the result failed, -1 for none
	unwanted bool                // fail fast has withdrawn the queued tasks
	written  contract.ApplyInput // result and reason as the records have them
	closed   bool                // the records have a final phase

	nudged bool // the records may have another phase
	forced bool // a signal asks it to continue as new
}

// newRunner returns a runner for the input. It creates no events in the
// history.
func newRunner(root workflow.Context, in contract.RunInput) *runner {
	r := &runner{
		in: in, limits: limits(in.Limits), log: workflow.GetLogger(root), root: root,
		ledger: newLedger(), phase: run.PhaseQueued, culprit: -1,
	}
	r.calls = calls{run: in.Run, priority: workflow.GetInfo(root).Priority}
	r.crew = newCrew(r.calls, r.ledger, r.limits)
	r.batches = newBatches(r)
	r.inbox = r.newInbox(root)
	r.growth.r = r
	return r
}

// run executes the run to its end. A cancellation of the workflow only requests
// a stop, so everything happens on a context that outlives the cancellation.
func (r *runner) run(root workflow.Context) (contract.RunOutput, error) {
	ctx, _ := workflow.NewDisconnectedContext(root)
	r.board.begin(ctx)
	if err := r.begin(ctx); err != nil {
		return contract.RunOutput{}, err
	}
	for r.phase == run.PhaseRunning {
		again, err := r.turn(ctx)
		if err != nil {
			return contract.RunOutput{}, err
		}
		if r.phase != run.PhaseRunning || again {
			continue
		}
		if r.idle() && (r.forced || r.crew.spent(ctx)) {
			return contract.RunOutput{}, r.continueAsNew(root)
		}
		r.publish(ctx)
		r.await(ctx)
	}
	r.publish(ctx)
	if r.phase == run.PhaseCancelled {
		r.inbox.drain(ctx) // discards the signal of the cancellation, which the records have reported
	}
	return contract.RunOutput{Phase: r.phase, Result: r.written.Result, Reason: r.written.Reason}, nil
}

// turn handles signals and results, decides which tasks follow, and writes the
// changes. again is true if it wrote, because then more may have to be decided.
func (r *runner) turn(ctx workflow.Context) (again bool, err error) {
	r.inbox.drain(ctx)
	r.heed(ctx)
	r.crew.wake(ctx)
	r.absorb()
	r.growth.take()
	r.decide(ctx)
	if r.dirty() {
		return true, r.write(ctx)
	}
	if r.closed && r.crew.idle() && r.batches.idle() {
		r.phase = run.PhaseFinished
	}
	return false, nil
}

// await blocks until there is work.
func (r *runner) await(ctx workflow.Context) {
	// ctx is disconnected and never cancelled.
	_ = workflow.Await(ctx, func() bool {
		return r.inbox.waiting() || len(r.crew.endings) > 0 || r.crew.answered() || !r.ledger.empty() || r.batches.news() || r.growth.news() ||
			r.timedOut() || (r.stopped == nil && r.root.Err() != nil)
	})
}

// idle reports whether the execution can end here without losing anything: no
// activity is open, no start of or signal to a batch is in flight, and no
// signal is unread.
func (r *runner) idle() bool {
	return r.crew.idle() && r.ledger.empty() && r.batches.quiet() && r.growth.idle() && !r.inbox.waiting()
}

// dirty reports whether there are changes to write.
func (r *runner) dirty() bool {
	if r.closed {
		return !r.ledger.empty() // the records refuse it, and the waiting futures get the task's state
	}
	result, reason := r.result()
	return !r.ledger.empty() || r.graph.Done() && r.crew.idle() || result != r.written.Result || reason != r.written.Reason
}

// write writes one transaction, and finishes the run with the last one.
func (r *runner) write(ctx workflow.Context) error {
	result, reason := r.result()
	last := r.graph.Done() && r.crew.idle() && r.ledger.fits() && !r.closed
	in := contract.ApplyInput{Finish: last}
	if last || result == run.ResultFailed && !r.closed {
		in.Result, in.Reason = result, reason
	}
	standing, err := r.ledger.flush(ctx, r.calls, in)
	if err != nil {
		return err
	}
	if in.Result != "" {
		r.written.Result, r.written.Reason = result, reason
	}
	if last {
		r.phase = run.PhaseFinished
		return nil
	}
	r.stand(ctx, standing)
	return nil
}

// stand applies the run's state in the records.
func (r *runner) stand(ctx workflow.Context, s contract.Standing) {
	for _, task := range s.Approved {
		r.approve(task)
	}
	if s.StopWanted {
		r.stop(ctx, contract.Stop{Reason: stopReason})
	}
	if s.Phase.Final() && !r.closed {
		// The run was closed from outside: end its remaining tasks.
		r.closed = true
		r.written.Result = s.Result
		r.stop(ctx, contract.Stop{Reason: closedReason})
	}
}

// continueAsNew starts a new execution with the state of this one.
func (r *runner) continueAsNew(ctx workflow.Context) error {
	state := &contract.RunState{
		Statuses: r.graph.Statuses(), Grown: r.graph.Grown(), Started: r.started, Stop: r.stopped, Cut: r.cut, Culprit: r.culprit,
		Result: r.written.Result, Reason: r.written.Reason, Removed: r.crew.removals(),
	}
	if r.in.State != nil {
		state.Continued = r.in.State.Continued
	}
	state.Continued++
	r.batches.save(state)
	return workflow.NewContinueAsNewError(ctx, contract.RunWorkflow, contract.RunInput{Run: r.in.Run, State: state, Limits: r.in.Limits})
}
