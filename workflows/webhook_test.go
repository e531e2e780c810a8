package workflows_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/workers"
)

// deliverFunc is one call of deliver: it answers, or waits for a signal of the
// test.
type deliverFunc func(ctx context.Context, p *fakeDeliverer) (why string, err error)

// fakeDeliverer is a scripted fake of the webhook delivery.
type fakeDeliverer struct {
	mu     sync.Mutex
	script []deliverFunc // the last one repeats
	calls  int
	begun  chan struct{} // receives a value with each call
	over   chan string   // the reason why a delivery ends
}

func newFakeDeliverer(script ...deliverFunc) *fakeDeliverer {
	return &fakeDeliverer{script: script, begun: make(chan struct{}, 100), over: make(chan string, 100)}
}

func (p *fakeDeliverer) Deliver(ctx context.Context, _ string) (string, error) {
	p.mu.Lock()
	do := p.script[min(p.calls, len(p.script)-1)]
	p.calls++
	p.mu.Unlock()
	p.begun <- struct{}{}
	return do(ctx, p)
}

func (p *fakeDeliverer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func deliverUntilOver(ctx context.Context, p *fakeDeliverer) (string, error) {
	select {
	case why := <-p.over:
		return why, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func isDisabled(context.Context, *fakeDeliverer) (string, error) {
	return "the webhook is disabled", nil
}

func newHookEnv(t *testing.T, p *fakeDeliverer) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnvironment(contract.WebhookWorkflowID("ci"))
	workers.RegisterControl(env, workers.ControlDeps{})
	workers.RegisterWait(env, workers.WaitDeps{Webhooks: p})
	return env
}

func TestWebhook_ends_when_there_is_nothing_to_deliver_to(t *testing.T) {
	t.Parallel()
	p := newFakeDeliverer(isDisabled)
	env := newHookEnv(t, p)
	env.ExecuteWorkflow(contract.WebhookWorkflow, contract.WebhookInput{Name: "ci"})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 1, p.count())
}

// TestWebhook_signalled_while_it_ends: a change that arrives while the delivery ends
// is handled before the workflow ends.
func TestWebhook_signalled_while_it_ends(t *testing.T) {
	t.Parallel()
	p := newFakeDeliverer(deliverUntilOver, isDisabled)
	env := newHookEnv(t, p)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalWebhook, nil)
		p.over <- "the webhook is disabled"
	}, 50*time.Millisecond)
	env.ExecuteWorkflow(contract.WebhookWorkflow, contract.WebhookInput{Name: "ci"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 2, p.count())
}

func TestWebhook_tries_again(t *testing.T) {
	t.Parallel()
	p := newFakeDeliverer(
		func(context.Context, *fakeDeliverer) (string, error) { return "", errors.New("the records are away") },
		func(context.Context, *fakeDeliverer) (string, error) { return "", errors.New("the records are away") },
		isDisabled,
	)
	env := newHookEnv(t, p)
	env.ExecuteWorkflow(contract.WebhookWorkflow, contract.WebhookInput{Name: "ci"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 3, p.count())
}

func TestWebhook_continues_as_new(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]struct {
		signal string
		limits *contract.Limits
	}{
		"when_it_is_told": {contract.SignalForceContinue, nil},
		"when_it_is_full": {contract.SignalWebhook, &contract.Limits{HistoryEvents: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFakeDeliverer(deliverUntilOver)
			env := newHookEnv(t, p)
			in := contract.WebhookInput{Name: "ci", Limits: trigger.limits}
			if trigger.limits != nil {
				env.SetCurrentHistoryLength(0)
			}
			env.RegisterDelayedCallback(func() {
				env.SetCurrentHistoryLength(100)
				env.SignalWorkflow(trigger.signal, nil)
			}, 50*time.Millisecond)
			env.ExecuteWorkflow(contract.WebhookWorkflow, in)
			var again *workflow.ContinueAsNewError
			require.ErrorAs(t, env.GetWorkflowError(), &again)
			require.Equal(t, contract.WebhookWorkflow, again.WorkflowType.Name)
		})
	}
}

func TestWebhook_cancelled(t *testing.T) {
	t.Parallel()
	p := newFakeDeliverer(deliverUntilOver)
	env := newHookEnv(t, p)
	env.RegisterDelayedCallback(env.CancelWorkflow, 50*time.Millisecond)
	env.ExecuteWorkflow(contract.WebhookWorkflow, contract.WebhookInput{Name: "ci"})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
}
