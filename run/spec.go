package run

import "time"

// Duration is a time span that is written as a Go duration string ("90s").
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return Errorf(CodeInvalid, "%q is not a duration such as 90s or 1h30m", b)
	}
	*d = Duration(v)
	return nil
}

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Spec is the specification of a run that a client submits: a graph of tasks
// and the rules for running it. Package spec reads it from YAML or JSON;
// Validate returns its faults. Its JSON form is canonical: short forms are
// expanded.
type Spec struct {
	Name         string            `json:"name"`
	Group        string            `json:"group"`
	ChangeGroups []string          `json:"changegroups,omitempty"`
	Priority     int               `json:"priority,omitempty"`  // 1 (first) to 5; 0 means DefaultPriority
	Admission    Admission         `json:"admission,omitempty"` // "" means auto
	Annotations  map[string]string `json:"annotations,omitempty"`
	Environment  map[string]string `json:"environment,omitempty"`
	Secrets      map[string]Secret `json:"secrets,omitempty"`
	// SecretsFrom are secrets that the gateway reads from a provider each time
	// a task is claimed. Drover does not store them.
	SecretsFrom map[string]SecretRef `json:"secrets_from,omitempty"`
	// SecretFiles names secrets that steps get as files in memory: the variable
	// of that name is the path of the file.
	SecretFiles []string            `json:"secret_files,omitempty"`
	Registries  map[string]Registry `json:"registries,omitempty"`
	Timeout     Duration            `json:"timeout,omitempty"` // of the whole run from its start; 0: none
	FailFast    bool                `json:"fail_fast,omitempty"`
	SetupErrors []string            `json:"setup_errors,omitempty"`
	// Untrusted says that other runs of the group do not trust this run. It may
	// read their caches, but it writes to separate ones. It cannot read secrets
	// of providers.
	Untrusted bool                 `json:"untrusted,omitempty"`
	Tasks     map[string]*TaskSpec `json:"tasks"`
}

// DefaultPriority is the priority of a run that names none.
const DefaultPriority = 3

// Admission says whether a queued run starts by itself or by a call of Start.
type Admission string

// The admissions.
const (
	AdmissionAuto   Admission = "auto"
	AdmissionManual Admission = "manual" // it stays queued until a call of Start
)

// SecretRef names a secret that a provider of the gateway holds.
type SecretRef struct {
	Provider string `json:"provider"`      // its name in the gateway's configuration
	Name     string `json:"name"`          // a variable, a file, or a path in Vault
	Key      string `json:"key,omitempty"` // the key, if the secret has several
}

// Registry holds the credentials for one image registry.
type Registry struct {
	Username       string `json:"username"`
	PasswordSecret string `json:"password_secret"` // a key of Spec.Secrets or Spec.SecretsFrom
}

// TaskSpec describes one task, or one expansion of tasks.
type TaskSpec struct {
	Pool         string              `json:"pool,omitempty"`
	Requires     *Requires           `json:"requires,omitempty"`
	Image        string              `json:"image,omitempty"`
	PullPolicy   PullPolicy          `json:"pull_policy,omitempty"` // "" means if_not_present
	Platform     string              `json:"platform,omitempty"`    // os/arch[/variant]
	Services     []ServiceSpec       `json:"services,omitempty"`
	Environment  map[string]string   `json:"environment,omitempty"`
	WorkingDir   string              `json:"working_dir,omitempty"`
	Shell        []string            `json:"shell,omitempty"` // nil means DefaultShell
	User         string              `json:"user,omitempty"`
	Privileged   bool                `json:"privileged,omitempty"`
	Resources    Resources           `json:"resources,omitzero"`
	Volumes      []Volume            `json:"volumes,omitempty"`
	Steps        []Step              `json:"steps"`
	Depends      []Depend            `json:"depends,omitempty"`
	Approval     Approval            `json:"approval,omitzero"`
	AllowFailure bool                `json:"allow_failure,omitempty"`
	Skip         bool                `json:"skip,omitempty"`
	Timeout      Duration            `json:"timeout,omitempty"` // from the start of its environment; 0: none
	Retry        Retry               `json:"retry,omitzero"`
	OnLost       OnLost              `json:"on_executor_lost,omitempty"` // "" means fail
	Matrix       map[string][]string `json:"matrix,omitempty"`
	Foreach      string              `json:"foreach,omitempty"`

	// HoldOnFailure keeps the environment of each failed attempt for this time; 0: not.
	HoldOnFailure Duration `json:"hold_on_failure,omitempty"`
}

// DefaultShell is the shell of a task that names none. The path of the step's
// script is appended to it.
func DefaultShell() []string { return []string{"/bin/sh", "-e"} }

// Requires selects a pool by its properties.
type Requires struct {
	Driver string            `json:"driver,omitempty"`
	OS     string            `json:"os,omitempty"`
	Arch   string            `json:"arch,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// PullPolicy says when an image is pulled.
type PullPolicy string

// The pull policies.
const (
	PullIfNotPresent PullPolicy = "if_not_present"
	PullAlways       PullPolicy = "always"
	PullNever        PullPolicy = "never"
)

// ServiceSpec is a container beside the task's own, reachable on localhost.
type ServiceSpec struct {
	Name        string            `json:"name"`
	Image       string            `json:"image"`
	Environment map[string]string `json:"environment,omitempty"`
	Command     []string          `json:"command,omitempty"`
}

// Resources limits a task. Quantities are in Kubernetes notation ("2",
// "500m"; "4Gi", "512M").
type Resources struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	PIDs   int    `json:"pids,omitempty"`
}

// Volume is a mount in the task's environment.
type Volume struct {
	Path  string `json:"path"`
	Tmpfs *Tmpfs `json:"tmpfs,omitempty"`
}

// Tmpfs is a file system in memory. An empty size means the driver's default.
type Tmpfs struct {
	Size string `json:"size,omitempty"`
}

// Step is one step of a task. Exactly one of Run and the fields of ArchiveStep
// is set.
type Step struct {
	Name        string            `json:"name,omitempty"`
	Run         string            `json:"run,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	WorkingDir  string            `json:"working_dir,omitempty"`
	Timeout     Duration          `json:"timeout,omitempty"`
	When        When              `json:"when,omitempty"` // "" means on_success

	ArchiveStep
}

// When is the condition on the outcome of earlier steps under which a step
// runs.
type When string

// The conditions of a step.
const (
	WhenOnSuccess When = "on_success"
	WhenOnFailure When = "on_failure"
	WhenAlways    When = "always"
)

// Depend names a task that must be final first, and the outcomes with which the
// dependent task may start.
type Depend struct {
	Task string      `json:"task"`
	On   []Condition `json:"on,omitempty"` // nil means [success]
}

// Condition is an outcome of a dependency.
type Condition string

// The conditions of a dependency.
const (
	OnSuccess Condition = "success"
	OnFailure Condition = "failure"
	OnSkipped Condition = "skipped"
)

// Approval says how many distinct subjects must approve a task; 0 is none.
type Approval struct {
	Approvers int `json:"approvers,omitempty"`
}

// Retry says how often and after which outcomes a task is retried.
type Retry struct {
	MaxAttempts int       `json:"max_attempts,omitempty"` // 0 means 1
	On          []RetryOn `json:"on,omitempty"`           // nil means [failed, start_failed]
	Backoff     Duration  `json:"backoff,omitempty"`      // before each new attempt
}

// RetryOn is an outcome after which a task may be retried.
type RetryOn string

// The outcomes that can be retried.
const (
	RetryFailed      RetryOn = "failed"       // a step failed
	RetryStartFailed RetryOn = "start_failed" // its environment could not be started
)

// OnLost is the policy for the tasks of a lost executor that is removed.
type OnLost string

// The policies for a lost executor.
const (
	OnLostFail  OnLost = "fail"
	OnLostRetry OnLost = "retry"
)

// Limits of a specification. Package spec checks each of them, with an error that
// names it.
const (
	MaxRequestBytes = 8 << 20   // of one request body
	MaxTasks        = 10_000    // of one run, after expansion
	MaxSteps        = 256       // of one task
	MaxScriptBytes  = 512 << 10 // of one step's script
	MaxChangeGroups = 64        // of one run
	MaxOutputBytes  = 1 << 20   // of one task's outputs
	MaxForeach      = 5_000     // items of one foreach
	MaxNameLength   = 100       // of a run's or a task's name, in bytes
	MaxAttempts     = 100       // of one task

	MaxExpandedName    = 250       // of a task's name with the suffix of its expansion, in bytes
	MaxGroupLength     = 500       // of a run's group, in bytes
	MaxDependencies    = 100_000   // of all tasks of one run, before expansion
	MaxApprovers       = 100       // of one task
	MaxAnnotations     = 100       // of one run or task
	MaxAnnotationBytes = 1 << 10   // of an annotation's value
	MaxArchivePaths    = 1000      // of one archive step
	MaxArchivePath     = 4 << 10   // of one of them, in bytes
	MaxCacheKeys       = 20        // of one restore_cache
	MaxCacheKeyBytes   = 512       // of a key, as written and as evaluated
	MaxVariableBytes   = 128 << 10 // of NAME=value: Linux does not start a process with more
)

// StopGrace is the time between SIGTERM and SIGKILL for a step that is stopped.
const StopGrace = 10 * time.Second

// ValidName reports whether name is valid for a task, service or pool: 1 to
// MaxNameLength of a to z, 0 to 9, dot, underscore and dash, and not dots
// alone.
func ValidName(name string) bool {
	return len(name) <= MaxNameLength && namePattern.MatchString(name)
}

var namePattern = newPattern(`^[a-z0-9._-]*[a-z0-9_-][a-z0-9._-]*$`)
