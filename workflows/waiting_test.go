package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// waitingFakes holds the fakes behind the cluster's waiting activities, by webhook,
// schedule and run.
type waitingFakes struct {
	mu         sync.Mutex
	deliverers map[string]*fakeDeliverer
	runs       map[string]*fakeRuns
}

func newWaitingFakes() *waitingFakes {
	return &waitingFakes{deliverers: map[string]*fakeDeliverer{}, runs: map[string]*fakeRuns{}}
}

func (w *waitingFakes) deliverer(name string) *fakeDeliverer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deliverers[name]
}

func (w *waitingFakes) of(key string) *fakeRuns {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[key]
}

func (w *waitingFakes) Deliver(ctx context.Context, name string) (string, error) {
	return w.deliverer(name).Deliver(ctx, name)
}

func (w *waitingFakes) Fire(ctx context.Context, in contract.FireInput) (contract.FireResult, error) {
	return w.of(in.Schedule).Fire(ctx, in)
}

func (w *waitingFakes) EndRun(ctx context.Context, id run.ID) error {
	return w.of(string(id)).EndRun(ctx, id)
}

func (w *waitingFakes) GetSummary(ctx context.Context, id run.ID) (run.Run, error) {
	return w.of(string(id)).GetSummary(ctx, id)
}

func (w *waitingFakes) Watch(id run.ID) (signal <-chan struct{}, stop func()) {
	return w.of(string(id)).Watch(id)
}

// runWaitingScenarios plays the workflows that mostly wait: deliveries and firings.
func (f *cluster) runWaitingScenarios(t *testing.T) {
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		f.runWebhookScenario(t, "signalled", newFakeDeliverer(failOnce, deliverUntilOver, isDisabled), func(p *fakeDeliverer, trigger func(string)) {
			<-p.begun
			<-p.begun
			trigger(contract.SignalWebhook)
			p.over <- "the webhook was deleted"
		})
	})
	t.Run("webhook-continued", func(t *testing.T) {
		t.Parallel()
		f.runWebhookScenario(t, "continued", newFakeDeliverer(deliverUntilOver, isDisabled), func(p *fakeDeliverer, trigger func(string)) {
			<-p.begun
			trigger(contract.SignalForceContinue)
			<-p.begun
			p.over <- "nothing waits for it"
		})
	})
	for name, drive := range map[string]func(r *fakeRuns, cancel func()){
		"success":   func(r *fakeRuns, _ func()) { r.end(run.ResultSuccess) },
		"failed":    func(r *fakeRuns, _ func()) { r.end(run.ResultFailed) },
		"cancelled": func(_ *fakeRuns, cancel func()) { cancel() },
		"refused":   nil,
	} {
		t.Run("scheduled-run-"+name, func(t *testing.T) {
			t.Parallel()
			f.runFiringScenario(t, name, drive)
		})
	}
}

func (f *cluster) runWebhookScenario(t *testing.T, name string, p *fakeDeliverer, drive func(p *fakeDeliverer, trigger func(signal string))) {
	t.Helper()
	hook := string(newRunID())
	f.waitingFakes.mu.Lock()
	f.waitingFakes.deliverers[hook] = p
	f.waitingFakes.mu.Unlock()
	id := contract.WebhookWorkflowID(hook)
	trigger := func(signal string) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), id, signal, nil, client.StartWorkflowOptions{
			ID: id, TaskQueue: contract.ControlQueue,
		}, contract.WebhookWorkflow, contract.WebhookInput{Name: hook})
		require.NoError(t, err)
	}
	trigger(contract.SignalWebhook)
	drive(p, trigger)
	f.keep(t, contract.WebhookWorkflow, name, id)
}

// failOnce fails as if the records were unavailable.
func failOnce(context.Context, *fakeDeliverer) (string, error) {
	return "", temporal.NewApplicationErrorWithOptions("the records are away", string(run.CodeUnavailable), temporal.ApplicationErrorOptions{
		NextRetryDelay: time.Millisecond,
	})
}

func (f *cluster) runFiringScenario(t *testing.T, name string, drive func(r *fakeRuns, cancel func())) {
	t.Helper()
	schedule, r := string(newRunID()), newFakeRuns()
	r.state.ID, r.created.Run, r.endsOnStop = newRunID(), "", true
	r.created.Run = r.state.ID
	if drive == nil {
		r.created = contract.FireResult{Refused: "there is no pool"}
	}
	f.waitingFakes.mu.Lock()
	f.waitingFakes.runs[schedule], f.waitingFakes.runs[string(r.state.ID)] = r, r
	f.waitingFakes.mu.Unlock()
	id := contract.ScheduledRunWorkflowID(schedule)
	_, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlQueue},
		contract.ScheduledRunWorkflow, contract.ScheduledRunInput{Schedule: schedule})
	require.NoError(t, err)
	if drive != nil {
		r.awaitWatched(t)
		drive(r, func() { require.NoError(t, f.client.CancelWorkflow(t.Context(), id, "")) })
	}
	f.keep(t, contract.ScheduledRunWorkflow, name, id)
}

// keep checks and stores the histories of a workflow that has closed.
func (f *cluster) keep(t *testing.T, workflowType, name, id string) {
	t.Helper()
	g := &scenarioRun{t: t, f: f}
	histories := f.histories(t, id)
	for i, h := range histories {
		numbered := name
		if len(histories) > 1 {
			numbered += "-" + string(rune('1'+i))
		}
		g.keepOne(workflowType, numbered, h)
	}
}
