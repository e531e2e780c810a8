// Package workers builds Temporal workers by role: which workflows and
// activities are registered on which queue, with which options.
package workers

import (
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/workflows"
)

// ControlDeps are the dependencies of a control worker. Every field is required
// except Removed.
type ControlDeps struct {
	Progress activities.Progress
	Groups   activities.ChangeGroupStore
	Firings  activities.Firings
	Registry activities.Expirer
	// Retention removes data under the retention settings, and Removed counts
	// it. If Removed is nil, an unregistered set is used.
	Retention activities.RetentionStore
	Removed   *activities.RetentionMetrics
}

// ControlOptions tune a control worker. Zero values mean the defaults.
type ControlOptions struct {
	// Identity names the process in Temporal; "" means the client's own.
	Identity string
	// Deployment and BuildID enable worker versioning if both are set:
	// workflows continue with the current version.
	Deployment, BuildID string
	// StopTimeout is how long running activities may take when the worker
	// stops; 0 means 10 seconds.
	StopTimeout time.Duration
	// Pollers is the number of concurrent polls for workflow tasks; 0 means 8.
	Pollers int
	// CachedWorkflows is how many workflows the process keeps in memory between
	// their tasks; others replay their history. 0 means 2,000, negative none.
	// The first worker of the process sets it for all workers.
	CachedWorkflows int
	// OnFatalError receives the reason why the worker stopped itself; nil
	// ignores it.
	OnFatalError func(error)
}

// The defaults of ControlOptions, and constants without an option.
const (
	defaultStopTimeout = 10 * time.Second
	// defaultPollers: a workflow task is short, so few at a time keep two cores
	// busy. There is one poll for each task that may run at once, and as many
	// for the process's own sticky queue.
	defaultPollers = 8
	// activityPollers is small: control activities are rare, and local
	// activities need no poll.
	activityPollers = 2
	// cachedWorkflows: a workflow that waits takes 50 KB, one with 20 open
	// tasks some 300 KB.
	cachedWorkflows = 2_000
	// workflowTasks and localActivities bound the concurrency of one process;
	// the records serialize writes anyway.
	workflowTasks   = 200
	localActivities = 200
	activityTasks   = 100
	// deadlock is how long workflow code may run without yielding. It normally
	// takes milliseconds; on a machine that is short of CPU that becomes
	// seconds.
	deadlock = 10 * time.Second
)

// NewControl returns the worker of all workflows and control activities, on
// queue control. It is not started.
func NewControl(c client.Client, deps ControlDeps, opts ControlOptions) worker.Worker {
	worker.SetStickyWorkflowCacheSize(cacheSize(opts))
	w := worker.New(c, contract.ControlQueue, controlOptions(opts))
	RegisterControl(w, deps)
	return w
}

// RegisterControl registers all workflows and control activities by their
// contract names.
func RegisterControl(r worker.Registry, deps ControlDeps) {
	r.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: contract.RunWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Batch, workflow.RegisterOptions{Name: contract.BatchWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Webhook, workflow.RegisterOptions{Name: contract.WebhookWorkflow})
	r.RegisterWorkflowWithOptions(workflows.ScheduledRun, workflow.RegisterOptions{Name: contract.ScheduledRunWorkflow})
	r.RegisterWorkflowWithOptions(workflows.ChangeGroup, workflow.RegisterOptions{Name: contract.ChangeGroupWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Retention, workflow.RegisterOptions{Name: contract.RetentionWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Executor, workflow.RegisterOptions{Name: contract.ExecutorWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Fleet, workflow.RegisterOptions{Name: contract.FleetWorkflow})
	x := activities.NewRegistry(deps.Registry)
	r.RegisterActivityWithOptions(x.ExpireExecutor, activity.RegisterOptions{Name: contract.ActivityExpireExecutor})
	g := activities.NewChangeGroups(deps.Groups)
	r.RegisterActivityWithOptions(g.Grant, activity.RegisterOptions{Name: contract.ActivityGrantSlots})
	a := activities.NewRun(deps.Progress)
	r.RegisterActivityWithOptions(a.LoadPlan, activity.RegisterOptions{Name: contract.ActivityLoadPlan})
	r.RegisterActivityWithOptions(a.Begin, activity.RegisterOptions{Name: contract.ActivityBeginRun})
	r.RegisterActivityWithOptions(a.Apply, activity.RegisterOptions{Name: contract.ActivityApplyChanges})
	r.RegisterActivityWithOptions(a.Expand, activity.RegisterOptions{Name: contract.ActivityExpandForeach})
	r.RegisterActivityWithOptions(a.Holders, activity.RegisterOptions{Name: contract.ActivityListHolders})
	s := activities.NewSchedules(deps.Firings)
	r.RegisterActivityWithOptions(s.Fire, activity.RegisterOptions{Name: contract.ActivityFireSchedule})
	r.RegisterActivityWithOptions(s.EndRun, activity.RegisterOptions{Name: contract.ActivityEndRun})
	d := activities.NewRetention(deps.Retention, deps.Removed, nil)
	r.RegisterActivityWithOptions(d.ExpireLogs, activity.RegisterOptions{Name: contract.ActivityExpireLogs})
	r.RegisterActivityWithOptions(d.ExpireArchives, activity.RegisterOptions{Name: contract.ActivityExpireArchives})
	r.RegisterActivityWithOptions(d.DeleteRuns, activity.RegisterOptions{Name: contract.ActivityDeleteRuns})
	r.RegisterActivityWithOptions(d.RemoveEvents, activity.RegisterOptions{Name: contract.ActivityRemoveEvents})
}

func cacheSize(opts ControlOptions) int {
	if opts.CachedWorkflows == 0 {
		return cachedWorkflows
	}
	return max(0, opts.CachedWorkflows)
}

func controlOptions(opts ControlOptions) worker.Options {
	o := worker.Options{
		Identity:                                opts.Identity,
		WorkerStopTimeout:                       opts.StopTimeout,
		WorkflowPanicPolicy:                     worker.BlockWorkflow, // a deployment fixes a bug; failing the runs would lose them
		DeadlockDetectionTimeout:                deadlock,
		MaxConcurrentWorkflowTaskExecutionSize:  workflowTasks,
		MaxConcurrentLocalActivityExecutionSize: localActivities,
		MaxConcurrentActivityExecutionSize:      activityTasks,
		MaxConcurrentWorkflowTaskPollers:        opts.Pollers,
		MaxConcurrentActivityTaskPollers:        activityPollers,
		DisableRegistrationAliasing:             true,
		OnFatalError:                            opts.OnFatalError,
	}
	if o.WorkerStopTimeout == 0 {
		o.WorkerStopTimeout = defaultStopTimeout
	}
	if o.MaxConcurrentWorkflowTaskPollers == 0 {
		o.MaxConcurrentWorkflowTaskPollers = defaultPollers
	}
	if opts.Deployment != "" && opts.BuildID != "" {
		o.DeploymentOptions = worker.DeploymentOptions{
			UseVersioning:             true,
			Version:                   worker.WorkerDeploymentVersion{DeploymentName: opts.Deployment, BuildID: opts.BuildID},
			DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
		}
	}
	return o
}
