package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// begin waits until the run is admitted, and loads its plan. If the run is
// cancelled before, or is final already, r.phase has that phase.
func (r *runner) begin(ctx workflow.Context) error {
	out, err := r.calls.begin(ctx, true)
	if err != nil {
		return err
	}
	r.setPhase(out.Status)
	if r.phase == run.PhaseQueued || r.phase == run.PhaseRunning {
		if err := r.load(ctx, out.Page); err != nil {
			return err
		}
	}
	for r.phase == run.PhaseQueued {
		if out, err = r.awaitAdmission(ctx); err != nil {
			return err
		}
		r.setPhase(out.Status)
	}
	if r.phase != run.PhaseRunning {
		return nil
	}
	if err := r.restore(ctx); err != nil {
		return err
	}
	r.applyRunStatus(ctx, out.Status)
	return nil
}

// awaitAdmission waits until the records may have another phase.
func (r *runner) awaitAdmission(ctx workflow.Context) (contract.BeginResult, error) {
	r.publish(ctx)
	for r.recheck = false; !r.recheck; {
		if err := workflow.Await(ctx, r.signals.waiting); err != nil {
			return contract.BeginResult{}, err
		}
		// Stops and approvals have no effect before the run begins. Signals
		// that only ask for a recheck need no distinction.
		r.signals.drain(ctx)
	}
	return r.calls.begin(ctx, false)
}

func (r *runner) setPhase(s run.Progress) {
	r.phase = s.Phase
	r.written.Result = s.Result
	if s.Result == "" {
		r.written.Result = run.ResultUnknown
	}
}

// load merges the pages of the plan and builds the graph.
func (r *runner) load(ctx workflow.Context, page *contract.PlanPage) error {
	if page == nil {
		return temporal.NewNonRetryableApplicationError("the plan is missing", string(run.CodeInternal), nil)
	}
	pages := []run.Plan{page.Plan}
	for n := 1; page.More; n++ {
		next, err := r.calls.loadPlan(ctx, n)
		if err != nil {
			return err
		}
		pages = append(pages, next.Plan)
		page = &next
	}
	r.plan = run.MergePlans(pages)
	r.calls.priority = contract.Priority(r.plan.Priority, r.plan.Group)
	r.taskSet.calls = r.calls
	return r.newGraph()
}

func (r *runner) newGraph() error {
	graph, err := graph.New(r.plan.Nodes, r.plan.FailFast)
	if err != nil {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("the plan is not a valid graph: %v", err), string(run.CodeInternal), err)
	}
	r.graph = graph
	return nil
}

// checkFinally makes the finally tasks ordinary ones in an execution that a control
// worker has begun which did not know them, and so has started them with the run.
func (r *runner) checkFinally(ctx workflow.Context) error {
	if !r.finally.exist() || knowsFinally(ctx) {
		return nil
	}
	for i := range r.plan.Nodes {
		r.plan.Nodes[i].Finally = false
	}
	return r.newGraph()
}

// checkSlots leaves the slots of tasks to the records in an execution that a control worker has
// begun which did not know them, and so has queued the tasks at once: the records let no
// task be queued that lacks its slots.
func (r *runner) checkSlots(ctx workflow.Context) error {
	grouped := func(n run.Node) bool { return n.ChangeGroups }
	if !slices.ContainsFunc(r.plan.Nodes, grouped) || knowsSlots(ctx) {
		return nil
	}
	for i := range r.plan.Nodes {
		r.plan.Nodes[i].ChangeGroups = false
	}
	return r.newGraph()
}

// checkMaxParallel leaves out the limits of the tasks of a matrix or a list in an execution that a
// control worker has begun which did not know them.
func (r *runner) checkMaxParallel(ctx workflow.Context) error {
	limited := func(n run.Node) bool { return n.MaxParallel > 0 }
	if !slices.ContainsFunc(r.plan.Nodes, limited) || workflow.GetVersion(ctx, changeMaxParallel, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		return nil
	}
	for i := range r.plan.Nodes {
		r.plan.Nodes[i].MaxParallel = 0
	}
	return r.newGraph()
}

// restore continues from the state of an earlier execution, or starts at the
// beginning. A run that is a restart begins with the tasks that the restart
// kept.
func (r *runner) restore(ctx workflow.Context) error {
	r.started = workflow.Now(ctx)
	if err := r.checkFinally(ctx); err != nil {
		return err
	}
	if err := r.checkSlots(ctx); err != nil {
		return err
	}
	if err := r.checkMaxParallel(ctx); err != nil {
		return err
	}
	if err := r.restoreKept(); err != nil {
		return err
	}
	if s := r.in.State; s != nil {
		for _, x := range s.DynamicTasks {
			if err := r.graph.AddDynamicTasks(x); err != nil {
				return temporal.NewNonRetryableApplicationError(fmt.Sprintf("the carried state does not match the graph: %v", err), string(run.CodeInternal), err)
			}
			r.open += x.Width
		}
		if err := r.graph.Restore(s.Statuses); err != nil {
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("the carried state does not match the graph: %v", err), string(run.CodeInternal), err)
		}
		r.started, r.interrupted, r.failedTask = s.Started, s.Interrupted, s.FailedTask
		r.written.Result, r.written.Reason, r.finally.due = s.Result, s.Reason, s.FinallyDue
		for _, e := range s.Removed {
			r.taskSet.remove(ctx, e)
		}
		r.batches.restore(s)
		if s.Stop != nil {
			r.stop(ctx, *s.Stop)
		}
	}
	if timeout := r.plan.Timeout.Std(); timeout > 0 && r.stopped == nil {
		r.deadline = workflow.NewTimer(ctx, max(0, r.started.Add(timeout).Sub(workflow.Now(ctx))))
	}
	return nil
}

// restoreKept sets the statuses of the tasks that the restart kept. A kept task that
// failed makes the run fail again.
func (r *runner) restoreKept() error {
	r.open = r.graph.Len()
	if len(r.plan.Kept) == 0 {
		return nil
	}
	if err := r.graph.Keep(r.plan.Kept); err != nil {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("the kept tasks do not match the graph: %v", err), string(run.CodeInternal), err)
	}
	r.open = r.graph.Count(run.StatusNotStarted)
	if r.graph.Result() == run.ResultFailed {
		r.failedTask = r.firstTask(run.StatusFailed)
	}
	return nil
}

// firstTask returns the first task with a status that counts for the result, or -1.
func (r *runner) firstTask(s run.Status) int {
	for task := range r.graph.Len() {
		if r.graph.Status(task) == s && (s != run.StatusFailed || !r.plan.Nodes[r.graph.NodeOf(task)].AllowFailure) {
			return task
		}
	}
	return -1
}
