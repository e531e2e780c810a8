package workers

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
)

// fleetActivities bounds the concurrent activities of a fleet worker: it
// watches, takes steps, and bootstraps instances.
const fleetActivities = 50

// NewFleet returns the worker of a fleet's queue. It is not started.
func NewFleet(c client.Client, fleet string, fleets activities.FleetWorker, opts ControlOptions) worker.Worker {
	o := controlOptions(opts)
	o.DisableWorkflowWorker = true
	o.MaxConcurrentActivityExecutionSize = fleetActivities
	w := worker.New(c, contract.FleetQueue(fleet), o)
	RegisterFleet(w, fleets)
	return w
}

// RegisterFleet registers the activities of fleets by their contract names.
func RegisterFleet(r worker.ActivityRegistry, fleets activities.FleetWorker) {
	a := activities.NewFleets(fleets)
	r.RegisterActivityWithOptions(a.WatchFleet, activity.RegisterOptions{Name: contract.ActivityWatchFleet})
	r.RegisterActivityWithOptions(a.RunFleetStep, activity.RegisterOptions{Name: contract.ActivityRunFleetStep})
	r.RegisterActivityWithOptions(a.BootstrapInstance, activity.RegisterOptions{Name: contract.ActivityBootstrapInstance})
}
