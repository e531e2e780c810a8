package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// forever is the start-to-close timeout of tasks, which the server requires.
// The shim enforces the user's timeout.
const forever = 10 * 365 * 24 * time.Hour

// heartbeatTimeout is when an executor counts as out of contact with its task.
// Except in a disaster, an executor restarts within that time.
const heartbeatTimeout = 30 * time.Second

// Another worker takes over an activity that waits waitHeartbeat after its
// worker was killed. An activity that failed is retried after waitRetry.
const (
	waitHeartbeat = 15 * time.Second
	waitRetry     = 200 * time.Millisecond
)

// The pauses between the attempts of other activities.
const (
	localRetryFirst     = 20 * time.Millisecond
	localRetryLimit     = time.Second
	controlRetryFirst   = 500 * time.Millisecond
	controlRetryLimit   = 15 * time.Second
	retentionRetryLimit = time.Minute
	stopRetryFirst      = 100 * time.Millisecond
	stopRetryLimit      = 30 * time.Second
)

// An activity that removes data returns after ten seconds if its last call of
// the records returns; retentionTimeout is much longer. After retentionHeartbeat
// another worker takes over from one that was killed.
const (
	retentionTimeout   = 2 * time.Minute
	retentionHeartbeat = 20 * time.Second
)

// maxSummary limits the name in the summary of an activity, in bytes; the
// server refuses 400.
const maxSummary = 200

// localOptions returns the options of a local activity that reads or writes the
// records: it takes a few milliseconds, and retries are immediate. All attempts
// must end well before the workflow task timeout (10 s), or renewals fill the
// history.
func localOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 6 * time.Second,
		StartToCloseTimeout:    4 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: localRetryFirst, BackoffCoefficient: 2, MaximumInterval: localRetryLimit,
		},
	}
}

// controlOptions returns the options of the same as an activity, for outages
// that a local activity does not outlast: it retries until the records are
// back.
func controlOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           contract.ControlQueue,
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: controlRetryFirst, BackoffCoefficient: 2, MaximumInterval: controlRetryLimit,
		},
	}
}

// retentionOptions returns the options of an activity that removes data: its
// deletions remain when it is retried.
func retentionOptions(name string) workflow.ActivityOptions {
	o := controlOptions()
	o.StartToCloseTimeout = retentionTimeout
	o.HeartbeatTimeout = retentionHeartbeat
	o.RetryPolicy.MaximumInterval = retentionRetryLimit
	o.Summary = name
	return o
}

// taskOptions returns the options of execute-task: one attempt, no limit except
// the heartbeat timeout, and the holder itself answers a cancellation.
func taskOptions(queue, name string, attempt int, priority temporal.Priority) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:             queue,
		StartToCloseTimeout:   forever,
		HeartbeatTimeout:      heartbeatTimeout,
		WaitForCancellation:   true,
		RetryPolicy:           &temporal.RetryPolicy{MaximumAttempts: 1},
		DisableEagerExecution: true,
		Summary:               summary(name, attempt),
		Priority:              priority,
	}
}

// adoptOptions returns the options of adopt-task. The workflow cancels it only
// if its executor was removed, and then no worker can answer.
func adoptOptions(queue, name string, attempt int, priority temporal.Priority) workflow.ActivityOptions {
	o := taskOptions(queue, name, attempt, priority)
	o.WaitForCancellation = false
	o.Summary = shorten("adopt " + o.Summary)
	return o
}

// stopOptions returns the options of stop-task. While the executor is out of
// contact, stop-task waits in its queue without a limit.
func stopOptions(queue, name string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:             queue,
		StartToCloseTimeout:   heartbeatTimeout,
		RetryPolicy:           &temporal.RetryPolicy{InitialInterval: stopRetryFirst, BackoffCoefficient: 2, MaximumInterval: stopRetryLimit},
		DisableEagerExecution: true,
		Summary:               shorten("stop " + name),
		// A stop never waits behind tasks of other runs.
		Priority: temporal.Priority{PriorityKey: 1},
	}
}

// fleetOptions returns the options of an activity of a fleet worker. If its
// heartbeats stop, another fleet worker continues it.
func fleetOptions(fleet, name string) workflow.ActivityOptions {
	o := waitOptions(name)
	o.TaskQueue = contract.FleetQueue(fleet)
	return o
}

// batchOptions returns the options of a batch, which outlives this execution of
// its parent.
func batchOptions(in contract.BatchInput) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:            contract.BatchWorkflowID(in.Run, in.Batch),
		TaskQueue:             contract.ControlQueue,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         batchSummary(in),
		Priority:              contract.Priority(in.Priority, in.Group),
	}
}

// The default limits. Histories that began without limits of their own replay
// with these, so a change of a default needs workflow.GetVersion.
const (
	// inlineTasks is the largest number of tasks that a run executes without
	// batches: about 1,500 events, and no more pending activities than a tenth
	// of the server's limit.
	inlineTasks = 250
	batchTasks  = 250
	// openBatches is well below the 2,000 children that a server allows.
	openBatches = 500
	// historyEvents is the history length from which an execution starts
	// nothing new. The server warns at 10,240, and operations in flight still
	// need room.
	historyEvents = 4_000
)

// The default intervals.
const (
	// reportEvery throttles a batch: it reports the first end immediately, and
	// further ends together after this interval.
	reportEvery = 150 * time.Millisecond
	// reportAtOnce is the number of ends that are reported without waiting.
	reportAtOnce = 50
	// lingerTime is how long a batch without tasks waits for more. It is longer
	// than its parent needs to decide which tasks follow.
	lingerTime = 2 * time.Second
	// firstBackoff and maxBackoff bound the backoff of requeued tasks.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// changeRetryConditions is the change ID of the exit codes and of the causes
	// oom, timeout and vanished in retry policies.
	changeRetryConditions = "retry-conditions"

	// changeStopRunning is the change ID of fail_fast that stops running tasks.
	changeStopRunning = "fail-fast-stops-running"

	// changeFinally is the change ID of finally tasks.
	changeFinally = "finally"
	// changeSlots is the change ID of slots of tasks.
	changeSlots = "slots-of-tasks"
	// changeMaxParallel is the change ID of limits of the tasks of a matrix or a list.
	changeMaxParallel = "max-parallel"

	// firstStopBackoff and maxStopBackoff bound the backoff of repeated stops: a task
	// that does not end for days must not fill the history.
	firstStopBackoff = time.Second
	maxStopBackoff   = time.Hour
	// stopResendInterval is well above the grace period of a stop.
	stopResendInterval = 30 * time.Second
	// pingEvery is how often a run pings the batches whose termination it would
	// not notice.
	pingEvery = 10 * time.Minute
)

// limits returns the limits with defaults for what is not set.
func limits(given *contract.Limits) contract.Limits {
	l := contract.Limits{InlineTasks: inlineTasks, BatchTasks: batchTasks, OpenBatches: openBatches, HistoryEvents: historyEvents}
	if given == nil {
		return l
	}
	for _, f := range []struct{ to, from *int }{
		{&l.InlineTasks, &given.InlineTasks}, {&l.BatchTasks, &given.BatchTasks}, {&l.OpenBatches, &given.OpenBatches}, {&l.HistoryEvents, &given.HistoryEvents},
	} {
		if *f.from > 0 {
			*f.to = *f.from
		}
	}
	return l
}
