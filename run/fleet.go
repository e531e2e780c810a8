package run

import (
	"context"
	"encoding/json"
	"time"
)

// Fleets is what clients may ask about fleets: machines that come and go with
// the tasks of a pool. Implementations are safe for concurrent use, and fail
// with CodeUnavailable where the records store is out of reach. Who asks is
// noted beside what was asked.
type Fleets interface {
	// Fleets lists all fleets, by name, and Fleet returns one. Errors:
	// not_found.
	Fleets(ctx context.Context) ([]Fleet, error)
	Fleet(ctx context.Context, name string) (Fleet, error)
	// PutFleet makes a fleet, or changes the one of that name, and says whether
	// it is new. Instances stay as they are: what they are reckoned by is new.
	// Errors: invalid with all faults, conflict (it is being deleted).
	PutFleet(ctx context.Context, name string, s FleetSpec, by string) (_ Fleet, created bool, _ error)
	// SteerFleet changes what is done by hand. Errors: not_found, conflict (it
	// is being deleted), invalid.
	SteerFleet(ctx context.Context, name string, s FleetSteer) (Fleet, error)
	// DeleteFleet has all instances of a fleet drained and deleted, and then
	// the fleet. Again is no error. Errors: not_found.
	DeleteFleet(ctx context.Context, name, by string) (Fleet, error)
	// FleetInstances lists the ledger of a fleet, by number; gone says whether
	// with the newest of those that are gone. Errors: not_found.
	FleetInstances(ctx context.Context, name string, gone bool) ([]FleetInstance, error)
	// FleetEvents returns up to n of the events of a fleet with numbers greater
	// than after, or with after < 0 the last n. Errors: not_found.
	FleetEvents(ctx context.Context, name string, after int64, n int) ([]FleetEvent, error)
}

// Limits of fleets.
const (
	MaxFleets            = 1000
	MaxFleetConfig       = 64 << 10 // bytes of plugin_config
	MaxFleetGone         = 1000     // instances that are gone and are listed
	MaxFleetEvents       = 1000     // in one answer
	KeptFleetEvents      = 100_000  // of one fleet; the oldest go
	DefaultFleetPageSize = 100
)

// MaxFleetPriority bounds the priority of a fleet, and its negative too.
const MaxFleetPriority = 1000

// SlotTimeout is how long a task may wait although slots are free that belong to
// no fleet. After that fleets make machines for it: a free slot takes a task
// within a second or two, unless something is wrong with it.
const SlotTimeout = 30 * time.Second

// Labels by which an executor that is trusted says which instance of which fleet
// it is. Others prove it by their token, and the labels only show it.
const (
	LabelFleet    = "drover-fleet"
	LabelInstance = "drover-instance"
)

// The ways in which an instance becomes an executor.
const (
	BootstrapSSH   = "ssh"   // the worker is brought there
	BootstrapAgent = "agent" // the image starts it
)

// FleetSpec is what a client says of a fleet. The words are those of the known
// scaler, where it has them.
type FleetSpec struct {
	Scaling

	Pool string `json:"pool"` // whose tasks its instances take
	// Priority orders the fleets of one pool: tasks go to the one with the
	// highest first, and of those that are equal to the first by name.
	Priority int    `json:"priority,omitempty"`
	Plugin   string `json:"plugin"` // a path, or a name on the plugin path
	// PluginConfig is handed to the plugin as it is.
	PluginConfig    json.RawMessage `json:"plugin_config,omitempty"`
	ConnectorConfig FleetConnector  `json:"connector_config,omitzero"`
	Bootstrap       string          `json:"bootstrap,omitempty"` // BootstrapSSH or BootstrapAgent; "" means the latter
	// InstanceReadyCommand is run over the connection before an instance is
	// used; it is no use for one that is not.
	InstanceReadyCommand string `json:"instance_ready_command,omitempty"`
	// UpdateInterval is between two listings of the instances; 0 means a
	// minute. UpdateIntervalWhenExpecting is so where something is under way;
	// 0 means 2 s.
	UpdateInterval              Duration `json:"update_interval,omitempty"`
	UpdateIntervalWhenExpecting Duration `json:"update_interval_when_expecting,omitempty"`
	// DeletionRetryInterval is how long an instance may take to go before it
	// is asked again; 0 means a minute.
	DeletionRetryInterval Duration `json:"deletion_retry_interval,omitempty"`
	// DrainTimeout is how long an executor that is unhealthy, or not in
	// contact, may take to give its tasks back; 0 means an hour.
	DrainTimeout Duration `json:"drain_timeout,omitempty"`
	// FailureThreshold is how many health checks in a row may fail; 0 means 3.
	FailureThreshold int `json:"failure_threshold,omitempty"`
	// Unexpected says what becomes of instances that nobody asked for:
	// UnexpectedAdopt ("" too), UnexpectedIgnore or UnexpectedRemove.
	Unexpected string `json:"unexpected,omitempty"`
	// Quota, where not nil, is shared with all fleets that name the same.
	Quota *FleetQuota `json:"quota,omitempty"`
	// Memory of an instance, in Kubernetes notation: what its weight follows
	// from, where that is not given.
	Memory string `json:"memory,omitempty"`
}

// What becomes of instances that nobody asked for.
const (
	UnexpectedAdopt  = "adopt"
	UnexpectedIgnore = "ignore"
	UnexpectedRemove = "remove"
)

// FleetQuota is a limit that fleets share: that of the sum of the weights of
// their instances.
type FleetQuota struct {
	Name  string  `json:"name"`
	Limit float64 `json:"limit"`
}

// FleetConnector says how instances are connected to.
type FleetConnector struct {
	OS                   string   `json:"os,omitempty"`
	Arch                 string   `json:"arch,omitempty"`
	Protocol             string   `json:"protocol,omitempty"` // ssh, winrm or winrm+https
	ProtocolPort         int      `json:"protocol_port,omitempty"`
	Username             string   `json:"username,omitempty"`
	Password             string   `json:"password,omitempty"`
	KeyPath              string   `json:"key_path,omitempty"` // of a file on the fleet worker's host
	UseStaticCredentials bool     `json:"use_static_credentials,omitempty"`
	Keepalive            Duration `json:"keepalive,omitempty"`
	Timeout              Duration `json:"timeout,omitempty"`
	UseExternalAddr      bool     `json:"use_external_addr,omitempty"`
	// HostKeyPolicy is for ssh; see docs/fleets.md.
	HostKeyPolicy string `json:"host_key_policy,omitempty"`
}

// FleetSteer is what a client wants of a fleet by hand.
type FleetSteer struct {
	By     string // who
	Reason string // a sentence; "" for none
	// Action is one of those below; Instances is of SteerScale.
	Action    FleetAction
	Instances int
}

// FleetAction is one thing that is done by hand.
type FleetAction string

// The actions by hand.
const (
	// SteerPause has nothing asked for and nothing removed until it is resumed.
	SteerPause FleetAction = "pause"
	// SteerResume ends a pause, a drain and a number given by hand.
	SteerResume FleetAction = "resume"
	// SteerDrain has all instances drained and deleted, and none asked for.
	SteerDrain FleetAction = "drain"
	// SteerScale has so many instances, whatever the policy says.
	SteerScale FleetAction = "scale"
)

// FleetMode is how a fleet is steered.
type FleetMode string

// The modes of a fleet.
const (
	FleetActive   FleetMode = "active"
	FleetPaused   FleetMode = "paused"
	FleetDraining FleetMode = "draining"
	FleetDeleting FleetMode = "deleting"
	FleetDeleted  FleetMode = "deleted"
)

// Fleet is a fleet as clients see it.
type Fleet struct {
	Name string
	Spec FleetSpec
	Mode FleetMode
	// Desired is the number of instances given by hand; nil: the policy says.
	Desired   *int
	Reason    string // of what was done by hand last
	CreatedAt time.Time
	UpdatedAt time.Time
	// Version grows with every change that a client makes.
	Version int64

	// Filled in when read:
	Counts map[InstanceState]int // instances that are not gone
	Status FleetStatus
}

// FleetStatus is what the worker of a fleet saw last.
type FleetStatus struct {
	SeenAt    time.Time `json:"seen_at,omitzero"` // zero: there was none
	Group     string    `json:"group,omitempty"`  // what the plugin calls it
	Plugin    string    `json:"plugin,omitempty"` // its version
	MaxSize   int64     `json:"max_size,omitempty"`
	Error     string    `json:"error,omitempty"` // why it does not work; "" where it does
	ErrorAt   time.Time `json:"error_at,omitzero"`
	Held      string    `json:"held,omitempty"`   // what keeps from more instances
	Queued    int       `json:"queued,omitempty"` // tasks of the pool that wait
	Share     int       `json:"share,omitempty"`  // of them: those that fall to this fleet
	Busy      int       `json:"busy,omitempty"`
	Free      int       `json:"free,omitempty"`
	Idle      int       `json:"idle,omitempty"`   // slots to be kept free
	Target    int       `json:"target,omitempty"` // instances wanted, whatever the limits
	Most      int       `json:"most,omitempty"`
	Failures  int       `json:"failures,omitempty"`
	Instances int       `json:"instances,omitempty"`
}

// InstanceState is where an instance is in its life.
type InstanceState string

// The states of an instance. Those up to deleting are also those that it is
// reckoned with.
const (
	InstanceRequested     InstanceState = "requested" // asked for; no machine is known yet
	InstanceCreating      InstanceState = "creating"
	InstanceBootstrapping InstanceState = "bootstrapping"
	InstanceReady         InstanceState = "ready"
	InstanceDraining      InstanceState = "draining"
	InstanceDeleting      InstanceState = "deleting"
	InstanceIgnored       InstanceState = "ignored" // not the fleet's business
	InstanceGone          InstanceState = "gone"
)

// InstanceCause says where an instance comes from.
type InstanceCause string

// The causes of an instance.
const (
	CauseRequested  InstanceCause = "requested"
	CausePreexisted InstanceCause = "preexisted" // it was there when the fleet was first looked at
	CauseUnexpected InstanceCause = "unexpected" // it appeared, and nobody had asked
)

// FleetInstance is a row of the ledger of a fleet.
type FleetInstance struct {
	Number   int    // from 1, in the fleet
	Instance string // the plugin's name of it; "" where there is no machine yet
	Request  string // that it was asked for by; "" for none
	Cause    InstanceCause
	State    InstanceState
	Why      string // of the state: a sentence
	Reason   string // the same in a word, for machines
	Executor string // "" before it has registered
	Uses     int    // tasks that it took

	AskedAt     time.Time
	CreatedAt   time.Time // when it was first listed; zero until then, likewise below
	RunningAt   time.Time // when it was first listed as running
	ReadyAt     time.Time
	DrainingAt  time.Time
	DeletingAt  time.Time // when its deletion was last asked for
	GoneAt      time.Time
	LastUsed    time.Time // when it last took a task
	MissingFrom time.Time // since when it is not listed

	// Filled in when read:
	Tasks int // that its executor has
}

// FleetEvent is one thing that happened in a fleet, and why.
type FleetEvent struct {
	Number int64
	At     time.Time
	// Kind is a word such as requested, ready, or paused.
	Kind     string
	Instance int    // number of the instance; 0: none
	Name     string // the plugin's name of it
	By       string // who: a token's name, or the fleet itself
	Reason   string // a word
	Text     string // a sentence
}
