package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// fakeFleetWorker is a scripted fleet worker.
type fakeFleetWorker struct {
	mu      sync.Mutex
	plans   []controller.Plan // the plans of the watches, one after the other; then empty ones
	deleted bool              // the fleet no longer exists, once the plans are used up
	steps   []string
	done    []controller.Plan
	watches [][]int  // the instances that each watch must leave alone
	changes []string // the change in progress when each watch began
	// stepGate, if set, blocks steps that create machines until it is closed.
	stepGate   chan struct{}
	stalePlans bool // its plans never include the effects of the change in progress
	// onWatch, if set, is called as each watch begins.
	onWatch      func(n int)
	bootstrapped []int // bootstrapped instances
	fail         int   // number of first steps that fail
	// release, if set, is closed to let bootstraps finish from the third watch
	// on.
	release chan struct{}
	over    <-chan struct{} // closed at the end of the test
	ending  chan struct{}   // closed if the fleet is to end; nil: never
}

func (f *fakeFleetWorker) Watch(ctx context.Context, _ string, u controller.InProgress) (controller.WatchResult, error) {
	f.mu.Lock()
	f.watches = append(f.watches, u.Bootstrapping)
	f.changes = append(f.changes, u.Change)
	if f.release != nil && len(f.watches) == 3 {
		close(f.release)
	}
	if f.onWatch != nil {
		f.onWatch(len(f.watches))
	}
	var out controller.WatchResult
	if !f.stalePlans {
		out.After = u.Change
	}
	found := len(f.plans) > 0
	if found {
		out.Plan, f.plans = f.plans[0], f.plans[1:]
	}
	out.Gone = f.deleted && !found
	f.mu.Unlock()
	if found || out.Gone {
		return out, nil
	}
	select {
	case <-ctx.Done():
	case <-f.over:
	case <-f.ending:
		return controller.WatchResult{Plan: controller.Plan{End: true}}, nil
	}
	return controller.WatchResult{}, context.Canceled
}

func (f *fakeFleetWorker) Step(_ context.Context, _, id string, p controller.Plan) error {
	if f.stepGate != nil && p.Request.Count > 0 {
		<-f.stepGate
	}
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

func (f *fakeFleetWorker) Bootstrap(_ context.Context, _ string, number int) error {
	if f.release != nil {
		<-f.release
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bootstrapped = append(f.bootstrapped, number)
	return nil
}

// newFleetEnv returns an environment for the workflow. meanwhile is called during
// the first step.
func newFleetEnv(t *testing.T, f *fakeFleetWorker, meanwhile func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
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
			if info.ActivityType.Name == contract.ActivityRunFleetStep {
				first()
			}
		})
	}
	return env
}

func order(number int) []controller.Order {
	return []controller.Order{{Number: number, Reason: "idle", Message: "so"}}
}

func TestFleet_executes_the_plan(t *testing.T) {
	t.Parallel()
	f := &fakeFleetWorker{deleted: true, fail: 1, plans: []controller.Plan{
		{Request: controller.Request{Count: 2, Reason: "demand", Message: "two wait"}}, {Drain: order(1)}, {Delete: order(1), Lost: order(2), GiveUp: order(3)}, {End: true},
	}}
	env := newFleetEnv(t, f, nil)
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	// The step that creates and deletes machines is separate from the others.
	require.ElementsMatch(t, []controller.Plan{
		{Request: controller.Request{Count: 2, Reason: "demand", Message: "two wait"}}, {Drain: order(1)}, {Lost: order(2), GiveUp: order(3)}, {Delete: order(1)}, {End: true},
	}, f.done)
	require.Equal(t, controller.Plan{End: true}, f.done[len(f.done)-1])
	require.Len(t, f.steps, 6)
	slices.Sort(f.steps)
	require.Len(t, slices.Compact(f.steps), 5, "a step that is repeated is the same one")
	answer, err := env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	var state contract.FleetState
	require.NoError(t, answer.Get(&state))
	require.Equal(t, contract.FleetState{Steps: 5, Requested: 2, Drained: 1, Deleted: 1, Lost: 1, GivenUp: 1, Last: contract.FleetPlan{End: true}}, state)
}

func TestFleet_bootstraps_concurrently(t *testing.T) {
	t.Parallel()
	f := &fakeFleetWorker{deleted: true, release: make(chan struct{}), plans: []controller.Plan{
		{Bootstrap: order(4)}, {Bootstrap: order(4), Drain: order(1)}, {End: true},
	}}
	env := newFleetEnv(t, f, nil)
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, [][]int{nil, {4}, {4}}, f.watches, "and once")
	require.Len(t, f.done, 2)
}

func TestFleet_watches_during_a_slow_change(t *testing.T) {
	t.Parallel()
	request := controller.Plan{Request: controller.Request{Count: 2}}
	f := &fakeFleetWorker{deleted: true, stepGate: make(chan struct{}), plans: []controller.Plan{
		{Request: request.Request, Drain: order(1)}, {Drain: order(2)}, {Bootstrap: order(3)}, {Lost: order(4)},
	}}
	f.onWatch = func(n int) {
		if n == 4 { // all but the last ran while the plugin was being called
			close(f.stepGate)
		}
	}
	env := newFleetEnv(t, f, nil)
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []controller.Plan{{Drain: order(1)}, {Drain: order(2)}}, f.done[:2])
	require.Contains(t, f.done, request, "and it was done before the end")
	// The workflow does not wait for it at its end.
	testenv.Await(t, func() (bool, string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Equal(f.bootstrapped, []int{3}), fmt.Sprintf("made executors: %v", f.bootstrapped)
	})
	require.Empty(t, f.changes[0])
	require.NotEmpty(t, f.changes[1])
	require.Equal(t, []string{f.changes[1], f.changes[1]}, f.changes[2:4], "each watch knows of it")
}

func TestFleet_drops_a_change_planned_before_the_last_one_ended(t *testing.T) {
	t.Parallel()
	request := controller.Plan{Request: controller.Request{Count: 2}}
	f := &fakeFleetWorker{deleted: true, stalePlans: true, stepGate: make(chan struct{}), plans: []controller.Plan{request, request, {Drain: order(1)}}}
	f.onWatch = func(n int) {
		if n == 2 {
			close(f.stepGate)
		}
	}
	env := newFleetEnv(t, f, nil)
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []controller.Plan{request, {Drain: order(1)}}, f.done, "the machines are asked for once")
}

func TestFleet_created_again_while_it_ends(t *testing.T) {
	t.Parallel()
	f := &fakeFleetWorker{deleted: true, plans: []controller.Plan{{End: true}}}
	env := newFleetEnv(t, f, func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalFleet, nil) })
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
		"on request": {nil, func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalForceContinue, nil) }},
		"when its history is long": {&contract.Limits{HistoryEvents: 5}, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetCurrentHistoryLength(6)
			env.SignalWorkflow(contract.SignalFleet, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeFleetWorker{plans: []controller.Plan{{Drain: order(1)}}}
			env := newFleetEnv(t, f, c.do)
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
	env := newFleetEnv(t, &fakeFleetWorker{plans: []controller.Plan{{Drain: order(1)}}}, func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() })
	env.ExecuteWorkflow(contract.FleetWorkflow, contract.FleetInput{Fleet: "linux"})
	require.ErrorContains(t, env.GetWorkflowError(), "cancel")
}
