package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

func TestControl_options(t *testing.T) {
	t.Parallel()
	o := controlOptions(ControlOptions{})
	require.Equal(t, defaultStopTimeout, o.WorkerStopTimeout)
	require.Equal(t, defaultPollers, o.MaxConcurrentWorkflowTaskPollers)
	require.True(t, o.DisableRegistrationAliasing)
	require.Equal(t, worker.BlockWorkflow, o.WorkflowPanicPolicy)
	require.False(t, o.DeploymentOptions.UseVersioning, "development runs unversioned")

	o = controlOptions(ControlOptions{Identity: "control@host", BuildID: "1.2.3", StopTimeout: time.Second, Pollers: 3})
	require.Equal(t, "control@host", o.Identity)
	require.Equal(t, time.Second, o.WorkerStopTimeout)
	require.Equal(t, 3, o.MaxConcurrentWorkflowTaskPollers)
	require.False(t, o.DeploymentOptions.UseVersioning, "a build id without a deployment is none")

	o = controlOptions(ControlOptions{Deployment: "drover", BuildID: "1.2.3"})
	require.True(t, o.DeploymentOptions.UseVersioning)
	require.Equal(t, worker.WorkerDeploymentVersion{DeploymentName: "drover", BuildID: "1.2.3"}, o.DeploymentOptions.Version)
	require.Equal(t, workflow.VersioningBehaviorAutoUpgrade, o.DeploymentOptions.DefaultVersioningBehavior)
}

func TestControl_cache(t *testing.T) {
	t.Parallel()
	require.Equal(t, cachedWorkflows, cacheSize(ControlOptions{}))
	require.Equal(t, 7, cacheSize(ControlOptions{CachedWorkflows: 7}))
	require.Zero(t, cacheSize(ControlOptions{CachedWorkflows: -1}))
}

// registered records the names of the registered workflows and activities.
type registered struct {
	worker.Registry
	workflows, activities []string
}

func (r *registered) RegisterWorkflowWithOptions(_ any, o workflow.RegisterOptions) {
	r.workflows = append(r.workflows, o.Name)
}

func (r *registered) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	r.activities = append(r.activities, o.Name)
}

func TestControl_registers_by_contract_names(t *testing.T) {
	t.Parallel()
	var r registered
	RegisterControl(&r, ControlDeps{})
	require.ElementsMatch(t, []string{
		contract.RunWorkflow, contract.BatchWorkflow, contract.WebhookWorkflow, contract.ScheduledRunWorkflow, contract.ChangeGroupWorkflow,
		contract.RetentionWorkflow, contract.ExecutorWorkflow, contract.FleetWorkflow,
	}, r.workflows)
	require.ElementsMatch(t, []string{
		contract.ActivityLoadPlan, contract.ActivityExpandForeach, contract.ActivityBeginRun, contract.ActivityApplyChanges, contract.ActivityListHolders,
		contract.ActivityFireSchedule, contract.ActivityEndRun, contract.ActivityRemoveEvents, contract.ActivityGrantSlots,
		contract.ActivityDeleteRuns, contract.ActivityExpireExecutor, contract.ActivityExpireLogs, contract.ActivityExpireArchives,
	}, r.activities)
}

func TestWait_registers_by_contract_names(t *testing.T) {
	t.Parallel()
	var r registered
	RegisterWait(&r, WaitDeps{})
	require.Empty(t, r.workflows)
	require.ElementsMatch(t, []string{contract.ActivityDeliverEvents, contract.ActivityAwaitRun}, r.activities)
}
