package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// webhookEvents is the history length after which the webhook workflow
// continues as new. The history grows with each change of the webhook and each
// restart of a worker.
const webhookEvents = 1000

// Webhook is the webhook workflow: it keeps an activity running that delivers
// the webhook's events, until no delivery is due. Only the records have the
// position in the event log.
func Webhook(ctx workflow.Context, in contract.WebhookInput) error {
	w := &webhookRunner{in: in, maxEvents: webhookEvents}
	if in.Limits != nil && in.Limits.HistoryEvents > 0 {
		w.maxEvents = in.Limits.HistoryEvents
	}
	w.signals = signals{
		onBare(ctx, contract.SignalWebhook, func(workflow.Context) { w.changed = true }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { w.forced = true }),
	}
	return w.run(ctx)
}

// webhookRunner is one execution of the webhook workflow.
type webhookRunner struct {
	in        contract.WebhookInput
	maxEvents int // maximum length of the history
	signals   signals
	changed   bool // a client changed the webhook after the delivery began
	forced    bool
}

func (w *webhookRunner) run(ctx workflow.Context) error {
	for {
		w.signals.drain(ctx)
		if w.full(ctx) {
			return w.continueAsNew(ctx)
		}
		w.changed = false
		out, err := w.deliver(ctx)
		switch {
		case errors.Is(err, errFull):
			return w.continueAsNew(ctx)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		// A signal that came while the delivery ended may have invalidated the
		// reason of its end.
		w.signals.drain(ctx)
		if !out.WorkerStopping && !w.changed && !w.forced {
			return nil
		}
	}
}

var errFull = errors.New("the history is full")

// deliver runs the delivery activity until it ends. The activity itself notices
// changes of the webhook: a signal matters only once the activity has ended. If
// the history is full, the next execution starts the activity again.
func (w *webhookRunner) deliver(ctx workflow.Context) (contract.DeliverResult, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	var out contract.DeliverResult
	delivery := deliverEvents(ctx, w.in.Name)
	for !delivery.IsReady() {
		if err := workflow.Await(ctx, func() bool { return delivery.IsReady() || w.signals.waiting() }); err != nil {
			return out, err
		}
		w.signals.drain(ctx)
		if !delivery.IsReady() && w.full(ctx) {
			return out, errFull
		}
	}
	return out, delivery.Get(ctx, &out)
}

func (w *webhookRunner) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return w.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > w.maxEvents
}

func (w *webhookRunner) continueAsNew(ctx workflow.Context) error {
	return workflow.NewContinueAsNewError(ctx, contract.WebhookWorkflow, contract.WebhookInput{Name: w.in.Name, Limits: w.in.Limits})
}

// waitOptions returns the options of an activity that runs for long. If its
// heartbeats stop, another worker continues it. After a cancellation the
// workflow does not wait for its answer.
func waitOptions(name string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:             contract.WaitQueue,
		StartToCloseTimeout:   forever,
		HeartbeatTimeout:      waitHeartbeat,
		RetryPolicy:           &temporal.RetryPolicy{InitialInterval: waitRetry, BackoffCoefficient: 2, MaximumInterval: waitHeartbeat},
		DisableEagerExecution: true,
		Summary:               shorten(name),
	}
}
