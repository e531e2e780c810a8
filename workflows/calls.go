package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// calls has the typed stubs of all activities. No other code executes an
// activity.
type calls struct {
	run      run.ID
	priority temporal.Priority
}

func (c calls) loadPlan(ctx workflow.Context, page int) (contract.PlanPage, error) {
	return callRecords[contract.PlanPage](ctx, contract.ActivityLoadPlan, contract.LoadPlanInput{Run: c.run, Page: page})
}

func (c calls) begin(ctx workflow.Context, plan bool) (contract.BeginResult, error) {
	return callRecords[contract.BeginResult](ctx, contract.ActivityBeginRun, contract.BeginInput{Run: c.run, Plan: plan})
}

func (c calls) apply(ctx workflow.Context, in contract.ApplyInput) (contract.ApplyResult, error) {
	in.Run = c.run
	return callRecords[contract.ApplyResult](ctx, contract.ActivityApplyChanges, in)
}

func (c calls) expand(ctx workflow.Context, task int) (contract.ExpandResult, error) {
	return callRecords[contract.ExpandResult](ctx, contract.ActivityExpandForeach, contract.ExpandInput{Run: c.run, Task: task, Empty: true})
}

func (c calls) holders(ctx workflow.Context, tasks ...int) (contract.HoldersResult, error) {
	return callRecords[contract.HoldersResult](ctx, contract.ActivityListHolders, contract.HoldersInput{Run: c.run, Tasks: tasks})
}

// holdersAndRemoved is like holders, and also returns which of the executors were
// removed.
func (c calls) holdersAndRemoved(ctx workflow.Context, executors []string, tasks ...int) (contract.HoldersResult, error) {
	return callRecords[contract.HoldersResult](ctx, contract.ActivityListHolders, contract.HoldersInput{Run: c.run, Tasks: tasks, Executors: executors})
}

// execute schedules execute-task. The future yields a contract.ExecuteResult, or a
// timeout if no executor takes the task within acquire, unless that is 0.
func (c calls) execute(ctx workflow.Context, a contract.Assignment, acquire time.Duration) workflow.Future {
	queue := contract.PoolQueue(a.Pool)
	if a.Labels != "" {
		queue = contract.LabelsQueue(a.Pool, a.Labels)
	}
	o := taskOptions(queue, a.Name, a.Attempt, c.priority)
	o.ScheduleToStartTimeout = acquire
	ctx = workflow.WithActivityOptions(ctx, o)
	return workflow.ExecuteActivity(ctx, contract.ActivityExecuteTask, contract.ExecuteInput{Key: c.key(a), Name: a.Name})
}

func (c calls) adopt(ctx workflow.Context, a contract.Assignment) (contract.ExecuteResult, error) {
	ctx = workflow.WithActivityOptions(ctx, adoptOptions(contract.HolderQueue(a.Adopt.Executor, a.Adopt.Set), a.Name, a.Attempt, c.priority))
	var out contract.ExecuteResult
	err := workflow.ExecuteActivity(ctx, contract.ActivityAdoptTask,
		contract.ExecuteInput{Key: c.key(a), Name: a.Name, JournalID: a.Adopt.JournalID}).Get(ctx, &out)
	return out, err
}

func (c calls) stop(ctx workflow.Context, queue string, a contract.Assignment, force bool) (contract.StopResult, error) {
	ctx = workflow.WithActivityOptions(ctx, stopOptions(queue, a.Name))
	var out contract.StopResult
	err := workflow.ExecuteActivity(ctx, contract.ActivityStopTask, contract.StopInput{Key: c.key(a), Force: force}).Get(ctx, &out)
	return out, err
}

func (c calls) key(a contract.Assignment) run.Key {
	return run.Key{Run: c.run, Task: a.Task, Attempt: a.Attempt, Dispatch: a.Dispatch}
}

// firing has the typed stubs of the activities that fire a schedule.
type firing struct{ schedule string }

func (f firing) fire(ctx workflow.Context, in contract.FireInput) (out contract.FireResult, err error) {
	ctx = workflow.WithActivityOptions(ctx, controlOptions())
	err = workflow.ExecuteActivity(ctx, contract.ActivityFireSchedule, in).Get(ctx, &out)
	return out, err
}

func (f firing) await(ctx workflow.Context, id run.ID) (out contract.AwaitRunResult, err error) {
	ctx = workflow.WithActivityOptions(ctx, waitOptions("wait for a run of "+f.schedule))
	err = workflow.ExecuteActivity(ctx, contract.ActivityAwaitRun, contract.AwaitRunInput{Run: id}).Get(ctx, &out)
	return out, err
}

func (f firing) end(ctx workflow.Context, id run.ID) error {
	ctx = workflow.WithActivityOptions(ctx, controlOptions())
	return workflow.ExecuteActivity(ctx, contract.ActivityEndRun, contract.EndRunInput{Run: id}).Get(ctx, nil)
}

// deliverEvents schedules deliver-events.
func deliverEvents(ctx workflow.Context, name string) workflow.Future {
	ctx = workflow.WithActivityOptions(ctx, waitOptions("deliver events to "+name))
	return workflow.ExecuteActivity(ctx, contract.ActivityDeliverEvents, contract.DeliverInput{Name: name})
}

// expireExecutor reads the state of an executor, and removes it if it expired.
func expireExecutor(ctx workflow.Context, id string) (contract.ExecutorState, error) {
	return callRecords[contract.ExecutorState](ctx, contract.ActivityExpireExecutor, contract.ExpireInput{Executor: id})
}

// watchFleet schedules the watch-fleet activity.
func watchFleet(ctx workflow.Context, in contract.WatchFleetInput) workflow.Future {
	ctx = workflow.WithActivityOptions(ctx, fleetOptions(in.Fleet, "watch fleet "+in.Fleet))
	return workflow.ExecuteActivity(ctx, contract.ActivityWatchFleet, in)
}

func stepFleet(ctx workflow.Context, in contract.RunFleetStepInput) error {
	ctx = workflow.WithActivityOptions(ctx, fleetOptions(in.Fleet, "fleet step "+in.ID))
	return workflow.ExecuteActivity(ctx, contract.ActivityRunFleetStep, in).Get(ctx, nil)
}

func bootstrapInstance(ctx workflow.Context, in contract.BootstrapInstanceInput) error {
	ctx = workflow.WithActivityOptions(ctx, fleetOptions(in.Fleet, fmt.Sprintf("bootstrap instance %d", in.Number)))
	return workflow.ExecuteActivity(ctx, contract.ActivityBootstrapInstance, in).Get(ctx, nil)
}

func deleteRuns(ctx workflow.Context, in contract.DeleteRunsInput) (contract.DeleteRunsResult, error) {
	return removeData[contract.DeleteRunsResult](ctx, "delete runs", contract.ActivityDeleteRuns, in)
}

func expireLogs(ctx workflow.Context, in contract.ExpireLogsInput) (contract.ExpireLogsResult, error) {
	return removeData[contract.ExpireLogsResult](ctx, "remove expired logs", contract.ActivityExpireLogs, in)
}

func expireArchives(ctx workflow.Context, in contract.ExpireArchivesInput) (contract.ExpireArchivesResult, error) {
	return removeData[contract.ExpireArchivesResult](ctx, "remove expired "+string(in.Kind.Retention()), contract.ActivityExpireArchives, in)
}

func removeEvents(ctx workflow.Context, in contract.RemoveEventsInput) (contract.RemoveEventsResult, error) {
	return removeData[contract.RemoveEventsResult](ctx, "remove old events", contract.ActivityRemoveEvents, in)
}

// removeData executes an activity of the retention workflow.
func removeData[Out, In any](ctx workflow.Context, name, activity string, in In) (Out, error) {
	var out Out
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, retentionOptions(name)), activity, in).Get(ctx, &out)
	return out, err
}

// callRecords calls the records. It runs a local activity first, which costs the
// history one marker, and falls back to an activity that retries until it
// succeeds. An outage of the records therefore delays a run and never fails it.
func callRecords[Out, In any](ctx workflow.Context, activity string, in In) (Out, error) {
	var out Out
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, localOptions()), activity, in).Get(ctx, &out)
	if err == nil || refused(err) {
		return out, err
	}
	workflow.GetLogger(ctx).Warn("failed to call the records, retrying", "activity", activity, "error", err)
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, controlOptions()), activity, in).Get(ctx, &out)
	return out, err
}

// refused reports whether the records rejected the request, as opposed to being
// unavailable.
func refused(err error) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.NonRetryable()
}
