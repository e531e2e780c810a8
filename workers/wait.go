package workers

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
)

// WaitDeps are the dependencies of a worker of waiting activities. Every field
// is required.
type WaitDeps struct {
	Webhooks activities.EventDeliverer
	Runs     activities.RunWatcher
}

// waitSlots is how many waiting activities one process runs at once: each is a
// goroutine or two that sleep.
const waitSlots = 5_000

// NewWait returns the worker of the waiting activities, on queue wait. It is
// not started.
func NewWait(c client.Client, deps WaitDeps, opts ControlOptions) worker.Worker {
	o := controlOptions(opts)
	o.MaxConcurrentActivityExecutionSize = waitSlots
	o.DisableWorkflowWorker = true
	w := worker.New(c, contract.WaitQueue, o)
	RegisterWait(w, deps)
	return w
}

// RegisterWait registers the waiting activities by their contract names.
func RegisterWait(r worker.ActivityRegistry, deps WaitDeps) {
	w := activities.NewWebhooks(deps.Webhooks)
	r.RegisterActivityWithOptions(w.Deliver, activity.RegisterOptions{Name: contract.ActivityDeliverEvents})
	runs := activities.NewRuns(deps.Runs)
	r.RegisterActivityWithOptions(runs.AwaitRun, activity.RegisterOptions{Name: contract.ActivityAwaitRun})
}
