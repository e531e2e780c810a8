package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// forever is the start-to-close timeout of tasks, which the server demands:
// the shim enforces the one that the user set.
const forever = 10 * 365 * 24 * time.Hour

// heartbeatTimeout is when an executor counts as out of contact with its task.
// It restarts within that time in all but a disaster.
const heartbeatTimeout = 30 * time.Second

// An activity that waits is done by another worker this long after its own was
// killed, and tried again this soon after it failed.
const (
	waitHeartbeat = 15 * time.Second
	waitRetry     = 200 * time.Millisecond
)

// An activity that removes comes back after ten seconds, if its last call of
// the records does; sweepTimeout is much longer. sweepHeartbeat is after how
// long another worker goes on for one that was killed.
const (
	sweepTimeout   = 2 * time.Minute
	sweepHeartbeat = 20 * time.Second
)

// maxSummary is how much of a name the summary of an activity shows, in bytes;
// the server refuses 400.
const maxSummary = 200

// localOptions are those of a local activity that reads or writes the records:
// a few milliseconds, tried again at once. All of it must end well before the
// timeout of a workflow task (10 s), or the history fills with renewals.
func localOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 6 * time.Second,
		StartToCloseTimeout:    4 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 20 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second,
		},
	}
}

// patientOptions are those of the same as an activity, for the outages that a
// local activity does not outlast: it is tried until the records are back.
func patientOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           contract.ControlQueue,
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second,
		},
	}
}

// sweepOptions are those of an activity that deletes: what it did stands when
// it is tried again.
func sweepOptions(name string) workflow.ActivityOptions {
	o := patientOptions()
	o.StartToCloseTimeout = sweepTimeout
	o.HeartbeatTimeout = sweepHeartbeat
	o.RetryPolicy.MaximumInterval = time.Minute
	o.Summary = name
	return o
}

// taskOptions are those of execute-task: one attempt, no limit but the sign of
// life, and a wish to stop is answered by whoever has it.
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

// adoptOptions are those of adopt-task. It is cancelled only where its
// executor was removed, and then nobody is left to wait for.
func adoptOptions(queue, name string, attempt int, priority temporal.Priority) workflow.ActivityOptions {
	o := taskOptions(queue, name, attempt, priority)
	o.WaitForCancellation = false
	o.Summary = shorten("adopt " + o.Summary)
	return o
}

// stopOptions are those of stop-task: out of contact, it waits in the
// queue for as long as that takes.
func stopOptions(queue, name string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:             queue,
		StartToCloseTimeout:   heartbeatTimeout,
		RetryPolicy:           &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
		DisableEagerExecution: true,
		Summary:               shorten("stop " + name),
		// A stop is never behind the tasks of others.
		Priority: temporal.Priority{PriorityKey: 1},
	}
}

// fleetOptions are those of what the worker of a fleet does. It tells by
// heartbeats that it is there; where it is not, the next one goes on.
func fleetOptions(fleet, name string) workflow.ActivityOptions {
	o := waitOptions(name)
	o.TaskQueue = contract.FleetQueue(fleet)
	return o
}

// batchOptions are those of a batch: it outlives this execution of its parent.
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
