package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fleets is the API for clients that manage fleets: groups of machines that
// Drover creates and deletes with the demand of a pool. Implementations are
// safe for concurrent use, and fail with CodeUnavailable if the records store
// cannot be reached. The caller is recorded with each change.
type Fleets interface {
	// Fleets lists all fleets, by name, and Fleet returns one. Errors:
	// not_found.
	Fleets(ctx context.Context) ([]Fleet, error)
	Fleet(ctx context.Context, name string) (Fleet, error)
	// PutFleet creates a fleet, or replaces the fleet of that name, and reports
	// whether it is new. Existing instances stay; the new settings apply to
	// them from now on. Errors: invalid with all faults, conflict (the fleet is
	// being deleted).
	PutFleet(ctx context.Context, name string, s FleetSpec, by string) (_ Fleet, created bool, _ error)
	// ControlFleet applies a manual action to a fleet. Errors: not_found,
	// conflict (the fleet is being deleted), invalid.
	ControlFleet(ctx context.Context, name string, s FleetControl) (Fleet, error)
	// DeleteFleet drains and deletes all instances of a fleet, and then the
	// fleet. Deleting it twice is no error. Errors: not_found.
	DeleteFleet(ctx context.Context, name, by string) (Fleet, error)
	// FleetInstances lists the ledger of a fleet, by number; gone adds the
	// newest of the instances that are gone. Errors: not_found.
	FleetInstances(ctx context.Context, name string, gone bool) ([]FleetInstance, error)
	// FleetEvents returns up to n events of a fleet with numbers greater than
	// after, or the last n if after < 0. Errors: not_found.
	FleetEvents(ctx context.Context, name string, after int64, n int) ([]FleetEvent, error)
	// FleetRollout returns the state of the rollout of a fleet, and its
	// revisions. Errors: not_found.
	FleetRollout(ctx context.Context, name string) (FleetRollout, error)
	// UndoFleet makes a new revision of the settings of an earlier one. Errors:
	// not_found (also if the revision is not known), conflict (there is no
	// earlier revision, the fleet has these settings, or it is being deleted),
	// invalid (this version does not permit these settings).
	UndoFleet(ctx context.Context, name string, u FleetUndo) (Fleet, error)
}

// Limits of fleets.
const (
	MaxFleets            = 1000
	MaxFleetConfig       = 64 << 10 // bytes of plugin_config
	MaxFleetGone         = 1000     // gone instances in a list
	MaxFleetEvents       = 1000     // in one response
	KeptFleetEvents      = 100_000  // of one fleet; older events are removed
	KeptFleetRevisions   = 10       // of one fleet; older revisions are removed
	DefaultFleetPageSize = 100
)

// MaxFleetPriority is the greatest priority of a fleet; the least is its
// negative.
const MaxFleetPriority = 1000

// SlotTimeout is how long a task may wait although executors outside of fleets
// have free slots. A free slot takes a task within a second or two, unless
// something is wrong with it; so after SlotTimeout fleets create instances for
// the task.
const SlotTimeout = 30 * time.Second

// Labels by which a trusted executor names its fleet and instance. Other
// executors prove both by their token, and the labels only show them.
const (
	LabelFleet    = "drover-fleet"
	LabelInstance = "drover-instance"
)

// The methods by which an instance becomes an executor.
const (
	BootstrapSSH   = "ssh"   // Drover installs the worker over SSH
	BootstrapAgent = "agent" // the image starts the worker
)

// FleetSpec is the specification of a fleet. Its fields are named as in
// GitLab's taskscaler where that has them.
type FleetSpec struct {
	Scaling

	Pool string `json:"pool"` // the pool whose tasks its instances take
	// Priority orders the fleets of one pool: the fleet with the highest
	// priority gets tasks first, and of equal ones the first by name.
	Priority int `json:"priority,omitempty"`
	// AllowedGroups are the patterns of the groups whose runs may use its machines (see
	// GroupPattern); none means all groups. In a fleet to be stored, none means those that
	// it has.
	AllowedGroups []string `json:"allowed_groups,omitempty"`
	// Labels are those that its executors have, in addition to those of the pool and
	// those that name the fleet and the instance. Tasks that require more are no reason
	// to create instances.
	Labels map[string]string `json:"labels,omitempty"`
	// Resources are those that each of its executors offers.
	Resources Resources `json:"resources,omitzero"`
	Plugin    string    `json:"plugin"` // a path, or a name on the plugin path
	// PluginConfig is passed to the plugin unchanged.
	PluginConfig    json.RawMessage `json:"plugin_config,omitempty"`
	ConnectorConfig FleetConnector  `json:"connector_config,omitzero"`
	Bootstrap       string          `json:"bootstrap,omitempty"` // BootstrapSSH or BootstrapAgent; "" means the latter
	// InstanceReadyCommand is run over the connection before an instance is
	// used. It is not used if there is no connection.
	InstanceReadyCommand string `json:"instance_ready_command,omitempty"`
	// UpdateInterval is the time between two listings of the instances; 0 means
	// a minute. UpdateIntervalWhenExpecting is that time while instances
	// change; 0 means 2 s.
	UpdateInterval              Duration `json:"update_interval,omitempty"`
	UpdateIntervalWhenExpecting Duration `json:"update_interval_when_expecting,omitempty"`
	// DeletionRetryInterval is how long the deletion of an instance may take
	// before the fleet requests it again; 0 means a minute.
	DeletionRetryInterval Duration `json:"deletion_retry_interval,omitempty"`
	// DrainTimeout is how long an executor that is unhealthy, or not in
	// contact, may take to release its tasks; 0 means an hour.
	DrainTimeout Duration `json:"drain_timeout,omitempty"`
	// InstanceAcquireTimeout is how long a task may be queued before it fails,
	// if only instances of fleets can take it; 0 means no limit. If several
	// fleets serve the pool, the longest of their limits applies.
	InstanceAcquireTimeout Duration `json:"instance_acquire_timeout,omitempty"`
	// FailureThreshold is how many consecutive health checks may fail; 0 means
	// 3.
	FailureThreshold int `json:"failure_threshold,omitempty"`
	// Unexpected is the policy for instances that the fleet did not request:
	// UnexpectedAdopt (also ""), UnexpectedIgnore or UnexpectedRemove.
	Unexpected string `json:"unexpected,omitempty"`
	// Update bounds how instances are replaced after a change of the settings
	// that SettingsOf returns.
	Update FleetUpdate `json:"update,omitzero"`
	// Quota, if not nil, is shared with all fleets that name the same quota.
	Quota *FleetQuota `json:"quota,omitempty"`
	// Memory of an instance, in Kubernetes notation. It determines the weight,
	// unless Weight is set.
	Memory string `json:"memory,omitempty"`
}

// AllowedPaths returns the paths of AllowedGroups; the path "" is all groups.
func (s FleetSpec) AllowedPaths() []string { return allowedPaths(s.AllowedGroups) }

// minCredential is the length in bytes from which Credentials returns a value:
// shorter ones occur in any text.
const minCredential = 4

// Credentials returns the values of the configuration that look like credentials,
// so that messages of the plugin can be shown without them.
func (s FleetSpec) Credentials() []string {
	var found []string
	add := func(text string) {
		if len(text) >= minCredential {
			found = append(found, text)
		}
	}
	add(s.ConnectorConfig.Password)
	var config any
	if len(s.PluginConfig) > 0 && json.Unmarshal(s.PluginConfig, &config) == nil {
		eachCredential(config, false, add)
	}
	return found
}

func eachCredential(value any, underCredential bool, add func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			eachCredential(inner, underCredential || LooksLikeCredential(key), add)
		}
	case []any:
		for _, inner := range value {
			eachCredential(inner, underCredential, add)
		}
	case string:
		if underCredential {
			add(value)
		}
	}
}

// LooksLikeCredential reports whether values below a key of plugin_config are
// hidden. Plugins choose their own keys, so it rather reports too many.
func LooksLikeCredential(key string) bool {
	key = strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(key))
	return slices.ContainsFunc([]string{"password", "passwd", "passphrase", "secret", "token", "private", "credential"}, func(word string) bool {
		return strings.Contains(key, word)
	}) || strings.HasSuffix(key, "key") || strings.HasSuffix(key, "keys")
}

// Policies for instances that the fleet did not request.
const (
	UnexpectedAdopt  = "adopt"
	UnexpectedIgnore = "ignore"
	UnexpectedRemove = "remove"
)

// FleetQuota is a limit that fleets share, on the sum of the weights of their
// instances.
type FleetQuota struct {
	Name  string  `json:"name"`
	Limit float64 `json:"limit"`
}

// FleetConnector says how to connect to instances.
type FleetConnector struct {
	OS                   string   `json:"os,omitempty"`
	Arch                 string   `json:"arch,omitempty"`
	Protocol             string   `json:"protocol,omitempty"` // ssh, or "" for the same
	ProtocolPort         int      `json:"protocol_port,omitempty"`
	Username             string   `json:"username,omitempty"`
	Password             string   `json:"password,omitempty"`
	KeyPath              string   `json:"key_path,omitempty"` // a file on the fleet worker's host
	UseStaticCredentials bool     `json:"use_static_credentials,omitempty"`
	Keepalive            Duration `json:"keepalive,omitempty"`
	Timeout              Duration `json:"timeout,omitempty"`
	UseExternalAddr      bool     `json:"use_external_addr,omitempty"`
	// HostKeyPolicy is for ssh; see docs/fleets.md.
	HostKeyPolicy string `json:"host_key_policy,omitempty"`
}

// FleetControl is a manual action on a fleet.
type FleetControl struct {
	By     string // the caller
	Reason string // a sentence; "" for none
	// Action is one of those below; Instances is of FleetActionScale.
	Action    FleetAction
	Instances int
}

// FleetAction is the kind of a manual action.
type FleetAction string

// The manual actions.
const (
	// FleetActionPause stops the creation and deletion of instances until the fleet
	// is resumed.
	FleetActionPause FleetAction = "pause"
	// FleetActionResume ends a pause, a drain and a manual number of instances.
	FleetActionResume FleetAction = "resume"
	// FleetActionDrain drains and deletes all instances, and creates none.
	FleetActionDrain FleetAction = "drain"
	// FleetActionScale sets the number of instances, regardless of the policy.
	FleetActionScale FleetAction = "scale"
	// FleetActionPauseRollout stops the replacement of instances of earlier
	// revisions until the rollout is resumed.
	FleetActionPauseRollout FleetAction = "pause_rollout"
	// FleetActionResumeRollout ends that pause, and continues a rollout that
	// stopped because of failures.
	FleetActionResumeRollout FleetAction = "resume_rollout"
)

// FleetMode is the mode of operation of a fleet.
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
	// Desired is the number of instances that was set manually; nil if the
	// policy decides.
	Desired   *int
	Reason    string // of the last manual action
	CreatedAt time.Time
	UpdatedAt time.Time
	// Version increases with every change that a client makes.
	Version int64
	// Revision is the number of the settings that new instances get. It
	// increases when the settings that SettingsOf returns change.
	Revision int
	// RolloutSince is when the revision became current, or when its rollout was
	// resumed. Earlier failures do not count against it.
	RolloutSince  time.Time
	RolloutPaused bool

	// Filled in when read:
	Counts map[InstanceState]int // instances that are not gone
	Status FleetStatus
}

// FleetStatus is the last observation of the fleet's worker.
type FleetStatus struct {
	SeenAt    time.Time `json:"seen_at,omitzero"` // zero if there was no observation
	Group     string    `json:"group,omitempty"`  // the plugin's name of the instance group
	Plugin    string    `json:"plugin,omitempty"` // the plugin's version
	MaxSize   int64     `json:"max_size,omitempty"`
	Error     string    `json:"error,omitempty"` // why the fleet does not work; "" if it works
	ErrorAt   time.Time `json:"error_at,omitzero"`
	BlockedBy string    `json:"held,omitempty"`   // the limit that prevents more instances
	Queued    int       `json:"queued,omitempty"` // waiting tasks of the pool
	Share     int       `json:"share,omitempty"`  // waiting tasks that this fleet must serve
	Busy      int       `json:"busy,omitempty"`
	Free      int       `json:"free,omitempty"`
	Idle      int       `json:"idle,omitempty"`   // slots to keep free
	Target    int       `json:"target,omitempty"` // instances that demand requires, before limits
	Limit     int       `json:"most,omitempty"`
	Failures  int       `json:"failures,omitempty"`
	Instances int       `json:"instances,omitempty"`
	// Rollout is the state of the rollout, as far as the worker has observed it.
	Rollout RolloutStatus `json:"rollout,omitzero"`
}

// InstanceState is the state of an instance.
type InstanceState string

// The states of an instance. The scaling rules use the states up to deleting.
const (
	InstanceRequested     InstanceState = "requested" // requested; no machine is known yet
	InstanceCreating      InstanceState = "creating"
	InstanceBootstrapping InstanceState = "bootstrapping"
	InstanceReady         InstanceState = "ready"
	InstanceDraining      InstanceState = "draining"
	InstanceDeleting      InstanceState = "deleting"
	InstanceIgnored       InstanceState = "ignored" // not managed by the fleet
	InstanceGone          InstanceState = "gone"
)

// InstanceCause says why an instance exists.
type InstanceCause string

// The causes of an instance.
const (
	CauseRequested  InstanceCause = "requested"
	CausePreexisted InstanceCause = "preexisted" // it existed when the fleet was first listed
	CauseUnexpected InstanceCause = "unexpected" // it appeared without a request
)

// FleetInstance is a row of the ledger of a fleet.
type FleetInstance struct {
	Number   int    // from 1, in the fleet
	Instance string // the plugin's id of it; "" if there is no machine yet
	Request  string // the request that created it; "" for none
	Cause    InstanceCause
	State    InstanceState
	Message  string // why it is in that state: a sentence
	Reason   string // the same as one word, for programs
	Executor string // "" before the executor has registered
	Uses     int    // tasks that it has taken
	Revision int    // of the settings with which it was created

	RequestedAt time.Time
	CreatedAt   time.Time // when it was first listed; zero until then, likewise below
	RunningAt   time.Time // when it was first listed as running
	ReadyAt     time.Time
	DrainingAt  time.Time
	DeletingAt  time.Time // when its deletion was last requested
	GoneAt      time.Time
	LastUsed    time.Time // when it last took a task
	MissingFrom time.Time // since when the plugin does not list it

	// Filled in when read:
	Tasks int // tasks that its executor holds
}

// FleetSettings are the settings of a fleet that determine what an instance is.
// A change of them is a new revision, which replaces the instances.
type FleetSettings struct {
	Plugin               string          `json:"plugin"`
	PluginConfig         json.RawMessage `json:"plugin_config,omitempty"`
	ConnectorConfig      FleetConnector  `json:"connector_config,omitzero"`
	Bootstrap            string          `json:"bootstrap,omitempty"`
	InstanceReadyCommand string          `json:"instance_ready_command,omitempty"`
}

// SettingsOf returns the settings of a fleet that belong to its revision.
func SettingsOf(s FleetSpec) FleetSettings {
	return FleetSettings{
		Plugin: s.Plugin, PluginConfig: s.PluginConfig, ConnectorConfig: s.ConnectorConfig, Bootstrap: s.BootstrapMethod(),
		InstanceReadyCommand: s.InstanceReadyCommand,
	}
}

// ApplyTo replaces these settings in the specification of a fleet.
func (f FleetSettings) ApplyTo(s FleetSpec) FleetSpec {
	s.Plugin, s.PluginConfig, s.ConnectorConfig = f.Plugin, f.PluginConfig, f.ConnectorConfig
	s.Bootstrap, s.InstanceReadyCommand = f.Bootstrap, f.InstanceReadyCommand
	return s
}

// Equal reports whether two settings create the same instances. The order of
// keys and the white space of PluginConfig do not matter.
func (f FleetSettings) Equal(other FleetSettings) bool {
	same := sameJSON(f.PluginConfig, other.PluginConfig)
	return same && f.Plugin == other.Plugin && f.ConnectorConfig == other.ConnectorConfig && f.Bootstrap == other.Bootstrap &&
		f.InstanceReadyCommand == other.InstanceReadyCommand
}

// sameJSON reports whether two texts are the same JSON value. An empty text is
// an empty map.
func sameJSON(a, b json.RawMessage) bool {
	var values [2]any
	for i, text := range []json.RawMessage{a, b} {
		if len(text) == 0 {
			text = json.RawMessage("{}")
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber() // a float64 would make large numbers equal
		if err := d.Decode(&values[i]); err != nil {
			return bytes.Equal(a, b)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// FleetUpdate bounds how a rollout replaces instances. Percentages are of the
// instances that the fleet needs.
type FleetUpdate struct {
	// MaxSurge is how many more instances than needed there may be, rounded up;
	// "" means 25%. MaxUnavailable is how many of the needed instances may be
	// missing, rounded down; "" means 25%.
	MaxSurge       Amount `json:"max_surge,omitempty"`
	MaxUnavailable Amount `json:"max_unavailable,omitempty"`
}

// DefaultFleetUpdate is MaxSurge and MaxUnavailable if they are not set, as of a
// Deployment of Kubernetes.
const DefaultFleetUpdate Amount = "25%"

// Bounds returns the two limits for a number of needed instances. At least one
// of them is above 0.
func (u FleetUpdate) Bounds(size int) (surge, unavailable int) {
	surge = cmp.Or(u.MaxSurge, DefaultFleetUpdate).of(size, true)
	unavailable = min(size, cmp.Or(u.MaxUnavailable, DefaultFleetUpdate).of(size, false))
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// RolloutPhase is the phase of the rollout of a revision.
type RolloutPhase string

// The phases of a rollout.
const (
	RolloutComplete    RolloutPhase = "complete" // no instance has an earlier revision
	RolloutProgressing RolloutPhase = "progressing"
	RolloutPaused      RolloutPhase = "paused" // by an operator
	RolloutFailed      RolloutPhase = "failed" // stopped, because new instances fail
)

// RolloutStatus is the state of a rollout.
type RolloutStatus struct {
	Revision int          `json:"revision,omitempty"` // the one that the worker has observed
	Phase    RolloutPhase `json:"phase,omitempty"`
	Message  string       `json:"message,omitempty"`  // a sentence
	Required int          `json:"required,omitempty"` // instances that the fleet needs
	Updated  int          `json:"updated,omitempty"`  // instances of the revision
	Ready    int          `json:"ready,omitempty"`    // those of Updated that take tasks
	Outdated int          `json:"outdated,omitempty"` // instances of earlier revisions that are not gone
}

// FleetRollout is the rollout of a fleet as clients see it.
type FleetRollout struct {
	RolloutStatus

	Current   int // the revision of the fleet; the worker may not have observed it yet
	Revisions []FleetRevision
}

// FleetRevision is a revision of the settings of a fleet.
type FleetRevision struct {
	Number    int
	Settings  FleetSettings
	CreatedAt time.Time
	By        string // the caller
	Instances int    // that have this revision and are not gone
}

// FindRevision returns the revision to go back to, of those of a fleet with the
// current one first. The number 0 means the one before the current one.
func FindRevision(fleet string, all []FleetRevision, number int) (FleetRevision, error) {
	if number == 0 {
		if len(all) < 2 {
			return FleetRevision{}, Errorf(CodeConflict, "fleet %s has no earlier revision", fleet)
		}
		return all[1], nil
	}
	if number == all[0].Number {
		return FleetRevision{}, Errorf(CodeConflict, "revision %d of fleet %s is the current one", number, fleet)
	}
	var known []string
	for _, r := range all {
		if r.Number == number {
			return r, nil
		}
		known = append(known, strconv.Itoa(r.Number))
	}
	return FleetRevision{}, Errorf(CodeNotFound, "there is no revision %d of fleet %s; it has %s", number, fleet, strings.Join(known, ", "))
}

// FleetUndo asks for the settings of an earlier revision.
type FleetUndo struct {
	Revision int    // 0: the one before the current revision
	By       string // the caller
	Reason   string // a sentence; "" for none
}

// FleetEvent is one event in the life of a fleet.
type FleetEvent struct {
	Number int64
	At     time.Time
	// Kind is a word such as requested, ready, or paused.
	Kind     string
	Instance int    // number of the instance; 0: none
	Name     string // the plugin's id of the instance
	By       string // a token's name, or the fleet itself
	Reason   string // a word
	Text     string // a sentence
}

// Defaults of a fleet.
const (
	DefaultUpdateInterval    = time.Minute
	DefaultExpectingInterval = 2 * time.Second
	DefaultDeletionRetry     = time.Minute
	DefaultDrainTimeout      = time.Hour
	DefaultFailureThreshold  = 3
)

// The methods below return settings of a fleet with their defaults.

// Interval returns the time between two listings.
func (s FleetSpec) Interval(expecting bool) time.Duration {
	if expecting {
		return cmp.Or(s.UpdateIntervalWhenExpecting.Std(), DefaultExpectingInterval)
	}
	return cmp.Or(s.UpdateInterval.Std(), DefaultUpdateInterval)
}

// DeletionRetry returns the time after which a deletion is requested again.
func (s FleetSpec) DeletionRetry() time.Duration {
	return cmp.Or(s.DeletionRetryInterval.Std(), DefaultDeletionRetry)
}

// DrainLimit returns how long a drain may last if the executor does not
// respond.
func (s FleetSpec) DrainLimit() time.Duration {
	return cmp.Or(s.DrainTimeout.Std(), DefaultDrainTimeout)
}

// Failures returns how many consecutive health checks may fail.
func (s FleetSpec) Failures() int {
	return cmp.Or(s.FailureThreshold, DefaultFailureThreshold)
}

// ExecutorLabels returns the labels that all executors of a fleet have.
func (s FleetSpec) ExecutorLabels(fleet string) map[string]string {
	labels := make(map[string]string, len(s.Labels)+1)
	maps.Copy(labels, s.Labels)
	maps.Copy(labels, s.Resources.Labels())
	labels[LabelFleet] = fleet
	return labels
}

// BootstrapMethod returns how instances become executors.
func (s FleetSpec) BootstrapMethod() string {
	return cmp.Or(s.Bootstrap, BootstrapAgent)
}

// Scaling configures the number of machines of a fleet. Its fields are named as
// in GitLab's taskscaler; docs/fleets-simulator.md defines them. Package
// fleeting/scaling validates it.
type Scaling struct {
	CapacityPerInstance int `json:"capacity_per_instance,omitempty"` // concurrent tasks of an instance; 0 means 1
	MaxUseCount         int `json:"max_use_count,omitempty"`         // tasks that an instance takes in its life; 0: no limit
	MaxInstances        int `json:"max_instances,omitempty"`         // in any state; 0: as many as the plugin allows
	// Weight is the share of an instance in a quota that fleets share. nil
	// derives it from the memory.
	Weight        *float64       `json:"weight,omitempty"`
	ScaleThrottle *ScaleThrottle `json:"scale_throttle,omitempty"`
	// HoldDown is how long fewer instances must have been enough before an
	// instance is removed; nil means a minute.
	HoldDown *Duration `json:"hold_down,omitempty"`
	// RequestTimeout is how long an instance may take from its request until it
	// is ready; 0 means 15 minutes.
	RequestTimeout Duration `json:"request_timeout,omitempty"`
	// Policy has settings for certain times; of the policies that match, the
	// last applies. If none matches, an instance is created when a task waits.
	Policy []ScalingPolicy `json:"policy,omitempty"`
}

// ScaleThrottle bounds how fast instances are requested: a token bucket.
type ScaleThrottle struct {
	Limit float64 `json:"limit,omitempty"` // instances a second; 0 means 100, -1 no limit
	Burst int     `json:"burst,omitempty"` // instances at once; 0 means max_instances
}

// ScalingPolicy has the settings for certain times.
type ScalingPolicy struct {
	Periods  []string `json:"periods,omitempty"`  // cron expressions that name minutes, not instants; none: always
	Timezone string   `json:"timezone,omitempty"` // of the periods; "" means UTC
	// IdleCount is how many slots are kept free.
	IdleCount int `json:"idle_count,omitempty"`
	// IdleTime is how long an instance must have been idle before it is
	// removed.
	IdleTime Duration `json:"idle_time,omitempty"`
	// ScaleFactor keeps that share of the tasks as additional free slots:
	// IdleCount is the minimum, ScaleFactorLimit, unless it is 0, the maximum.
	ScaleFactor      float64 `json:"scale_factor,omitempty"`
	ScaleFactorLimit int     `json:"scale_factor_limit,omitempty"`
	// PreemptiveMode adds instances only ahead of tasks: waiting tasks take the
	// free slots that IdleCount and ScaleFactor keep, and request no instances
	// themselves. nil means that it is on if IdleCount is not 0. It has no
	// effect if IdleCount is 0, because then no slot would ever be free.
	PreemptiveMode *bool `json:"preemptive_mode,omitempty"`
	// UpcomingTasks also adds instances for tasks that are about to be ready.
	// It excludes preemptive mode.
	UpcomingTasks bool `json:"upcoming_tasks,omitempty"`
}
