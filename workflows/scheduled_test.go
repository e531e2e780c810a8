package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// fakeRuns is a fake of the engine and the records, with runs that end on request.
type fakeRuns struct {
	mu      sync.Mutex
	created contract.FireResult
	failing []error // of the first calls of Fire
	fired   []contract.FireInput
	state   run.Run
	deleted bool
	ended   []run.ID
	// endsOnStop lets a run end when it is stopped.
	endsOnStop bool
	signals    []chan struct{}
}

func newFakeRuns() *fakeRuns {
	return &fakeRuns{created: contract.FireResult{Run: runID}, state: run.Run{ID: runID, Phase: run.PhaseRunning, Result: run.ResultUnknown}}
}

func (r *fakeRuns) Fire(_ context.Context, in contract.FireInput) (contract.FireResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired = append(r.fired, in)
	if n := len(r.fired); n <= len(r.failing) {
		return contract.FireResult{}, r.failing[n-1]
	}
	return r.created, nil
}

func (r *fakeRuns) EndRun(_ context.Context, id run.ID) error {
	r.mu.Lock()
	r.ended = append(r.ended, id)
	r.mu.Unlock()
	if r.endsOnStop {
		r.end(run.ResultStopped)
	}
	return nil
}

func (r *fakeRuns) GetSummary(_ context.Context, id run.ID) (run.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return run.Run{}, run.Errorf(run.CodeNotFound, "there is no run %s", id)
	}
	return r.state, nil
}

func (r *fakeRuns) Watch(run.ID) (signal <-chan struct{}, stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan struct{}, 1)
	r.signals = append(r.signals, c)
	return c, func() {}
}

// awaitWatched waits until the workflow waits for the run.
func (r *fakeRuns) awaitWatched(t *testing.T) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.signals) > 0, "nothing waits for the run"
	})
}

// end ends the run.
func (r *fakeRuns) end(result run.Result) {
	r.change(func() {
		r.state.Phase, r.state.Result = run.PhaseFinished, result
		if result == run.ResultFailed {
			r.state.Reason = "task a failed"
		}
	})
}

func (r *fakeRuns) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	for _, c := range r.signals {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func newFiringEnv(t *testing.T, r *fakeRuns) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnvironment(contract.ScheduledRunWorkflowID("nightly") + "-2026-01-02T03:04:05Z")
	workers.RegisterControl(env, workers.ControlDeps{Firings: r})
	workers.RegisterWait(env, workers.WaitDeps{Runs: r})
	return env
}

func TestScheduledRun_waits_for_its_run(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(r *fakeRuns)
		out    contract.ScheduledRunOutput
		failed string
	}{
		"success": {
			func(r *fakeRuns) { r.end(run.ResultSuccess) },
			contract.ScheduledRunOutput{Run: runID, Phase: run.PhaseFinished, Result: run.ResultSuccess},
			"",
		},
		"failed":  {func(r *fakeRuns) { r.end(run.ResultFailed) }, contract.ScheduledRunOutput{}, contract.ErrorRunFailed},
		"stopped": {func(r *fakeRuns) { r.end(run.ResultStopped) }, contract.ScheduledRunOutput{Run: runID, Phase: run.PhaseFinished, Result: run.ResultStopped}, ""},
		"cancelled": {
			func(r *fakeRuns) { r.change(func() { r.state.Phase = run.PhaseCancelled }) },
			contract.ScheduledRunOutput{Run: runID, Phase: run.PhaseCancelled, Result: run.ResultUnknown},
			"",
		},
		"setup_error": {func(r *fakeRuns) { r.change(func() { r.state.Phase = run.PhaseSetupError }) }, contract.ScheduledRunOutput{}, contract.ErrorRunFailed},
		"deleted":     {func(r *fakeRuns) { r.change(func() { r.deleted = true }) }, contract.ScheduledRunOutput{Run: runID}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFakeRuns()
			r.failing = []error{run.Errorf(run.CodeUnavailable, "the records are away")}
			env := newFiringEnv(t, r)
			env.RegisterDelayedCallback(func() { tt.end(r) }, 50*time.Millisecond)
			env.ExecuteWorkflow(contract.ScheduledRunWorkflow, contract.ScheduledRunInput{Schedule: "nightly"})
			require.True(t, env.IsWorkflowCompleted())
			require.Len(t, r.fired, 2)
			require.Equal(t, r.fired[0], r.fired[1], "the same firing, tried again")
			require.Equal(t, "nightly", r.fired[0].Schedule)
			require.Empty(t, r.ended)
			if tt.failed != "" {
				var failure *temporal.ApplicationError
				require.ErrorAs(t, env.GetWorkflowError(), &failure)
				require.Equal(t, tt.failed, failure.Type())
				require.Contains(t, failure.Message(), string(runID))
				return
			}
			require.NoError(t, env.GetWorkflowError())
			var out contract.ScheduledRunOutput
			require.NoError(t, env.GetWorkflowResult(&out))
			require.Equal(t, tt.out, out)
		})
	}
}

func TestScheduledRun_makes_none(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made   contract.FireResult
		failed string
	}{
		"the_schedule_was_deleted": {contract.FireResult{}, ""},
		"it_is_refused":            {contract.FireResult{Refused: "no pool"}, contract.ErrorNotCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFakeRuns()
			r.created = tt.made
			env := newFiringEnv(t, r)
			env.ExecuteWorkflow(contract.ScheduledRunWorkflow, contract.ScheduledRunInput{Schedule: "nightly"})
			if tt.failed == "" {
				require.NoError(t, env.GetWorkflowError())
				return
			}
			var failure *temporal.ApplicationError
			require.ErrorAs(t, env.GetWorkflowError(), &failure)
			require.Equal(t, tt.failed, failure.Type())
			require.Equal(t, "no pool", failure.Message())
		})
	}
}

// TestScheduledRun_cancelled: the workflow stops its run, and ends once the run
// has ended.
func TestScheduledRun_cancelled(t *testing.T) {
	t.Parallel()
	r := newFakeRuns()
	env := newFiringEnv(t, r)
	env.RegisterDelayedCallback(env.CancelWorkflow, 50*time.Millisecond)
	waited := false // callbacks run only until the workflow ends
	env.RegisterDelayedCallback(func() {
		waited = true
		r.mu.Lock()
		require.Equal(t, []run.ID{runID}, r.ended)
		r.mu.Unlock()
		r.end(run.ResultStopped)
	}, 200*time.Millisecond)
	env.ExecuteWorkflow(contract.ScheduledRunWorkflow, contract.ScheduledRunInput{Schedule: "nightly"})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()), "%v", env.GetWorkflowError())
	require.True(t, waited, "the workflow ended before its run")
}

// TestScheduledRun_cancelled_while_it_fires: a run that was created in spite of
// the cancellation is stopped.
func TestScheduledRun_cancelled_while_it_fires(t *testing.T) {
	t.Parallel()
	r := newFakeRuns()
	r.endsOnStop = true
	for range 4 {
		r.failing = append(r.failing, run.Errorf(run.CodeUnavailable, "the records are away"))
	}
	env := newFiringEnv(t, r)
	env.RegisterDelayedCallback(env.CancelWorkflow, 50*time.Millisecond)
	env.ExecuteWorkflow(contract.ScheduledRunWorkflow, contract.ScheduledRunInput{Schedule: "nightly"})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()), "%v", env.GetWorkflowError())
	require.Len(t, r.fired, 5)
	require.Equal(t, []run.ID{runID}, r.ended)
}
