package workflows

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// runner is one execution of the run workflow.
type runner struct {
	in     contract.RunInput
	limits contract.Limits
	log    log.Logger
	calls  calls
	root   workflow.Context // cancelled when the workflow is cancelled

	plan         run.Plan
	graph        *graph.Graph // nil until the plan is loaded
	open         int          // tasks that a restart did not keep: all tasks of a run that is no restart
	taskSet      *taskSet
	writes       *pendingWrites
	batches      *batches
	signals      signals
	visibility   visibility
	dynamicTasks dynamicTasks
	waits        waits
	finally      finallyTasks

	phase    run.Phase
	started  time.Time
	deadline workflow.Future // the run's timeout; nil for none

	stopped         *contract.Stop
	interrupted     bool                // the stop, or the timeout, kept a task from its end
	failedTask      int                 // the task that made the result failed, -1 for none
	failFastApplied bool                // fail fast has withdrawn the queued tasks
	written         contract.ApplyInput // result and reason as the records have them
	closed          bool                // the records have a final phase

	recheck bool // the records may have another phase
	forced  bool // a signal asks it to continue as new
}

// newRunner returns a runner for the input. It creates no events in the
// history.
func newRunner(root workflow.Context, in contract.RunInput) *runner {
	r := &runner{
		in: in, limits: limits(in.Limits), log: workflow.GetLogger(root), root: root,
		writes: newPendingWrites(), phase: run.PhaseQueued, failedTask: -1,
	}
	r.calls = calls{run: in.Run, priority: workflow.GetInfo(root).Priority}
	r.taskSet = newTaskSet(r.calls, r.writes, r.limits)
	r.batches = newBatches(r)
	r.signals = r.newSignals(root)
	r.dynamicTasks.r = r
	r.waits.r = r
	r.finally.r = r
	return r
}

// run executes the run to its end. A cancellation of the workflow only requests
// a stop, so everything happens on a context that outlives the cancellation.
func (r *runner) run(root workflow.Context) (contract.RunOutput, error) {
	ctx, _ := workflow.NewDisconnectedContext(root)
	r.visibility.load(ctx)
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
		if r.idle() && (r.forced || r.taskSet.historyExhausted(ctx)) {
			return contract.RunOutput{}, r.continueAsNew(root)
		}
		r.publish(ctx)
		r.await(ctx)
	}
	r.publish(ctx)
	if r.phase == run.PhaseCancelled {
		r.signals.drain(ctx) // discards the signal of the cancellation, which the records have reported
	}
	return r.close(ctx)
}

// turn handles signals and results, decides which tasks follow, and writes the
// changes. again is true if it wrote, because then more may have to be decided.
func (r *runner) turn(ctx workflow.Context) (again bool, err error) {
	r.signals.drain(ctx)
	r.checkStop(ctx)
	r.taskSet.wake(ctx)
	r.applyResults()
	r.dynamicTasks.apply()
	if err := r.waits.apply(ctx); err != nil {
		return false, err
	}
	r.decide(ctx)
	if r.dirty() {
		return true, r.write(ctx)
	}
	if r.closed && r.taskSet.idle() && r.batches.idle() {
		r.phase = run.PhaseFinished
	}
	return false, nil
}

// await blocks until there is work.
func (r *runner) await(ctx workflow.Context) {
	// ctx is disconnected and never cancelled.
	_ = workflow.Await(ctx, func() bool {
		return r.signals.waiting() || len(r.taskSet.endings) > 0 || r.taskSet.answered() || !r.writes.empty() || r.batches.hasWork() || r.dynamicTasks.hasWork() || r.waits.hasWork() ||
			r.timedOut() || r.finally.timedOut() || (r.stopped == nil && r.root.Err() != nil)
	})
}

// idle reports whether the execution can end here without losing anything: no
// activity is open, no start of or signal to a batch is in flight, and no
// signal is unread.
func (r *runner) idle() bool {
	return r.taskSet.idle() && r.writes.empty() && r.batches.quiet() && r.dynamicTasks.idle() && r.waits.idle() && !r.signals.waiting()
}

// dirty reports whether there are changes to write.
func (r *runner) dirty() bool {
	if r.closed {
		return !r.writes.empty() // the records refuse it, and the waiting futures get the task's state
	}
	result, reason := r.result()
	return !r.writes.empty() || r.graph.Done() && r.taskSet.idle() || result != r.written.Result || reason != r.written.Reason
}

// write writes one transaction, and finishes the run with the last one.
func (r *runner) write(ctx workflow.Context) error {
	result, reason := r.result()
	last := r.graph.Done() && r.taskSet.idle() && r.writes.fits() && !r.closed
	in := contract.ApplyInput{Finish: last}
	if last || result == run.ResultFailed && !r.closed {
		in.Result, in.Reason = result, reason
	}
	status, err := r.writes.flush(ctx, r.calls, in)
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
	r.applyRunStatus(ctx, status)
	return nil
}

// applyRunStatus applies the run's state in the records.
func (r *runner) applyRunStatus(ctx workflow.Context, s run.Progress) {
	for _, task := range s.Approved {
		r.approve(task)
	}
	for _, task := range s.Granted {
		r.graph.Grant(task)
	}
	if s.StopRequested {
		r.stop(ctx, contract.Stop{Reason: stopReason})
	}
	if s.Phase.Final() && !r.closed {
		// The run was closed from outside: end its remaining tasks.
		r.closed = true
		r.written.Result = s.Result
		r.stop(ctx, contract.Stop{Reason: closedReason, Finally: closedReason})
	}
}

// continueAsNew starts a new execution with the state of this one.
func (r *runner) continueAsNew(ctx workflow.Context) error {
	state := &contract.RunState{
		Statuses: r.graph.Statuses(), DynamicTasks: r.graph.DynamicTasks(), Started: r.started, Stop: r.stopped, Interrupted: r.interrupted, FailedTask: r.failedTask,
		Result: r.written.Result, Reason: r.written.Reason, Removed: r.taskSet.removals(), FinallyDue: r.finally.due,
	}
	if r.in.State != nil {
		state.Continued = r.in.State.Continued
	}
	state.Continued++
	r.batches.save(state)
	return workflow.NewContinueAsNewError(ctx, contract.RunWorkflow, contract.RunInput{Run: r.in.Run, State: state, Limits: r.in.Limits})
}
