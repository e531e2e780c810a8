package contract

import "strings"

// FleetWorkflow manages one fleet. It ends when the fleet was deleted and has
// no instances left. All its state is in the records.
const FleetWorkflow = "fleet"

// SignalFleet notifies the workflow of a fleet that a client created or changed
// it; no payload.
const SignalFleet = "fleet-changed"

// Activities of a fleet, on the queue of the worker that has its plugin.
const (
	// ActivityWatchFleet watches the fleet and returns when an action is due.
	ActivityWatchFleet = "watch-fleet"
	// ActivityRunFleetStep carries out the actions.
	ActivityRunFleetStep = "run-fleet-step"
	// ActivityBootstrapInstance makes an instance an executor.
	ActivityBootstrapInstance = "bootstrap-instance"
)

const fleetPrefix = "fleet:"

// FleetQueue is the task queue of the worker that has the plugin of a fleet.
func FleetQueue(name string) string { return fleetPrefix + name }

// FleetWorkflowID is the workflow id of a fleet.
func FleetWorkflowID(name string) string { return fleetPrefix + name }

// FleetOfWorkflow returns the fleet of a workflow id, and whether the id is
// that of a fleet.
func FleetOfWorkflow(workflowID string) (name string, ok bool) {
	return strings.CutPrefix(workflowID, fleetPrefix)
}

// FleetInput starts the workflow of a fleet.
type FleetInput struct {
	Fleet string `json:"fleet"`
	// State is carried over continue-as-new; nil at first.
	State *FleetState `json:"state,omitempty"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// FleetState is the state of the workflow of a fleet: its counters, carried
// over continue-as-new and returned by the query state. The ledger is in the
// records.
type FleetState struct {
	Steps     int       `json:"steps"`               // started steps
	Requested int       `json:"requested,omitempty"` // instances; likewise below
	Drained   int       `json:"drained,omitempty"`
	Deleted   int       `json:"deleted,omitempty"`
	Lost      int       `json:"lost,omitempty"`
	GivenUp   int       `json:"given_up,omitempty"`
	Last      FleetPlan `json:"last,omitzero"` // the last plan that was carried out
	// Bootstrapping are the rows whose instances this execution has made
	// executors.
	Bootstrapping []int `json:"bootstrapping,omitempty"`
	// Change is the step in which the plugin creates or deletes machines, while
	// it runs concurrently with the watch.
	Change string `json:"change,omitempty"`
}

// WatchFleetInput is the input of watch-fleet.
type WatchFleetInput struct {
	Fleet         string `json:"fleet"`
	Bootstrapping []int  `json:"bootstrapping,omitempty"` // rows to ignore
	// Change is the step in which the plugin creates or deletes machines while
	// the watch begins: no other such step is planned until it has ended. ""
	// for none.
	Change string `json:"change,omitempty"`
}

// WatchFleetResult is the result of watch-fleet.
type WatchFleetResult struct {
	Plan FleetPlan `json:"plan,omitzero"`
	// Gone says that the fleet does not exist any more.
	Gone bool `json:"gone,omitempty"`
	// WorkerStopping says that the worker stops, and that another worker must continue.
	WorkerStopping bool `json:"worker_stopping,omitempty"`
	// AfterChange is the Change of the input if that step had ended when the plan was
	// made.
	AfterChange string `json:"after_change,omitempty"`
}

// FleetPlan has the actions that are due for a fleet. Each InstanceAction names
// a row of the ledger.
type FleetPlan struct {
	Request   *FleetRequest    `json:"request,omitempty"`
	GiveUp    []InstanceAction `json:"give_up,omitempty"`
	Drain     []InstanceAction `json:"drain,omitempty"`
	Delete    []InstanceAction `json:"delete,omitempty"`
	Lost      []InstanceAction `json:"lost,omitempty"`
	Bootstrap []int            `json:"bootstrap,omitempty"`
	// End says that the fleet was deleted and has no instances left.
	End bool `json:"end,omitempty"`
}

// FleetRequest is a request for new instances.
type FleetRequest struct {
	Count   int    `json:"count"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// InstanceAction is an action on the instance of one row, and its reason.
type InstanceAction struct {
	Number  int    `json:"number"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RunFleetStepInput is the input of run-fleet-step.
type RunFleetStepInput struct {
	Fleet string `json:"fleet"`
	// ID identifies the step permanently: a repeated step requests nothing
	// twice.
	ID   string    `json:"id"`
	Plan FleetPlan `json:"plan"`
}

// BootstrapInstanceInput is the input of bootstrap-instance.
type BootstrapInstanceInput struct {
	Fleet  string `json:"fleet"`
	Number int    `json:"number"`
}
