// Package outbox delivers the outbox of the records to Temporal: it starts and
// signals the workflows of runs, change groups, executors, fleets and webhooks.
package outbox

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// The parameters of the Dispatcher.
const (
	dispatchBatch = 64               // rows leased together
	dispatchLease = 12 * time.Second // longer than any delivery: CallTimeout and the writes around it
	// idleCheck is the interval at which the Dispatcher finds rows whose retry
	// is due, and rows that another process leased and did not deliver before
	// it died.
	idleCheck  = 2 * time.Second
	firstRetry = 100 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// CallTimeout bounds one call of Temporal.
const CallTimeout = 10 * time.Second

// Starter is the part of a Temporal client that the Dispatcher uses.
type Starter interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	SignalWithStartWorkflow(ctx context.Context, workflowID, signal string, arg any, options client.StartWorkflowOptions,
		workflow any, args ...any) (client.WorkflowRun, error)
}

// Store is the part of the records that the Dispatcher uses.
type Store interface {
	records.Outbox
	// GetSummary returns a run without tasks. Errors: not_found.
	GetSummary(ctx context.Context, id run.ID) (run.Run, error)
}

// Dispatcher is the outbox dispatcher: it delivers outbox rows to Temporal by
// starting and signalling workflows, with IDs and payloads that make a second
// delivery harmless. Any number of processes may run one on the same records.
type Dispatcher struct {
	store   Store
	starter Starter
	logger  *slog.Logger
	metrics *Metrics
	runURL  string // of a run, with {run} in place of its id; "" if there is none
}

// NewDispatcher returns a Dispatcher that does nothing until Run.
func NewDispatcher(store Store, starter Starter, logger *slog.Logger, metrics *Metrics) *Dispatcher {
	return &Dispatcher{store: store, starter: starter, logger: logger, metrics: metrics}
}

// LinkRuns makes the details of new workflows link to the pages of their runs: url has
// {run} in place of the id of a run. It must be called before Run; "" means no link.
func (d *Dispatcher) LinkRuns(url string) *Dispatcher {
	d.runURL = url
	return d
}

// Run delivers until ctx ends. It survives outages of the database and of
// Temporal: rows wait in the records and are retried with backoff.
func (d *Dispatcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for {
		more, err := d.deliver(ctx)
		if err != nil && ctx.Err() == nil {
			d.logger.WarnContext(ctx, "failed to read the outbox", "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.store.OutboxWake():
		case <-ticker.C:
		}
	}
}

// deliver leases rows that are due and delivers them. more is true if it
// delivered some, because then the next rows of the same runs may be due.
func (d *Dispatcher) deliver(ctx context.Context) (more bool, err error) {
	rows, err := d.store.TakeOutbox(ctx, dispatchBatch, dispatchLease)
	if err != nil {
		return false, err
	}
	var group errgroup.Group
	group.SetLimit(16)
	for _, row := range rows {
		group.Go(func() error {
			d.deliverRow(ctx, row)
			return nil
		})
	}
	_ = group.Wait()
	return len(rows) > 0, nil
}

func (d *Dispatcher) deliverRow(ctx context.Context, row records.OutboxRow) {
	err := d.notify(ctx, row)
	if err == nil {
		d.metrics.delivered.WithLabelValues(string(row.Kind), "done").Inc()
		if err := d.store.CompleteOutbox(ctx, row.ID); err != nil && ctx.Err() == nil {
			d.logger.WarnContext(ctx, "failed to remove an outbox row, it will be delivered again", "run_id", row.Run, "error", err)
		}
		return
	}
	d.metrics.delivered.WithLabelValues(string(row.Kind), "retry").Inc()
	if ctx.Err() != nil {
		return // the lease ends by itself
	}
	delay := retry.DoublingAfter(firstRetry, lastRetry, row.Attempts).NextBackOff()
	d.logger.WarnContext(ctx, "failed to notify a workflow, retrying", "run_id", row.Run, "kind", row.Kind,
		"attempt", row.Attempts, "retry_in", delay, "error", err)
	if err := d.store.RetryOutbox(ctx, row.ID, delay); err != nil {
		d.logger.WarnContext(ctx, "failed to release an outbox row", "run_id", row.Run, "error", err)
	}
}

// notify starts or signals the workflow of a row. A signal also starts the
// workflow if it has not started yet, and is dropped if the workflow has
// closed.
func (d *Dispatcher) notify(ctx context.Context, row records.OutboxRow) error {
	ctx, cancel := context.WithTimeoutCause(ctx, CallTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	switch row.Kind { //nolint:exhaustive // the others are of runs
	case records.OutboxWebhook:
		return signalWebhook(ctx, d.starter, row.Webhook)
	case records.OutboxGrant:
		return SignalChangeGroup(ctx, d.starter, row.ChangeGroup)
	case records.OutboxExecutor:
		return SignalExecutor(ctx, d.starter, row.Executor)
	case records.OutboxFleet:
		return SignalFleet(ctx, d.starter, row.Fleet)
	}
	r, err := d.store.GetSummary(ctx, row.Run)
	if run.CodeOf(err) == run.CodeNotFound {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	options := startOptions(r, d.runURL)
	input := contract.RunInput{Run: row.Run}
	switch row.Kind {
	case records.OutboxStart:
		_, err = d.starter.ExecuteWorkflow(ctx, options, contract.RunWorkflow, input)
	case records.OutboxApprove:
		_, err = d.starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalApprove, contract.Approve{Task: row.Task},
			options, contract.RunWorkflow, input)
	case records.OutboxExecutorRemoved:
		_, err = d.starter.SignalWithStartWorkflow(ctx, options.ID, contract.SignalExecutorRemoved,
			contract.ExecutorRemoved{Executor: row.Executor, Reason: row.Reason}, options, contract.RunWorkflow, input)
	case records.OutboxAdmit, records.OutboxStop, records.OutboxForceStop, records.OutboxCancel, records.OutboxSlots:
		signal := map[records.OutboxKind]string{
			records.OutboxAdmit: contract.SignalAdmit, records.OutboxStop: contract.SignalStop, records.OutboxCancel: contract.SignalCancel,
			records.OutboxForceStop: contract.SignalForceStop, records.OutboxSlots: contract.SignalSlots,
		}[row.Kind]
		_, err = d.starter.SignalWithStartWorkflow(ctx, options.ID, signal, nil, options, contract.RunWorkflow, input)
	default:
		return run.Errorf(run.CodeInternal, "outbox row %d has the unknown kind %q", row.ID, row.Kind)
	}
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return nil
	}
	return err
}

// startOptions returns the options for every start of a run, from any caller.
// The phase is the one that the workflow will set immediately, so that it needs
// no event for that.
func startOptions(r run.Run, runURL string) client.StartWorkflowOptions {
	phase := r.Phase
	if phase == run.PhaseQueued && r.Admission != run.AdmissionManual && len(r.ChangeGroups) == 0 {
		phase = run.PhaseRunning
	}
	attributes := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeGroup).ValueSet(r.Group),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase).ValueSet(string(phase)),
	}
	if len(r.ChangeGroups) > 0 {
		attributes = append(attributes,
			temporal.NewSearchAttributeKeyKeywordList(contract.AttributeChangeGroups).ValueSet(contract.FirstNames(r.ChangeGroups)))
	}
	return client.StartWorkflowOptions{
		ID:                       contract.RunWorkflowID(r.ID),
		TaskQueue:                contract.ControlQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		TypedSearchAttributes:    temporal.NewSearchAttributes(attributes...),
		StaticSummary:            startSummary(r),
		StaticDetails:            startDetails(r, runURL),
		Priority:                 contract.Priority(r.Priority, r.Group),
	}
}

// startDetails returns the details of a workflow, which Temporal's UI shows as Markdown.
func startDetails(r run.Run, runURL string) string {
	text := "Run `" + string(r.ID) + "` of group `" + r.Group + "`\n\n```\ndrover runs get " + string(r.ID) + "\n```\n"
	if runURL != "" {
		text += "\n[The run in Drover](" + strings.ReplaceAll(runURL, "{run}", string(r.ID)) + ")\n"
	}
	return text
}

// maxSummary limits the summary of a workflow, in bytes; the server refuses
// more than 400.
const maxSummary = 200

// startSummary returns what Temporal's lists show of a run: its name and group.
func startSummary(r run.Run) string {
	return truncate.String(r.Name+" ("+r.Group+")", maxSummary, "...")
}
