// Package execution has the activities that an executor serves. It imports nothing
// that only a server needs.
package execution

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// TaskAgent is the part of agent.Agent that the activities use.
type TaskAgent interface {
	Execute(ctx context.Context, d agent.Delivery) agent.Outcome
	Adopt(ctx context.Context, o agent.Adoption) (agent.Outcome, error)
	StopTask(ctx context.Context, key run.Key, force bool) (bool, error)
}

var _ TaskAgent = (*agent.Agent)(nil)

// Executor holds the activities that an executor serves. They pass a task to
// the agent and return immediately: the result comes by the task's token.
type Executor struct {
	agent TaskAgent
}

// NewExecutor returns the activities of an agent.
func NewExecutor(agent TaskAgent) *Executor { return &Executor{agent: agent} }

// ExecuteTask is contract.ActivityExecuteTask.
func (e *Executor) ExecuteTask(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	info := activity.GetInfo(ctx)
	d := agent.Delivery{Key: in.Key, Token: info.TaskToken, Attempt: int(info.Attempt), ClaimProof: in.ClaimProof}
	_, d.Labels, _ = contract.ParseLabelsQueue(info.TaskQueue)
	if activity.HasHeartbeatDetails(ctx) {
		var last contract.Heartbeat
		if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
			// Their presence means that an earlier delivery sent a heartbeat,
			// so nothing may start.
			activity.GetLogger(ctx).Warn("failed to decode heartbeat details", "error", err)
		}
		d.Last = detailsOf(last, in.Key)
	}
	return e.answer(e.agent.Execute(ctx, d))
}

// AdoptTask is contract.ActivityAdoptTask.
func (e *Executor) AdoptTask(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	out, err := e.agent.Adopt(ctx, agent.Adoption{
		Key:       in.Key,
		Token:     activity.GetInfo(ctx).TaskToken,
		JournalID: in.JournalID,
	})
	if err != nil {
		return contract.ExecuteResult{}, errcode.ToTemporal(err)
	}
	return e.answer(out)
}

// StopTask is contract.ActivityStopTask.
func (e *Executor) StopTask(ctx context.Context, in contract.StopInput) (contract.StopResult, error) {
	known, err := e.agent.StopTask(ctx, in.Key, in.Force)
	if err != nil {
		return contract.StopResult{}, errcode.ToTemporal(err)
	}
	return contract.StopResult{Known: known}, nil
}

func (e *Executor) answer(out agent.Outcome) (contract.ExecuteResult, error) {
	if out.Pending() {
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
	return resultOf(out)
}

// resultOf converts an outcome to the result of execute-task.
func resultOf(out agent.Outcome) (contract.ExecuteResult, error) {
	if out.Requeued != "" {
		return contract.ExecuteResult{}, temporal.NewApplicationErrorWithOptions(out.Requeued, contract.ErrorRequeued,
			temporal.ApplicationErrorOptions{
				NonRetryable: true,
				// It is a normal outcome, not an error to be logged.
				Category: temporal.ApplicationErrorCategoryBenign,
				Details:  []any{contract.Requeue{Executor: out.Executor, Reason: out.Requeued, JournalID: out.JournalID}},
			})
	}
	result := contract.ExecuteResult{Ended: out.Ended, NeverStarted: out.NeverStarted}
	if out.NeverStarted != "" {
		result.JournalID = out.JournalID
	}
	if out.Claimed != nil {
		h := heartbeatOf(*out.Claimed)
		result.Claimed = &h
	}
	return result, nil
}

func heartbeatOf(d agent.HeartbeatDetails) contract.Heartbeat {
	return contract.Heartbeat{Executor: d.Executor, Set: d.Set, JournalID: d.JournalID, Key: d.Key.String(), Frame: d.Frame}
}

func detailsOf(h contract.Heartbeat, key run.Key) *agent.HeartbeatDetails {
	return &agent.HeartbeatDetails{Executor: h.Executor, Set: h.Set, JournalID: h.JournalID, Key: key, Frame: h.Frame}
}
