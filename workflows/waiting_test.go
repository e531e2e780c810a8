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

// waiting holds the fakes behind the cluster's waiting activities, by webhook,
// schedule and run.
type waiting struct {
	mu    sync.Mutex
	posts map[string]*post
	runs  map[string]*runs
}

func newWaiting() *waiting { return &waiting{posts: map[string]*post{}, runs: map[string]*runs{}} }

func (w *waiting) post(name string) *post {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.posts[name]
}

func (w *waiting) of(key string) *runs {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[key]
}

func (w *waiting) Deliver(ctx context.Context, name string) (string, error) {
	return w.post(name).Deliver(ctx, name)
}

func (w *waiting) Fire(ctx context.Context, in contract.FireInput) (contract.FireResult, error) {
	return w.of(in.Schedule).Fire(ctx, in)
}

func (w *waiting) EndRun(ctx context.Context, id run.ID) error {
	return w.of(string(id)).EndRun(ctx, id)
}

func (w *waiting) GetSummary(ctx context.Context, id run.ID) (run.Run, error) {
	return w.of(string(id)).GetSummary(ctx, id)
}

func (w *waiting) Watch(id run.ID) (signal <-chan struct{}, stop func()) {
	return w.of(string(id)).Watch(id)
}

// playWaiting plays the workflows that mostly wait: deliveries and firings.
func (f *farm) playWaiting(t *testing.T) {
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		f.playWebhook(t, "told", newPost(failOnce, deliverUntilOver, isDisabled), func(p *post, tell func(string)) {
			<-p.begun
			<-p.begun
			tell(contract.SignalWebhook)
			p.over <- "the webhook was deleted"
		})
	})
	t.Run("webhook-continued", func(t *testing.T) {
		t.Parallel()
		f.playWebhook(t, "continued", newPost(deliverUntilOver, isDisabled), func(p *post, tell func(string)) {
			<-p.begun
			tell(contract.SignalForceContinue)
			<-p.begun
			p.over <- "nothing waits for it"
		})
	})
	for name, play := range map[string]func(r *runs, cancel func()){
		"success":   func(r *runs, _ func()) { r.end(run.ResultSuccess) },
		"failed":    func(r *runs, _ func()) { r.end(run.ResultFailed) },
		"cancelled": func(_ *runs, cancel func()) { cancel() },
		"refused":   nil,
	} {
		t.Run("scheduled-run-"+name, func(t *testing.T) {
			t.Parallel()
			f.playFiring(t, name, play)
		})
	}
}

func (f *farm) playWebhook(t *testing.T, name string, p *post, drive func(p *post, tell func(signal string))) {
	t.Helper()
	hook := string(newRunID())
	f.waiting.mu.Lock()
	f.waiting.posts[hook] = p
	f.waiting.mu.Unlock()
	id := contract.WebhookWorkflowID(hook)
	tell := func(signal string) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), id, signal, nil, client.StartWorkflowOptions{
			ID: id, TaskQueue: contract.ControlQueue,
		}, contract.WebhookWorkflow, contract.WebhookInput{Name: hook})
		require.NoError(t, err)
	}
	tell(contract.SignalWebhook)
	drive(p, tell)
	f.keep(t, contract.WebhookWorkflow, name, id)
}

// failOnce fails as if the records were unavailable.
func failOnce(context.Context, *post) (string, error) {
	return "", temporal.NewApplicationErrorWithOptions("the records are away", string(run.CodeUnavailable), temporal.ApplicationErrorOptions{
		NextRetryDelay: time.Millisecond,
	})
}

func (f *farm) playFiring(t *testing.T, name string, play func(r *runs, cancel func())) {
	t.Helper()
	schedule, r := string(newRunID()), newRuns()
	r.state.ID, r.made.Run, r.obeys = newRunID(), "", true
	r.made.Run = r.state.ID
	if play == nil {
		r.made = contract.FireResult{Refused: "there is no pool"}
	}
	f.waiting.mu.Lock()
	f.waiting.runs[schedule], f.waiting.runs[string(r.state.ID)] = r, r
	f.waiting.mu.Unlock()
	id := contract.ScheduledRunWorkflowID(schedule)
	_, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlQueue},
		contract.ScheduledRunWorkflow, contract.ScheduledRunInput{Schedule: schedule})
	require.NoError(t, err)
	if play != nil {
		r.awaitWatched(t)
		play(r, func() { require.NoError(t, f.client.CancelWorkflow(t.Context(), id, "")) })
	}
	f.keep(t, contract.ScheduledRunWorkflow, name, id)
}

// keep checks and stores the histories of a workflow that has closed.
func (f *farm) keep(t *testing.T, workflowType, name, id string) {
	t.Helper()
	g := &game{t: t, f: f}
	histories := f.histories(t, id)
	for i, h := range histories {
		numbered := name
		if len(histories) > 1 {
			numbered += "-" + string(rune('1'+i))
		}
		g.keepOne(workflowType, numbered, h)
	}
}
