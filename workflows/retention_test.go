package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// archive stands for what is deleted: runs and events.
type archive struct {
	mu     sync.Mutex
	runs   int
	events int
	down   int // calls that fail before it answers
	asked  []run.DeleteQuery
	looks  int // for events
	logs   int // runs with logs that have expired
}

func (a *archive) ExpireLogs(_ context.Context, _ time.Time, n int) (records.ExpiredLogs, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = min(a.logs, n)
	a.logs -= n
	return records.ExpiredLogs{Runs: n, Bytes: int64(n)}, nil
}

func (a *archive) DeleteRuns(_ context.Context, q run.DeleteQuery) (run.Deleted, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down > 0 {
		a.down--
		return run.Deleted{}, run.Errorf(run.CodeUnavailable, "%w", errOutage)
	}
	a.asked = append(a.asked, q)
	n := min(a.runs, run.MaxDelete)
	a.runs -= n
	return run.Deleted{Runs: n, More: a.runs > 0}, nil
}

func (a *archive) RemoveEvents(_ context.Context, _ records.KeepEvents, n int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks++
	n = min(a.events, n)
	a.events -= n
	return n, nil
}

func newRetentionEnv(t *testing.T, a *archive) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(quiet()))
	suite.SetDisableRegistrationAliasing(true)
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(20 * time.Second)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: contract.RetentionWorkflowID, TaskQueue: contract.ControlQueue})
	workers.RegisterControl(env, workers.ControlDeps{Runs: a, Events: a, Logs: a})
	return env
}

// keepThree keeps the newest three runs of each group.
func keepThree() contract.Retention {
	return contract.Retention{Interval: run.Duration(time.Hour), Runs: contract.RunRetention{Keep: 3}}
}

func TestRetention_removes_logs_that_have_expired(t *testing.T) {
	t.Parallel()
	a := &archive{logs: 47}
	env := newRetentionEnv(t, a)
	turnOff(env, 90*time.Minute)
	keep := contract.Retention{Interval: run.Duration(time.Hour), Logs: contract.LogRetention{MaxAge: run.Duration(time.Hour)}}
	require.NoError(t, playRetention(env, keep, nil))
	require.Zero(t, a.logs)
	require.Zero(t, a.looks, "nothing is said of events")
	require.Empty(t, a.asked)
}

func playRetention(env *testsuite.TestWorkflowEnvironment, r contract.Retention, limits *contract.Limits) error {
	env.ExecuteWorkflow(contract.RetentionWorkflow, contract.RetentionInput{Retention: r, Limits: limits})
	return env.GetWorkflowError()
}

// turnOff tells the workflow that everything is kept.
func turnOff(env *testsuite.TestWorkflowEnvironment, after time.Duration) {
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalRetention, contract.Retention{Interval: run.Duration(time.Hour)})
	}, after)
}

func TestRetention_looks_now_and_then(t *testing.T) {
	t.Parallel()
	a := &archive{runs: 2_500, events: 1_200, down: 3}
	env := newRetentionEnv(t, a)
	both := keepThree()
	both.Events.Keep = 100
	env.RegisterDelayedCallback(func() {
		a.mu.Lock()
		require.Zero(t, a.runs, "all that is to go goes at once")
		require.Zero(t, a.events)
		a.runs = 1
		a.mu.Unlock()
		env.SignalWorkflow(contract.SignalRetention, both) // what it knows
	}, 30*time.Minute)
	turnOff(env, 90*time.Minute)
	require.NoError(t, playRetention(env, both, nil))
	require.Equal(t, []run.DeleteQuery{{Keep: 3}, {Keep: 3}, {Keep: 3}, {Keep: 3}}, a.asked)
	require.Equal(t, 3, a.looks)
	var state contract.RetentionState
	answer, err := env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&state))
	require.Equal(t, contract.RetentionState{Retention: both, Runs: 2_501, Events: 1_200}, state)
}

func TestRetention_deletes_what_is_configured_alone(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]contract.Retention{
		"runs":    keepThree(),
		"events":  {Interval: run.Duration(time.Hour), Events: contract.EventRetention{Keep: 3}},
		"nothing": {Interval: run.Duration(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &archive{}
			env := newRetentionEnv(t, a)
			turnOff(env, time.Minute)
			require.NoError(t, playRetention(env, r, nil))
			require.Equal(t, name == "runs", len(a.asked) > 0)
			require.Equal(t, name == "events", a.looks > 0)
		})
	}
}

// TestRetention_configured_anew goes on with the new configuration at once.
func TestRetention_configured_anew(t *testing.T) {
	t.Parallel()
	env := newRetentionEnv(t, &archive{})
	next := contract.Retention{Interval: run.Duration(time.Minute), Runs: contract.RunRetention{MaxAge: run.Duration(time.Hour)}}
	begin := env.Now()
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalRetention, keepThree())
		env.SignalWorkflow(contract.SignalRetention, next)
	}, 10*time.Minute)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, playRetention(env, keepThree(), nil), &again)
	var in contract.RetentionInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, contract.RetentionInput{Retention: next}, in)
	require.Equal(t, 10*time.Minute, env.Now().Sub(begin).Round(time.Minute))
}

func TestRetention_continues_as_new(t *testing.T) {
	t.Parallel()
	a := &archive{runs: 100_000}
	env := newRetentionEnv(t, a)
	env.SetCurrentHistoryLength(51)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, playRetention(env, keepThree(), &contract.Limits{Events: 50}), &again, "also while there is more to delete")
}

func TestRetention_cancelled(t *testing.T) {
	t.Parallel()
	env := newRetentionEnv(t, &archive{})
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	require.True(t, temporal.IsCanceledError(playRetention(env, keepThree(), nil)))
}

// playRetention plays the workflow on the server: two looks, another
// configuration, and its end.
func (f *farm) playRetention(t *testing.T) {
	tell := func(r contract.Retention) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), contract.RetentionWorkflowID, contract.SignalRetention, r,
			client.StartWorkflowOptions{ID: contract.RetentionWorkflowID, TaskQueue: contract.ControlQueue},
			contract.RetentionWorkflow, contract.RetentionInput{Retention: r})
		require.NoError(t, err)
	}
	asked := func(n int) {
		testenv.Await(t, 30*time.Second, func() (bool, string) {
			f.archive.mu.Lock()
			defer f.archive.mu.Unlock()
			return len(f.archive.asked) >= n, "it does not look"
		})
	}
	r := contract.Retention{Interval: run.Duration(time.Second), Runs: contract.RunRetention{Keep: 3}, Events: contract.EventRetention{Keep: 100}}
	tell(r)
	asked(4) // 2,500 runs, and once more
	tell(r)
	r.Interval = run.Duration(time.Hour)
	tell(r)
	asked(5)
	tell(contract.Retention{})
	f.keep(t, contract.RetentionWorkflow, "configured-anew", contract.RetentionWorkflowID)
}

// playExpiry has logs removed, more than one call does, and then everything kept.
func (f *farm) playExpiry(t *testing.T) {
	tell := func(r contract.Retention) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), contract.RetentionWorkflowID, contract.SignalRetention, r,
			client.StartWorkflowOptions{ID: contract.RetentionWorkflowID, TaskQueue: contract.ControlQueue},
			contract.RetentionWorkflow, contract.RetentionInput{Retention: r})
		require.NoError(t, err)
	}
	left := func() int {
		f.archive.mu.Lock()
		defer f.archive.mu.Unlock()
		return f.archive.logs
	}
	f.archive.mu.Lock()
	f.archive.logs = 25
	f.archive.mu.Unlock()
	tell(contract.Retention{Interval: run.Duration(time.Hour), Logs: contract.LogRetention{MaxAge: run.Duration(time.Hour), PerSecond: 100}})
	testenv.Await(t, 30*time.Second, func() (bool, string) { return left() == 0, "logs are left" })
	tell(contract.Retention{})
	f.keep(t, contract.RetentionWorkflow, "logs-expire", contract.RetentionWorkflowID)
}
