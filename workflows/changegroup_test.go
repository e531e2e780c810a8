package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// fakeGroupQueue is a fake of the runs that wait in a change group.
type fakeGroupQueue struct {
	mu       sync.Mutex
	waiting  int
	batch    int // runs admitted by one call; 0: one
	failures int // calls that fail before it answers
	calls    int
	granted  int
	onGrant  func(call int)
	after    func() // called once, after a call has read the queue
}

func (l *fakeGroupQueue) Grant(context.Context, string) ([]records.Grant, bool, error) {
	l.mu.Lock()
	defer func() {
		after := l.after
		l.after = nil
		l.mu.Unlock()
		if after != nil {
			after()
		}
	}()
	l.calls++
	if l.onGrant != nil {
		l.onGrant(l.calls)
	}
	if l.failures > 0 {
		l.failures--
		return nil, false, run.Errorf(run.CodeUnavailable, "%w", errOutage)
	}
	n := min(l.waiting, max(1, l.batch))
	l.waiting -= n
	l.granted += n
	return make([]records.Grant, n), l.waiting > 0, nil
}

func (l *fakeGroupQueue) afterNext(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after = do
}

func (l *fakeGroupQueue) join(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += n
}

func newGroupEnv(t *testing.T, l *fakeGroupQueue) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnvironment(contract.ChangeGroupWorkflowID("deploy"))
	workers.RegisterControl(env, workers.ControlDeps{Groups: l})
	return env
}

func executeGroup(env *testsuite.TestWorkflowEnvironment, limits *contract.Limits) error {
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalGrant, nil) }, 0)
	env.ExecuteWorkflow(contract.ChangeGroupWorkflow, contract.ChangeGroupInput{Name: "deploy", Limits: limits})
	return env.GetWorkflowError()
}

func TestChangeGroup_grants_until_there_is_no_more(t *testing.T) {
	t.Parallel()
	l := &fakeGroupQueue{waiting: 5, batch: 2}
	env := newGroupEnv(t, l)
	begin := env.Now()
	require.NoError(t, executeGroup(env, nil))
	require.Equal(t, 5, l.granted)
	require.LessOrEqual(t, l.calls, 4, "and one for the signal, where that came after the start")
	require.Equal(t, time.Minute, env.Now().Sub(begin).Round(time.Second), "it lingers")
	var state contract.ChangeGroupState
	answer, err := env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&state))
	require.Equal(t, contract.ChangeGroupState{Rounds: l.calls, Granted: 5}, state)
}

func TestChangeGroup_many_signals_are_answered_by_few_grants(t *testing.T) {
	t.Parallel()
	l := &fakeGroupQueue{}
	env := newGroupEnv(t, l)
	env.RegisterDelayedCallback(func() {
		l.join(1)
		for range 300 { // the test environment takes no more at once
			env.SignalWorkflow(contract.SignalGrant, nil)
		}
	}, 10*time.Second)
	require.NoError(t, executeGroup(env, nil))
	require.Equal(t, 1, l.granted)
	require.Less(t, l.calls, 10)
}

// TestChangeGroup_signalled_while_it_grants: a run that joins during a grant is
// admitted by the next grant.
func TestChangeGroup_signalled_while_it_grants(t *testing.T) {
	t.Parallel()
	l := &fakeGroupQueue{}
	env := newGroupEnv(t, l)
	var once sync.Once
	l.onGrant = func(int) {
		once.Do(func() {
			env.RegisterDelayedCallback(func() { l.join(1); env.SignalWorkflow(contract.SignalGrant, nil) }, 0)
		})
	}
	require.NoError(t, executeGroup(env, nil))
	require.Equal(t, 1, l.granted)
}

func TestChangeGroup_lingers_after_the_last_signal(t *testing.T) {
	t.Parallel()
	l := &fakeGroupQueue{}
	env := newGroupEnv(t, l)
	begin := env.Now()
	timers := 0
	env.SetOnTimerScheduledListener(func(string, time.Duration) { timers++ })
	for i := range 9 {
		env.RegisterDelayedCallback(func() { l.join(1); env.SignalWorkflow(contract.SignalGrant, nil) }, time.Duration(i+1)*20*time.Second)
	}
	require.NoError(t, executeGroup(env, nil))
	require.Equal(t, 9, l.granted)
	require.Equal(t, 4*time.Minute, env.Now().Sub(begin).Round(time.Second))
	require.Less(t, timers, 9, "a timer is used up before there is another")
}

// TestChangeGroup_outage: the records are unavailable for longer than a local
// activity retries.
func TestChangeGroup_outage(t *testing.T) {
	t.Parallel()
	l := &fakeGroupQueue{waiting: 1, failures: 15}
	env := newGroupEnv(t, l)
	require.NoError(t, executeGroup(env, nil))
	require.Equal(t, 1, l.granted)
}

func TestChangeGroup_continues_as_new(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits *contract.Limits
		signal string
	}{
		"when_it_is_told":                  {nil, contract.SignalForceContinue},
		"when_it_is_full":                  {&contract.Limits{HistoryEvents: 50}, ""},
		"when_it_is_full_and_told_of_more": {&contract.Limits{HistoryEvents: 50}, contract.SignalGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &fakeGroupQueue{}
			env := newGroupEnv(t, l)
			env.SetCurrentHistoryLength(0)
			env.RegisterDelayedCallback(func() {
				env.SetCurrentHistoryLength(51)
				env.SignalWorkflow(contract.SignalGrant, nil)
				if tt.signal != "" {
					env.SignalWorkflow(tt.signal, nil)
				}
			}, 10*time.Second)
			var again *workflow.ContinueAsNewError
			require.ErrorAs(t, executeGroup(env, tt.limits), &again)
			require.Equal(t, contract.ChangeGroupWorkflow, again.WorkflowType.Name)
		})
	}
}

// TestChangeGroup_cancelled: the workflow ends, but only after it has handled
// all signals received before.
func TestChangeGroup_cancelled(t *testing.T) {
	t.Parallel()
	l := &fakeGroupQueue{}
	env := newGroupEnv(t, l)
	env.RegisterDelayedCallback(func() {
		l.join(1)
		env.SignalWorkflow(contract.SignalGrant, nil)
		env.CancelWorkflow()
	}, 10*time.Second)
	require.True(t, temporal.IsCanceledError(executeGroup(env, nil)))
	require.Equal(t, 1, l.granted)
}

// A run waits until its groups admit it. Other signals have no effect.
func TestRun_waits_for_its_change_groups(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.admitted = false
	phase := func(p run.Phase) {
		w.fakeRecords.mu.Lock()
		defer w.fakeRecords.mu.Unlock()
		w.phase = p
	}
	w.signal(time.Minute, contract.SignalAdmit, nil) // too early, or not for this run
	w.at(time.Hour, func() { require.Empty(t, w.requests()); phase(run.PhaseRunning) })
	w.signal(time.Hour+time.Second, contract.SignalAdmit, nil)
	w.signal(time.Hour+2*time.Second, contract.SignalAdmit, nil)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Len(t, w.requests(), 1)
}

// A run that was admitted before its workflow started begins immediately.
func TestRun_admitted_before_it_began(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.admitted, w.phase = false, run.PhaseRunning
	require.Equal(t, run.ResultSuccess, w.run().Result)
}

// A run that another run displaced while it waited ends without a trace.
func TestRun_displaced_while_it_waits(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.admitted = false
	w.at(time.Minute, func() {
		w.fakeRecords.mu.Lock()
		w.phase = run.PhaseCancelled
		w.fakeRecords.mu.Unlock()
	})
	w.signal(time.Minute+time.Second, contract.SignalCancel, nil)
	require.Equal(t, run.PhaseCancelled, w.run().Phase)
	require.Empty(t, w.requests())
}
