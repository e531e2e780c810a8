package workflows_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/fleets"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// flock is the worker of a fleet that does as tests say.
type flock struct {
	mu      sync.Mutex
	plans   []fleets.Plan // what one watch after the other finds; then nothing
	gone    bool          // there is no such fleet any more, once nothing is found
	steps   []string
	done    []fleets.Plan
	watches [][]int // what each was told to leave alone
	made    []int   // executors
	fail    int     // steps that break off first
	// release lets executors be made from the third watch on, where it is set.
	release chan struct{}
	over    <-chan struct{} // ends with the test
	ending  chan struct{}   // closed where the fleet is to end; nil: never
}

func (f *flock) Watch(ctx context.Context, _ string, bootstrapping []int) (fleets.Plan, bool, error) {
	f.mu.Lock()
	f.watches = append(f.watches, bootstrapping)
	if f.release != nil && len(f.watches) == 3 {
		close(f.release)
	}
	var p fleets.Plan
	found := len(f.plans) > 0
	if found {
		p, f.plans = f.plans[0], f.plans[1:]
	}
	gone := f.gone
	f.mu.Unlock()
	if found || gone {
		return p, found, nil
	}
	select {
	case <-ctx.Done():
	case <-f.over:
	case <-f.ending:
		return fleets.Plan{End: true}, true, nil
	}
	return p, true, context.Canceled
}

func (f *flock) Step(_ context.Context, _, id string, p fleets.Plan) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = append(f.steps, id)
	if f.fail > 0 {
		f.fail--
		return run.Errorf(run.CodeUnavailable, "%w", errors.New("the records are away"))
	}
	f.done = append(f.done, p)
	return nil
}

func (f *flock) Bootstrap(_ context.Context, _ string, number int) error {
	if f.release != nil {
		<-f.release
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, number)
	return nil
}

// newFlock returns an environment for the workflow. meanwhile is called while
// the first step is done.
func newFlock(t *testing.T, f *flock, meanwhile func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	over := make(chan struct{})
	f.over = over
	t.Cleanup(func() { close(over) })
	env := newEnvironment(contract.FleetWorkflowID("linux"))
	workers.RegisterControl(env, workers.ControlDeps{})
	workers.RegisterFleet(env, f)
	if meanwhile != nil {
		first := sync.OnceFunc(func() { meanwhile(env) })
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
			if info.ActivityType.Name == contract.ActivityStepFleet {
				first()
			}
		})
	}
	return env
}

func order(number int) []fleets.Order {
	return []fleets.Order{{Number: number, Reason: "idle", Why: "so"}}
}

func TestFleet_does_what_is_found(t *testing.T) {
	t.Parallel()
	f := &flock{gone: true, fail: 1, plans: []fleets.Plan{
		{Request: fleets.Request{Count: 2, Reason: "demand", Why: "two wait"}}, {Drain: order(1)}, {Delete: order(1), Lost: order(2), GiveUp: order(3)}, {End: true},
	}}
	want := f.plans
	env := newFlock(t, f, nil)
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, want, f.done)
	require.Len(t, f.steps, 5)
	require.Equal(t, f.steps[0], f.steps[1], "a step that is repeated is the same one")
	answer, err := env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	var state contract.FleetState
	require.NoError(t, answer.Get(&state))
	require.Equal(t, contract.FleetState{Steps: 4, Requested: 2, Drained: 1, Deleted: 1, Lost: 1, GivenUp: 1, Last: contract.FleetPlan{End: true}}, state)
}

func TestFleet_bootstraps_beside_all_else(t *testing.T) {
	t.Parallel()
	f := &flock{gone: true, release: make(chan struct{}), plans: []fleets.Plan{
		{Bootstrap: order(4)}, {Bootstrap: order(4), Drain: order(1)}, {End: true},
	}}
	env := newFlock(t, f, nil)
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, [][]int{nil, {4}, {4}}, f.watches, "and once")
	require.Len(t, f.done, 2)
}

func TestFleet_made_anew_while_it_ends(t *testing.T) {
	t.Parallel()
	f := &flock{gone: true, plans: []fleets.Plan{{End: true}}}
	env := newFlock(t, f, func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalFleet, nil) })
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, f.watches, 2, "it looks again")
}

func TestFleet_continues_as_new(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits *contract.Limits
		do     func(env *testsuite.TestWorkflowEnvironment)
	}{
		"when told to": {nil, func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalForceContinue, nil) }},
		"when its history is long": {&contract.Limits{Events: 5}, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetCurrentHistoryLength(6)
			env.SignalWorkflow(contract.SignalFleet, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flock{plans: []fleets.Plan{{Drain: order(1)}}}
			env := newFlock(t, f, c.do)
			env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux", Limits: c.limits})
			var next *workflow.ContinueAsNewError
			require.ErrorAs(t, env.GetWorkflowError(), &next)
			var in contract.FleetInput
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
			require.Equal(t, "linux", in.Fleet)
			require.Equal(t, c.limits, in.Limits)
			require.Equal(t, 1, in.State.Steps)
			require.Equal(t, 1, in.State.Drained)
		})
	}
}

func TestFleet_cancelled(t *testing.T) {
	t.Parallel()
	env := newFlock(t, &flock{plans: []fleets.Plan{{Drain: order(1)}}}, func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() })
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.ErrorContains(t, env.GetWorkflowError(), "cancel")
}
