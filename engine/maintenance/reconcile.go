package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine/outbox"
	"github.com/drover-run/drover/run"
)

// The parameters of the Reconciler. It asks Temporal for workflows that closed
// other than by completing, so that its cost grows with those and not with the
// number of runs.
const (
	reconcileEvery = 10 * time.Second
	// reconcileBack is how far the first query goes back. It covers runs whose
	// workflow closed while no control worker ran.
	reconcileBack = 24 * time.Hour
	// reconcileOverlap covers the delay of Temporal's visibility.
	reconcileOverlap = time.Minute
	// reconcileRuns is how many open runs are compared with Temporal in each
	// round, in rotation: Temporal does not report a deleted workflow. The cost
	// does not depend on the number of runs.
	reconcileRuns = 20
)

// ReconcilerStore is the part of the records that a Reconciler uses.
type ReconcilerStore interface {
	GetSummary(ctx context.Context, id run.ID) (run.Run, error)
	OpenRuns(ctx context.Context, after run.ID, n int) ([]run.ID, error)
	CloseLost(ctx context.Context, id run.ID, reason string) error
	GetExecutor(ctx context.Context, id string) (run.Executor, error)
	GetFleet(ctx context.Context, name string) (run.Fleet, error)
}

// Reconciler finds runs that are open in the records although their workflow
// was terminated, deleted, or cancelled before it ran, and closes them. It
// signals the change-group workflow again if that was terminated, because its
// last signal may have been lost. It does the same for the workflows of
// executors and fleets, which nothing else may start for a long time.
type Reconciler struct {
	store        ReconcilerStore
	temporal     client.Client
	namespace    string
	logger       *slog.Logger
	signalled    map[string]time.Time // closed executions that were signalled again, with their close time
	lastCompared run.ID               // the open run compared last
}

// NewReconciler returns a Reconciler that does nothing until Run.
func NewReconciler(store ReconcilerStore, c client.Client, namespace string, logger *slog.Logger) *Reconciler {
	return &Reconciler{store: store, temporal: c, namespace: namespace, logger: logger, signalled: map[string]time.Time{}}
}

// Run runs a round every reconcileEvery until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	ticker := time.NewTicker(reconcileEvery)
	defer ticker.Stop()
	since := time.Now().Add(-reconcileBack)
	for {
		begin := time.Now()
		if err := r.handleAllClosed(ctx, since); err == nil {
			since = begin.Add(-reconcileOverlap)
		} else if ctx.Err() == nil {
			r.logger.WarnContext(ctx, "failed to find workflows ended from outside", "error", err)
		}
		if err := r.compare(ctx); err != nil && ctx.Err() == nil {
			r.logger.WarnContext(ctx, "failed to compare open runs with their workflows", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (r *Reconciler) handleAllClosed(ctx context.Context, since time.Time) error {
	query := closedQuery(since)
	maps.DeleteFunc(r.signalled, func(_ string, closed time.Time) bool { return closed.Before(since) })
	var page []byte
	for {
		list, err := r.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: r.namespace, Query: query, NextPageToken: page,
		})
		if err != nil {
			return fmt.Errorf("list closed workflows: %w", err)
		}
		for _, x := range list.GetExecutions() {
			if err := r.handleClosed(ctx, x); err != nil {
				return err
			}
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return nil
		}
	}
}

// closedQuery selects the workflows that closed since a time other than by
// their own end. The workflow of a run also fails, or closes as cancelled, with
// the result of the run; its phase is final then, so it is left out. The cost
// of a round must not grow with the number of failed runs.
func closedQuery(since time.Time) string {
	return fmt.Sprintf("WorkflowType IN ('%s', '%s', '%s', '%s') AND CloseTime > '%s' AND "+
		"(ExecutionStatus IN ('Terminated', 'TimedOut') OR ExecutionStatus IN ('Failed', 'Canceled') AND (WorkflowType != '%s' OR %s IN ('%s', '%s')))",
		contract.RunWorkflow, contract.ChangeGroupWorkflow, contract.ExecutorWorkflow, contract.FleetWorkflow, since.UTC().Format(time.RFC3339),
		contract.RunWorkflow, contract.AttributePhase, run.PhaseQueued, run.PhaseRunning)
}

func (r *Reconciler) handleClosed(ctx context.Context, x *workflowpb.WorkflowExecutionInfo) error {
	workflowID, execution := x.GetExecution().GetWorkflowId(), x.GetExecution().GetRunId()
	if id, ok := contract.RunOfWorkflow(workflowID); ok {
		return r.check(ctx, id)
	}
	if _, found := r.signalled[execution]; found {
		return nil
	}
	if err := r.restartWorkflow(ctx, workflowID, x.GetStatus()); err != nil {
		return fmt.Errorf("signal workflow %s again: %w", workflowID, err)
	}
	r.signalled[execution] = x.GetCloseTime().AsTime()
	return nil
}

// restartWorkflow starts the workflow of a change group, of a fleet, or of an
// executor that is not removed, after it was terminated or failed.
func (r *Reconciler) restartWorkflow(ctx context.Context, workflowID string, status enumspb.WorkflowExecutionStatus) error {
	if name, ok := contract.ChangeGroupOfWorkflow(workflowID); ok {
		r.logger.InfoContext(ctx, "restarting the workflow of a change group that was ended from outside", "changegroup", name, "status", status.String())
		return outbox.SignalChangeGroup(ctx, r.temporal, name)
	}
	if name, ok := contract.FleetOfWorkflow(workflowID); ok {
		if _, err := r.store.GetFleet(ctx, name); err != nil {
			if run.CodeOf(err) == run.CodeNotFound {
				return nil
			}
			return err
		}
		r.logger.InfoContext(ctx, "restarting the workflow of a fleet that was ended from outside", "fleet", name, "status", status.String())
		return outbox.SignalFleet(ctx, r.temporal, name)
	}
	id, ok := contract.ExecutorOfWorkflow(workflowID)
	if !ok {
		return nil
	}
	e, err := r.store.GetExecutor(ctx, id)
	if run.CodeOf(err) == run.CodeNotFound || err == nil && e.State == run.ExecutorRemoved {
		return nil
	}
	if err != nil {
		return err
	}
	r.logger.InfoContext(ctx, "restarting the workflow of an executor that was ended from outside", "executor", id, "status", status.String())
	return outbox.SignalExecutor(ctx, r.temporal, id)
}

// compare checks the next open runs.
func (r *Reconciler) compare(ctx context.Context) error {
	ids, err := r.store.OpenRuns(ctx, r.lastCompared, reconcileRuns)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := r.check(ctx, id); err != nil {
			return err
		}
		r.lastCompared = id
	}
	if len(ids) < reconcileRuns {
		r.lastCompared = ""
	}
	return nil
}

// check closes a run that is open in the records if its workflow has no open
// execution.
func (r *Reconciler) check(ctx context.Context, id run.ID) error {
	summary, err := r.store.GetSummary(ctx, id)
	if run.CodeOf(err) == run.CodeNotFound || (err == nil && summary.Phase.Final()) {
		return nil
	}
	if err != nil {
		return err
	}
	description, err := r.temporal.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(id), "")
	var gone *serviceerror.NotFound
	if err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("describe the workflow of run %s: %w", id, err)
	}
	status := description.GetWorkflowExecutionInfo().GetStatus()
	switch status { //nolint:exhaustive // every other status is a closed workflow
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return nil
	}
	reason := fmt.Sprintf("its workflow was ended from outside: %s", closeStatusText(status))
	r.logger.InfoContext(ctx, "closing a run whose workflow was ended from outside", "run_id", id, "status", status.String())
	return r.store.CloseLost(ctx, id, reason)
}

func closeStatusText(s enumspb.WorkflowExecutionStatus) string {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return "terminated"
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return "cancelled"
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return "timed out"
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return "failed"
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return "completed without closing the run"
	default:
		return "deleted"
	}
}
