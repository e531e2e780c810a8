package scaling

import "time"

// State is the state of an instance in the ledger.
type State string

// The states.
const (
	StateRequested State = "requested" // no machine is known yet
	StateCreating  State = "creating"
	StateBooting   State = "bootstrapping"
	StateReady     State = "ready"
	StateDraining  State = "draining" // takes no new tasks, and is deleted when it has none
	StateDeleting  State = "deleting"
)

// pending reports whether the instance is not ready yet.
func (s State) pending() bool {
	return s == StateRequested || s == StateCreating || s == StateBooting
}

// terminating reports whether the instance is draining or being deleted.
func (s State) terminating() bool { return s == StateDraining || s == StateDeleting }

// Instance is one instance of the fleet, until it is gone.
type Instance struct {
	ID          string    `json:"id"` // of the ledger row, which exists before the machine
	State       State     `json:"state"`
	RequestedAt time.Time `json:"requested_at"`
	IdleSince   time.Time `json:"idle_since,omitzero"` // when its last task ended, or it became ready
	Busy        int       `json:"busy,omitempty"`      // tasks that it holds
	Used        int       `json:"used,omitempty"`      // tasks that it has taken, including those that it holds
	Unhealthy   bool      `json:"unhealthy,omitempty"`
	Outdated    bool      `json:"outdated,omitempty"` // of an earlier revision: it is removed before others
}

// Demand is the fleet's share of the tasks of the pool (see Divide), without
// the tasks that its instances hold.
type Demand struct {
	Queued   int `json:"queued"`             // tasks that wait for an executor
	Upcoming int `json:"upcoming,omitempty"` // tasks that are about to wait
}

// Input is all data that a decision depends on.
type Input struct {
	Now       time.Time
	Limits    Limits
	Terms     Terms
	Instances []Instance
	Demand    Demand
	// Quota is how many instances a shared quota allows the fleet (see Allot);
	// nil: only its own limit applies.
	Quota *int
	// Failures is the number of consecutive failures to create instances, or to
	// make them ready. FailedAt is the time of the last one.
	Failures int
	FailedAt time.Time
	// Surge is how many instances to have beyond the required ones (see Replace).
	Surge int
	// Room is how many more instances may exist during a rollout (see Replace);
	// nil: only the limits apply. Requests for tasks that have no slot ignore it:
	// a rollout must not keep tasks waiting.
	Room *int
	// Memory is the memory of the previous decision.
	Memory Memory
}

// Memory is the state that one decision passes to the next. The zero value is
// the memory of a new fleet.
type Memory struct {
	// Throttle is the time at which the token bucket is full again.
	Throttle time.Time `json:"throttle,omitzero"`
	// Peaks are the recent numbers of required slots, in descending order.
	Peaks []Peak `json:"peaks,omitempty"`
}

// Peak is the number of required slots at a time.
type Peak struct {
	At    time.Time `json:"at"`
	Slots int       `json:"slots"`
}

// Kind is the kind of an action.
type Kind string

// The actions.
const (
	// Request requests Count new instances.
	Request Kind = "request"
	// Remove drains an instance that holds no task, and deletes it. If it gets
	// a task before it acknowledges the drain, that task ends first.
	Remove Kind = "remove"
	// Drain makes an instance take no new tasks; it is deleted when its tasks
	// have ended.
	Drain Kind = "drain"
	// GiveUp removes an instance that did not become ready in time: only the
	// request if no machine is known, otherwise the machine.
	GiveUp Kind = "give_up"
)

// Reason is the reason of an action, as a code.
type Reason string

// The reasons.
const (
	ReasonDemand    Reason = "demand"     // tasks wait, or are about to
	ReasonIdleCount Reason = "idle_count" // too few slots are free
	ReasonIdle      Reason = "idle"       // it was idle for long enough and is not needed
	ReasonExhausted Reason = "exhausted"  // it has taken max_use_count tasks
	ReasonUnhealthy Reason = "unhealthy"
	ReasonTimeout   Reason = "timeout"    // it was not ready in time
	ReasonOverLimit Reason = "over_limit" // there are more than allowed
	ReasonRollout   Reason = "rollout"    // a later revision replaces it, or it replaces one of an earlier revision

	ReasonMaxInstances Reason = "max_instances" // max_instances prevents a request
	ReasonQuota        Reason = "quota"         // the shared quota prevents a request
	ReasonThrottle     Reason = "throttle"      // the throttle delays a request
	ReasonBackoff      Reason = "backoff"       // failures delay a request
	// ReasonPreemptive: in preemptive mode, waiting tasks lead to no request.
	ReasonPreemptive Reason = "preemptive_mode"
)

// Action is one action, and its reason.
type Action struct {
	Kind    Kind   `json:"kind"`
	ID      string `json:"id,omitempty"`    // of the instance; "" for a request
	Count   int    `json:"count,omitempty"` // of a request
	Reason  Reason `json:"reason"`
	Message string `json:"message"` // the reason, as a message
}

// Figures are the numbers behind a decision.
type Figures struct {
	Queued        int `json:"queued"`    // the waiting tasks of the fleet's share
	Instances     int `json:"instances"` // in any state
	Pending       int `json:"pending"`   // not ready yet
	Terminating   int `json:"leaving"`
	Busy          int `json:"busy"`     // slots with a task
	Free          int `json:"free"`     // slots without a task, of instances that are or will be ready
	Idle          int `json:"idle"`     // free slots to keep
	RequiredSlots int `json:"wanted"`   // required free slots: for waiting tasks, and idle ones
	Required      int `json:"required"` // instances to add; negative: surplus instances
	Needed        int `json:"needed"`   // instances for all tasks, also those on instances that drain, and for the idle slots
	Target        int `json:"target"`   // required instances, regardless of the limits; the Desired of a Claim
	Allowed       int `json:"most"`     // allowed instances; 0: no limit
}

// Decision is the result of Decide.
type Decision struct {
	Actions []Action
	Figures Figures
	// Held is what prevents further requests, or "".
	Held Reason
	// Room is how many instances a rollout lets the fleet request now; nil: no
	// rollout limits them.
	Room *int
	// Memory is the input of the next decision.
	Memory Memory
	// NextAt is when the next decision is due although nothing has changed;
	// zero: not before a change.
	NextAt time.Time
}
