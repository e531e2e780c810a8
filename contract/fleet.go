package contract

import "strings"

// FleetWorkflow looks after one fleet. It ends when the fleet was deleted and
// has nothing left. The records know all that it knows.
const FleetWorkflow = "fleet"

// SignalFleet tells the workflow of a fleet that a client made or changed it;
// no payload.
const SignalFleet = "fleet-changed"

// Activities of a fleet, on the queue of the worker that has its plugin.
const (
	// ActivityWatchFleet watches until there is something to do.
	ActivityWatchFleet = "watch-fleet"
	// ActivityStepFleet does it.
	ActivityStepFleet = "step-fleet"
	// ActivityBootstrapInstance makes an executor of an instance.
	ActivityBootstrapInstance = "bootstrap-instance"
)

const fleetPrefix = "fleet:"

// FleetQueue is the task queue of the worker that has the plugin of a fleet.
func FleetQueue(name string) string { return fleetPrefix + name }

// FleetWorkflowID is the workflow id of a fleet.
func FleetWorkflowID(name string) string { return fleetPrefix + name }

// FleetOfWorkflow returns the fleet of a workflow id, and whether it is one's.
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

// FleetState is what the workflow of a fleet counts, what it carries over
// continue-as-new, and what the query state returns. The ledger is in the
// records.
type FleetState struct {
	Steps     int       `json:"steps"`               // that were begun
	Requested int       `json:"requested,omitempty"` // instances; likewise below
	Drained   int       `json:"drained,omitempty"`
	Deleted   int       `json:"deleted,omitempty"`
	Lost      int       `json:"lost,omitempty"`
	GivenUp   int       `json:"given_up,omitempty"`
	Last      FleetPlan `json:"last,omitzero"` // the plan that was done last
	// Bootstrapping are the rows that this execution has made executors of.
	Bootstrapping []int `json:"bootstrapping,omitempty"`
	// Change is the step that has the plugin make or delete machines, while it
	// runs beside the watch.
	Change string `json:"change,omitempty"`
}

// WatchFleetInput is the input of watch-fleet.
type WatchFleetInput struct {
	Fleet         string `json:"fleet"`
	Bootstrapping []int  `json:"bootstrapping,omitempty"` // rows that are left alone
	// Change is the step that has the plugin make or delete machines while this
	// begins: no other is planned until it has ended. "" for none.
	Change string `json:"change,omitempty"`
}

// WatchFleetResult is the result of watch-fleet.
type WatchFleetResult struct {
	Plan FleetPlan `json:"plan,omitzero"`
	// Gone says that there is no such fleet any more.
	Gone bool `json:"gone,omitempty"`
	// Again says that the worker stops, and another is to go on.
	Again bool `json:"again,omitempty"`
	// After is the change of the input where that had ended when the plan was
	// made. Workers of before knew of no changes that run beside them.
	After string `json:"after,omitempty"`
}

// FleetPlan is what is to be done with a fleet. Orders name rows of its ledger.
type FleetPlan struct {
	Request   *FleetRequest `json:"request,omitempty"`
	GiveUp    []FleetOrder  `json:"give_up,omitempty"`
	Drain     []FleetOrder  `json:"drain,omitempty"`
	Delete    []FleetOrder  `json:"delete,omitempty"`
	Lost      []FleetOrder  `json:"lost,omitempty"`
	Bootstrap []int         `json:"bootstrap,omitempty"`
	// End says that the fleet was deleted and has nothing left.
	End bool `json:"end,omitempty"`
}

// FleetRequest asks for instances.
type FleetRequest struct {
	Count  int    `json:"count"`
	Reason string `json:"reason"`
	Why    string `json:"why,omitempty"`
}

// FleetOrder is one thing to be done with a row, and why.
type FleetOrder struct {
	Number int    `json:"n"`
	Reason string `json:"r,omitempty"`
	Why    string `json:"w,omitempty"`
}

// StepFleetInput is the input of step-fleet.
type StepFleetInput struct {
	Fleet string `json:"fleet"`
	// ID names the step for ever: one that is repeated asks for nothing twice.
	ID   string    `json:"id"`
	Plan FleetPlan `json:"plan"`
}

// BootstrapInstanceInput is the input of bootstrap-instance.
type BootstrapInstanceInput struct {
	Fleet  string `json:"fleet"`
	Number int    `json:"number"`
}
