package scaling

import "time"

// State is where an instance is in its life, as the ledger has it.
type State string

// The states.
const (
	StateRequested State = "requested" // asked for; no machine is known yet
	StateCreating  State = "creating"
	StateBooting   State = "bootstrapping"
	StateReady     State = "ready"
	StateDraining  State = "draining" // takes no tasks any more, and goes when it has none
	StateDeleting  State = "deleting"
)

// pending reports whether the instance is on its way to be ready.
func (s State) pending() bool {
	return s == StateRequested || s == StateCreating || s == StateBooting
}

// leaving reports whether the instance is on its way out.
func (s State) leaving() bool { return s == StateDraining || s == StateDeleting }

// Instance is one instance of the fleet, until it is gone.
type Instance struct {
	ID        string    `json:"id"` // of the ledger: there is one before there is a machine
	State     State     `json:"state"`
	AskedAt   time.Time `json:"asked_at"`
	IdleSince time.Time `json:"idle_since,omitzero"` // when its last task ended, or it became ready
	Busy      int       `json:"busy,omitempty"`      // tasks it holds
	Used      int       `json:"used,omitempty"`      // tasks it took in its life, those included
	Unhealthy bool      `json:"unhealthy,omitempty"`
}

// Demand is the tasks of the pool that fall to the fleet (Divide), but for those
// that its instances hold.
type Demand struct {
	Queued   int `json:"queued"`             // that wait for an executor
	Upcoming int `json:"upcoming,omitempty"` // that are about to
}

// Input is all that a decision depends on.
type Input struct {
	Now       time.Time
	Limits    Limits
	Terms     Terms
	Instances []Instance
	Demand    Demand
	// Quota is how many instances the fleet may have by a quota that it
	// shares (Allot); nil: as many as its own limit says.
	Quota *int
	// Failures is how many times in a row asking for instances has failed, or
	// they did not become ready, the last time at FailedAt.
	Failures int
	FailedAt time.Time
	// Memory is that of the decision before.
	Memory Memory
}

// Memory is what one decision tells the next. The zero value is that of a new
// fleet.
type Memory struct {
	// Throttle is when the bucket of tokens is full again.
	Throttle time.Time `json:"throttle,omitzero"`
	// Peaks are the slots that were wanted lately, ever fewer.
	Peaks []Peak `json:"peaks,omitempty"`
}

// Peak is the slots that were wanted at a time.
type Peak struct {
	At    time.Time `json:"at"`
	Slots int       `json:"slots"`
}

// Kind is what an action does.
type Kind string

// The actions.
const (
	// Request asks for Count new instances.
	Request Kind = "request"
	// Remove drains an instance that holds no task, and deletes it. Should it
	// get a task before the drain is acknowledged, that task ends first.
	Remove Kind = "remove"
	// Drain lets an instance take no more tasks; it goes when those that it
	// holds have ended.
	Drain Kind = "drain"
	// GiveUp drops an instance that did not become ready in time: the request
	// where there is no machine, and the machine where there is one.
	GiveUp Kind = "give_up"
)

// Reason says why, for machines.
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

	ReasonMaxInstances Reason = "max_instances" // the limit keeps from more
	ReasonQuota        Reason = "quota"         // the shared quota does
	ReasonThrottle     Reason = "throttle"      // the throttle does, for a while
	ReasonBackoff      Reason = "backoff"       // failures do, for a while
)

// Action is something to do, and why.
type Action struct {
	Kind   Kind   `json:"kind"`
	ID     string `json:"id,omitempty"`    // of the instance; "" of a request
	Count  int    `json:"count,omitempty"` // of a request
	Reason Reason `json:"reason"`
	Why    string `json:"why"` // the same, for people
}

// Figures are what was reckoned with.
type Figures struct {
	Queued    int `json:"queued"`    // tasks that wait: what falls to the fleet
	Instances int `json:"instances"` // in whatever state
	Pending   int `json:"pending"`   // not ready yet
	Leaving   int `json:"leaving"`
	Busy      int `json:"busy"`     // slots with a task
	Free      int `json:"free"`     // slots without, of instances that are or will be ready
	Idle      int `json:"idle"`     // free slots to be kept
	Wanted    int `json:"wanted"`   // slots to be free: for those that wait, and idle ones
	Required  int `json:"required"` // instances to be added; negative: instances that are not needed
	Target    int `json:"target"`   // instances wanted, whatever the limits; what a Claim wants
	Most      int `json:"most"`     // instances allowed; 0: no limit
}

// Decision is what to do now.
type Decision struct {
	Actions []Action
	Figures Figures
	// Held is what kept from asking for more, "" where nothing did.
	Held Reason
	// Memory is for the next decision.
	Memory Memory
	// Again is when to decide again although nothing has changed; zero: not
	// before something does.
	Again time.Time
}
