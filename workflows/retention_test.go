package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// fakeRetentionStore is a fake of the records that removes data.
type fakeRetentionStore struct {
	mu         sync.Mutex
	runs       int
	events     int
	failures   int // calls that fail before it answers
	asked      []run.DeleteQuery
	eventCalls int // calls of RemoveEvents
	logs       int // runs with expired logs
	archives   map[run.ArchiveKind]int
	order      []run.RetentionKind // the kinds in the order of the calls
}

// record records a call, once for repeated calls of one kind. The caller holds
// the lock.
func (a *fakeRetentionStore) record(kind run.RetentionKind) {
	if n := len(a.order); n == 0 || a.order[n-1] != kind {
		a.order = append(a.order, kind)
	}
}

func (a *fakeRetentionStore) ExpireLogs(_ context.Context, _ time.Time, n int) (records.ExpiredLogs, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.record(run.RetentionLogs)
	n = min(a.logs, n)
	a.logs -= n
	return records.ExpiredLogs{Runs: n, Bytes: int64(n)}, nil
}

func (a *fakeRetentionStore) ExpireArchives(_ context.Context, kind run.ArchiveKind, _ run.ArchiveRetention, n int) (records.Expired, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.record(kind.Retention())
	n = min(a.archives[kind], n)
	if n > 0 {
		a.archives[kind] -= n
	}
	return records.Expired{Archives: n, Bytes: 2 * int64(n), More: a.archives[kind] > 0}, nil
}

func (a *fakeRetentionStore) DeleteRuns(_ context.Context, q run.DeleteQuery) (run.Deleted, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures > 0 {
		a.failures--
		return run.Deleted{}, run.Errorf(run.CodeUnavailable, "%w", errOutage)
	}
	a.record(run.RetentionRuns)
	q.Throttle = nil
	a.asked = append(a.asked, q)
	n := min(a.runs, run.MaxDelete)
	a.runs -= n
	return run.Deleted{Runs: n, More: a.runs > 0}, nil
}

func (a *fakeRetentionStore) RemoveEvents(_ context.Context, _ records.KeepEvents, n int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.record(run.RetentionEvents)
	a.eventCalls++
	n = min(a.events, n)
	a.events -= n
	return n, nil
}

func newRetentionEnv(t *testing.T, a *fakeRetentionStore) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnvironment(contract.RetentionWorkflowID)
	workers.RegisterControl(env, workers.ControlDeps{Retention: a})
	return env
}

func retentionStatus(t *testing.T, env *testsuite.TestWorkflowEnvironment) run.RetentionStatus {
	t.Helper()
	var status run.RetentionStatus
	answer, err := env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&status))
	return status
}

// keepThree keeps the newest three runs of each group.
func keepThree() run.Retention {
	return run.Retention{Interval: run.Duration(time.Hour), Runs: run.RunsRetention{Keep: 3}}
}

func TestRetention_removes_logs_that_have_expired(t *testing.T) {
	t.Parallel()
	a := &fakeRetentionStore{logs: 47}
	env := newRetentionEnv(t, a)
	keepEverything(env, 90*time.Minute)
	keep := run.Retention{Interval: run.Duration(time.Hour), Logs: run.LogRetention{MaxAge: run.Duration(time.Hour)}}
	require.NoError(t, executeRetention(env, keep, nil))
	require.Zero(t, a.logs)
	require.Zero(t, a.eventCalls, "nothing is said of events")
	require.Empty(t, a.asked)
}

func executeRetention(env *testsuite.TestWorkflowEnvironment, r run.Retention, limits *contract.Limits) error {
	env.ExecuteWorkflow(contract.RetentionWorkflow, contract.RetentionInput{Retention: r, Limits: limits})
	return env.GetWorkflowError()
}

// keepEverything sends a configuration that keeps everything.
func keepEverything(env *testsuite.TestWorkflowEnvironment, after time.Duration) {
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalRetention, run.Retention{Interval: run.Duration(time.Hour)})
	}, after)
}

func TestRetention_runs_periodically(t *testing.T) {
	t.Parallel()
	a := &fakeRetentionStore{runs: 2_500, events: 1_200, failures: 3}
	env := newRetentionEnv(t, a)
	both := keepThree()
	both.Events.Keep = 100
	env.RegisterDelayedCallback(func() {
		a.mu.Lock()
		require.Zero(t, a.runs, "all that is to go goes at once")
		require.Zero(t, a.events)
		a.runs = 1
		a.mu.Unlock()
		env.SignalWorkflow(contract.SignalRetention, both) // the current configuration
	}, 30*time.Minute)
	keepEverything(env, 90*time.Minute)
	require.NoError(t, executeRetention(env, both, nil))
	require.Equal(t, []run.DeleteQuery{{Keep: 3}, {Keep: 3}, {Keep: 3}, {Keep: 3}}, a.asked)
	require.Equal(t, 3, a.eventCalls)
	status := retentionStatus(t, env)
	require.Equal(t, both, status.Retention)
	require.Equal(t, map[run.RetentionKind]run.RetentionSum{run.RetentionRuns: {Count: 2_501}, run.RetentionEvents: {Count: 1_200}}, status.Removed)
	require.Equal(t, time.Hour, status.Next.Sub(status.Since).Round(time.Hour)-time.Hour)
	require.Empty(t, status.Removing)
}

// keepAllKinds has settings for all kinds.
func keepAllKinds() run.Retention {
	return run.Retention{
		Interval: run.Duration(time.Hour), Logs: run.LogRetention{MaxAge: 1}, Runs: run.RunsRetention{Keep: 3}, Events: run.EventRetention{Keep: 9},
		Archives: run.ArchiveRetention{On: true, Workspaces: 1, CacheBytes: 1},
	}
}

// TestRetention_removes_all_kinds removes archives before their runs, so that
// each is counted as its own kind.
func TestRetention_removes_all_kinds(t *testing.T) {
	t.Parallel()
	a := &fakeRetentionStore{archives: map[run.ArchiveKind]int{run.ArchiveWorkspace: 120, run.ArchiveArtifact: 3, run.ArchiveCache: 2}, runs: 1}
	env := newRetentionEnv(t, a)
	keepEverything(env, 30*time.Minute)
	require.NoError(t, executeRetention(env, keepAllKinds(), nil))
	require.Equal(t, run.RetentionKinds(), a.order)
	require.Equal(t, map[run.RetentionKind]run.RetentionSum{
		run.RetentionLogs: {}, run.RetentionWorkspaces: {Count: 120, Bytes: 240}, run.RetentionArtifacts: {Count: 3, Bytes: 6},
		run.RetentionCaches: {Count: 2, Bytes: 4}, run.RetentionRuns: {Count: 1}, run.RetentionEvents: {},
	}, retentionStatus(t, env).Removed)
}

func TestRetention_deletes_only_configured_kinds(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]run.Retention{
		"runs":    keepThree(),
		"events":  {Interval: run.Duration(time.Hour), Events: run.EventRetention{Keep: 3}},
		"nothing": {Interval: run.Duration(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &fakeRetentionStore{}
			env := newRetentionEnv(t, a)
			keepEverything(env, time.Minute)
			require.NoError(t, executeRetention(env, r, nil))
			require.Equal(t, name == "runs", len(a.asked) > 0)
			require.Equal(t, name == "events", a.eventCalls > 0)
		})
	}
}

// TestRetention_reconfigured applies a new configuration immediately.
func TestRetention_reconfigured(t *testing.T) {
	t.Parallel()
	env := newRetentionEnv(t, &fakeRetentionStore{})
	next := run.Retention{Interval: run.Duration(time.Minute), Runs: run.RunsRetention{MaxAge: run.Duration(time.Hour)}}
	begin := env.Now()
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalRetention, keepThree())
		env.SignalWorkflow(contract.SignalRetention, next)
	}, 10*time.Minute)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, executeRetention(env, keepThree(), nil), &again)
	var in contract.RetentionInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, next, in.Retention)
	require.Equal(t, begin.Round(time.Minute).UTC(), in.Since.Round(time.Minute).UTC())
	require.Equal(t, 10*time.Minute, env.Now().Sub(begin).Round(time.Minute))
}

func TestRetention_continues_as_new(t *testing.T) {
	t.Parallel()
	a := &fakeRetentionStore{runs: 100_000}
	env := newRetentionEnv(t, a)
	env.SetCurrentHistoryLength(51)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, executeRetention(env, keepThree(), &contract.Limits{HistoryEvents: 50}), &again, "also while there is more to delete")
}

func TestRetention_cancelled(t *testing.T) {
	t.Parallel()
	env := newRetentionEnv(t, &fakeRetentionStore{})
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	require.True(t, temporal.IsCanceledError(executeRetention(env, keepThree(), nil)))
}

// runRetentionScenario plays the workflow on the server: two rounds, another
// configuration, and its end.
func (f *cluster) runRetentionScenario(t *testing.T) {
	trigger := func(r run.Retention) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), contract.RetentionWorkflowID, contract.SignalRetention, r,
			client.StartWorkflowOptions{ID: contract.RetentionWorkflowID, TaskQueue: contract.ControlQueue},
			contract.RetentionWorkflow, contract.RetentionInput{Retention: r})
		require.NoError(t, err)
	}
	asked := func(n int) {
		testenv.Await(t, func() (bool, string) {
			f.retentionStore.mu.Lock()
			defer f.retentionStore.mu.Unlock()
			return len(f.retentionStore.asked) >= n, "it does not look"
		})
	}
	r := run.Retention{Interval: run.Duration(time.Second), Runs: run.RunsRetention{Keep: 3}, Events: run.EventRetention{Keep: 100}}
	trigger(r)
	asked(4) // 2,500 runs, and one more call
	trigger(r)
	r.Interval = run.Duration(time.Hour)
	trigger(r)
	asked(5)
	trigger(run.Retention{})
	f.keep(t, contract.RetentionWorkflow, "reconfigured", contract.RetentionWorkflowID)
}

// runExpiryScenario removes data of all kinds, more than one call removes, and then
// keeps everything.
func (f *cluster) runExpiryScenario(t *testing.T) {
	trigger := func(r run.Retention) {
		_, err := f.client.SignalWithStartWorkflow(t.Context(), contract.RetentionWorkflowID, contract.SignalRetention, r,
			client.StartWorkflowOptions{ID: contract.RetentionWorkflowID, TaskQueue: contract.ControlQueue},
			contract.RetentionWorkflow, contract.RetentionInput{Retention: r})
		require.NoError(t, err)
	}
	left := func() int {
		f.retentionStore.mu.Lock()
		defer f.retentionStore.mu.Unlock()
		return f.retentionStore.logs + f.retentionStore.archives[run.ArchiveArtifact] + f.retentionStore.events
	}
	f.retentionStore.mu.Lock()
	f.retentionStore.logs, f.retentionStore.events = 25, 1_200
	f.retentionStore.archives = map[run.ArchiveKind]int{run.ArchiveArtifact: 60}
	f.retentionStore.mu.Unlock()
	keep := keepAllKinds()
	keep.PerSecond = 100
	trigger(keep)
	testenv.Await(t, func() (bool, string) { return left() == 0, "something is left" })
	trigger(run.Retention{})
	f.keep(t, contract.RetentionWorkflow, "all-kinds", contract.RetentionWorkflowID)
}
