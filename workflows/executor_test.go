package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// fakeExecutorRecords is a fake of the records of one executor.
type fakeExecutorRecords struct {
	mu     sync.Mutex
	e      run.Executor
	again  []time.Duration // answers, one after the other; the last repeats
	gone   bool
	checks int
}

func (h *fakeExecutorRecords) ExpireExecutor(_ context.Context, id string) (run.Executor, time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks++
	if h.gone {
		return run.Executor{}, 0, run.Errorf(run.CodeNotFound, "there is no executor %s", id)
	}
	var again time.Duration
	if len(h.again) > 0 {
		again = h.again[min(h.checks, len(h.again))-1]
	}
	return h.e, again, nil
}

func (h *fakeExecutorRecords) set(state run.ExecutorState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.e.State = state
}

func (h *fakeExecutorRecords) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checks
}

func newFakeExecutorRecords(t *testing.T) (*fakeExecutorRecords, *testsuite.TestWorkflowEnvironment) {
	t.Helper()
	h := &fakeExecutorRecords{e: run.Executor{ID: "host-7", Pool: "linux", State: run.ExecutorOnline, Tasks: 2}}
	env := newEnvironment(contract.ExecutorWorkflowID("host-7"))
	workers.RegisterControl(env, workers.ControlDeps{Registry: h})
	return h, env
}

func executeExecutor(env *testsuite.TestWorkflowEnvironment, limits *contract.Limits) {
	env.ExecuteWorkflow(contract.ExecutorWorkflow, contract.ExecutorInput{Executor: "host-7", Limits: limits})
}

// A durable executor is checked after a signal only.
func TestExecutor_durable(t *testing.T) {
	t.Parallel()
	h, env := newFakeExecutorRecords(t)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, 1, h.count())
		answer, err := env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		var state contract.ExecutorState
		require.NoError(t, answer.Get(&state))
		require.Equal(t, contract.ExecutorState{Executor: "host-7", Pool: "linux", State: run.ExecutorOnline, Tasks: 2}, state)
		h.set(run.ExecutorDraining)
		env.SignalWorkflow(contract.SignalExecutor, nil)
	}, 1000*time.Hour)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, 2, h.count())
		h.set(run.ExecutorRemoved)
		env.SignalWorkflow(contract.SignalExecutor, nil)
	}, 2000*time.Hour)
	executeExecutor(env, nil)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 3, h.count())
}

// A temporary executor is checked when its time may be over.
func TestExecutor_temporary(t *testing.T) {
	t.Parallel()
	h, env := newFakeExecutorRecords(t)
	h.again = []time.Duration{10 * time.Minute, 4 * time.Minute, time.Minute}
	begin := env.Now()
	env.RegisterDelayedCallback(func() { h.set(run.ExecutorRemoved) }, 14*time.Minute+30*time.Second)
	executeExecutor(env, nil)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 4, h.count())
	require.Equal(t, 15*time.Minute, env.Now().Sub(begin))
}

// A signal while the workflow waits may make the time shorter. If it makes the
// time longer, no new timer is needed.
func TestExecutor_signalled_while_it_waits(t *testing.T) {
	t.Parallel()
	h, env := newFakeExecutorRecords(t)
	h.again = []time.Duration{time.Hour, 2 * time.Hour, time.Minute, time.Minute}
	for _, at := range []time.Duration{time.Minute, 2 * time.Minute} {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalExecutor, nil) }, at)
	}
	env.RegisterDelayedCallback(func() {
		require.Equal(t, 4, h.count(), "at the start, for each signal, and after a minute")
		h.set(run.ExecutorRemoved)
	}, 3*time.Minute+time.Second)
	begin := env.Now()
	executeExecutor(env, nil)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 4*time.Minute, env.Now().Sub(begin))
}

func TestExecutor_unknown(t *testing.T) {
	t.Parallel()
	h, env := newFakeExecutorRecords(t)
	h.gone = true
	executeExecutor(env, nil)
	require.NoError(t, env.GetWorkflowError())
}

func TestExecutor_continues_as_new(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits *contract.Limits
		do     func(env *testsuite.TestWorkflowEnvironment)
	}{
		"on request": {nil, func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalForceContinue, nil) }},
		"when its history is long": {&contract.Limits{HistoryEvents: 5}, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetCurrentHistoryLength(6)
			env.SignalWorkflow(contract.SignalExecutor, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, env := newFakeExecutorRecords(t)
			env.RegisterDelayedCallback(func() { c.do(env) }, time.Minute)
			executeExecutor(env, c.limits)
			var next *workflow.ContinueAsNewError
			require.ErrorAs(t, env.GetWorkflowError(), &next)
			var in contract.ExecutorInput
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
			require.Equal(t, contract.ExecutorInput{Executor: "host-7", Limits: c.limits}, in)
		})
	}
}

func TestExecutor_cancelled(t *testing.T) {
	t.Parallel()
	_, env := newFakeExecutorRecords(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	executeExecutor(env, nil)
	require.ErrorContains(t, env.GetWorkflowError(), "cancel")
}
