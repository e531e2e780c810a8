package execution_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-run/drover/activities/execution"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

var taskKey = run.Key{Run: "01jz0000000000000000000000", Task: 3, Attempt: 1, Dispatch: 2}

// fakeAgent is a scripted fake that records its calls.
type fakeAgent struct {
	out       agent.Outcome
	err       error
	known     bool
	delivered []agent.Delivery
	adopted   []agent.Adoption
	stopped   []run.Key
	forced    []bool
}

func (a *fakeAgent) Execute(_ context.Context, d agent.Delivery) agent.Outcome {
	a.delivered = append(a.delivered, d)
	return a.out
}

func (a *fakeAgent) Adopt(_ context.Context, o agent.Adoption) (agent.Outcome, error) {
	a.adopted = append(a.adopted, o)
	return a.out, a.err
}

func (a *fakeAgent) StopTask(_ context.Context, key run.Key, force bool) (bool, error) {
	a.stopped, a.forced = append(a.stopped, key), append(a.forced, force)
	return a.known, nil
}

func activityEnv(a *fakeAgent) (*testsuite.TestActivityEnvironment, *execution.Executor) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	acts := execution.NewExecutor(a)
	env.RegisterActivityWithOptions(acts.ExecuteTask, activity.RegisterOptions{Name: contract.ActivityExecuteTask})
	env.RegisterActivityWithOptions(acts.AdoptTask, activity.RegisterOptions{Name: contract.ActivityAdoptTask})
	env.RegisterActivityWithOptions(acts.StopTask, activity.RegisterOptions{Name: contract.ActivityStopTask})
	return env, acts
}

func TestExecutor_ExecuteTask(t *testing.T) {
	t.Parallel()
	t.Run("pending", func(t *testing.T) {
		t.Parallel()
		a := &fakeAgent{}
		env, _ := activityEnv(a)
		_, err := env.ExecuteActivity(contract.ActivityExecuteTask, contract.ExecuteInput{Key: taskKey})
		require.ErrorIs(t, err, activity.ErrResultPending)
		require.Len(t, a.delivered, 1)
		require.Equal(t, taskKey, a.delivered[0].Key)
		require.Equal(t, 1, a.delivered[0].Attempt)
		require.Nil(t, a.delivered[0].Last)
		require.NotEmpty(t, a.delivered[0].Token)
	})
	t.Run("with_details_of_an_earlier_delivery", func(t *testing.T) {
		t.Parallel()
		claimed := &agent.HeartbeatDetails{Executor: "host-1", JournalID: "j", Key: taskKey, Frame: 9}
		a := &fakeAgent{out: agent.Outcome{Claimed: claimed}}
		env, _ := activityEnv(a)
		env.SetHeartbeatDetails(contract.Heartbeat{Executor: "host-1", JournalID: "j", Key: taskKey.String(), Frame: 9})
		value, err := env.ExecuteActivity(contract.ActivityExecuteTask, contract.ExecuteInput{Key: taskKey})
		require.NoError(t, err)
		require.Equal(t, claimed, a.delivered[0].Last)
		var result contract.ExecuteResult
		require.NoError(t, value.Get(&result))
		require.Equal(t, "host-1", result.Claimed.Executor)
		require.Equal(t, taskKey.String(), result.Claimed.Key)
	})
	t.Run("requeued", func(t *testing.T) {
		t.Parallel()
		a := &fakeAgent{out: agent.Outcome{Executor: "host-1", Requeued: "no room"}}
		env, _ := activityEnv(a)
		_, err := env.ExecuteActivity(contract.ActivityExecuteTask, contract.ExecuteInput{Key: taskKey})
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, contract.ErrorRequeued, application.Type())
		require.True(t, application.NonRetryable())
		var back contract.Requeue
		require.NoError(t, application.Details(&back))
		require.Equal(t, contract.Requeue{Executor: "host-1", Reason: "no room"}, back)
	})
}

func TestExecutor_AdoptTask(t *testing.T) {
	t.Parallel()
	t.Run("never_started", func(t *testing.T) {
		t.Parallel()
		a := &fakeAgent{out: agent.Outcome{NeverStarted: "not begun"}}
		env, _ := activityEnv(a)
		value, err := env.ExecuteActivity(contract.ActivityAdoptTask, contract.ExecuteInput{Key: taskKey, JournalID: "j"})
		require.NoError(t, err)
		var result contract.ExecuteResult
		require.NoError(t, value.Get(&result))
		require.Equal(t, contract.ExecuteResult{NeverStarted: "not begun"}, result)
		require.Equal(t, "j", a.adopted[0].JournalID)
		require.NotEmpty(t, a.adopted[0].Token)
	})
	t.Run("not_now", func(t *testing.T) {
		t.Parallel()
		a := &fakeAgent{err: run.Errorf(run.CodeUnavailable, "the disk is full")}
		env, _ := activityEnv(a)
		_, err := env.ExecuteActivity(contract.ActivityAdoptTask, contract.ExecuteInput{Key: taskKey})
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, string(run.CodeUnavailable), application.Type())
	})
}

func TestExecutor_StopTask(t *testing.T) {
	t.Parallel()
	a := &fakeAgent{known: true}
	env, _ := activityEnv(a)
	value, err := env.ExecuteActivity(contract.ActivityStopTask, contract.StopInput{Key: taskKey})
	require.NoError(t, err)
	var result contract.StopResult
	require.NoError(t, value.Get(&result))
	require.True(t, result.Known)
	_, err = env.ExecuteActivity(contract.ActivityStopTask, contract.StopInput{Key: taskKey, Force: true})
	require.NoError(t, err)
	require.Equal(t, []run.Key{taskKey, taskKey}, a.stopped)
	require.Equal(t, []bool{false, true}, a.forced)
}

// tokenClient answers with an error and records its calls.
type tokenClient struct {
	err     error
	details []any
	result  any
	failure error
}

func (c *tokenClient) RecordActivityHeartbeat(_ context.Context, _ []byte, details ...any) error {
	c.details = details
	return c.err
}

func (c *tokenClient) CompleteActivity(_ context.Context, _ []byte, result any, failure error) error {
	c.result, c.failure = result, failure
	return c.err
}

func TestTokens_errors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		beat func(t *testing.T, err error)
		done run.Code
	}{
		"accepted": {nil, func(t *testing.T, err error) { require.NoError(t, err) }, ""},
		"not_found": {
			serviceerror.NewNotFound("no"),
			func(t *testing.T, err error) { require.Equal(t, run.CodeNotFound, run.CodeOf(err)) }, run.CodeNotFound,
		},
		"namespace_not_found": {
			serviceerror.NewNamespaceNotFound("drover"),
			func(t *testing.T, err error) { require.Equal(t, run.CodeUnavailable, run.CodeOf(err)) }, run.CodeUnavailable,
		},
		"cancelled": {
			temporal.NewCanceledError(),
			func(t *testing.T, err error) { require.ErrorIs(t, err, agent.ErrStopRequested) }, run.CodeUnavailable,
		},
		"paused": {activity.ErrActivityPaused, func(t *testing.T, err error) { require.NoError(t, err) }, run.CodeUnavailable},
		"reset":  {activity.ErrActivityReset, func(t *testing.T, err error) { require.NoError(t, err) }, run.CodeUnavailable},
		"call_given_up": {
			context.Canceled,
			func(t *testing.T, err error) { require.Equal(t, run.CodeUnavailable, run.CodeOf(err)) }, run.CodeUnavailable,
		},
		"unavailable": {
			serviceerror.NewUnavailable("down"),
			func(t *testing.T, err error) { require.Equal(t, run.CodeUnavailable, run.CodeOf(err)) }, run.CodeUnavailable,
		},
		"anything_else": {
			errors.New("?"),
			func(t *testing.T, err error) { require.Equal(t, run.CodeUnavailable, run.CodeOf(err)) }, run.CodeUnavailable,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens := execution.NewTokens(&tokenClient{err: c.err})
			c.beat(t, tokens.Heartbeat(t.Context(), []byte("token"), agent.HeartbeatDetails{}))
			err := tokens.Complete(t.Context(), []byte("token"), agent.Outcome{Ended: &run.TaskResult{}})
			require.Equal(t, c.done, run.CodeOf(err))
		})
	}
}

func TestTokens_payloads(t *testing.T) {
	t.Parallel()
	c := &tokenClient{}
	tokens := execution.NewTokens(c)
	require.NoError(t, tokens.Heartbeat(t.Context(), nil, agent.HeartbeatDetails{Executor: "e", JournalID: "j", Key: taskKey, Frame: 7}))
	require.Equal(t, []any{contract.Heartbeat{Executor: "e", JournalID: "j", Key: taskKey.String(), Frame: 7}}, c.details)

	ended := &run.TaskResult{Status: run.StatusSuccess}
	require.NoError(t, tokens.Complete(t.Context(), nil, agent.Outcome{Ended: ended}))
	require.Equal(t, contract.ExecuteResult{Ended: ended}, c.result)
	require.NoError(t, c.failure)

	require.NoError(t, tokens.Complete(t.Context(), nil, agent.Outcome{Executor: "e", Requeued: "why"}))
	require.Nil(t, c.result)
	var application *temporal.ApplicationError
	require.ErrorAs(t, c.failure, &application)
	require.Equal(t, contract.ErrorRequeued, application.Type())
}
