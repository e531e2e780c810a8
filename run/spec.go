package run

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	FailFast    FailFast            `json:"fail_fast,omitzero"`
	SetupErrors []string            `json:"setup_errors,omitempty"`
	// Untrusted says that other runs of the group do not trust this run. It may
	// read their caches, but it writes to separate ones. It cannot read secrets
	// of providers.
	Untrusted bool `json:"untrusted,omitempty"`
	// Inputs declares the inputs of the run, and InputValues has their values as
	// they are written. Package inputs checks both, and replaces the references
	// to inputs; from then on, InputValues has a value for each input.
	Inputs      map[string]Input     `json:"inputs,omitempty"`
	InputValues map[string]string    `json:"input_values,omitempty"`
	Tasks       map[string]*TaskSpec `json:"tasks"`
}

// FailFast says what happens to the other tasks after the first failure of a task
// without allow_failure. In the zero value nothing does.
type FailFast struct {
	// Running says what happens to tasks that run. Tasks that wait are skipped.
	Running FailFastRunning `json:"running"`
}

// FailFastRunning says what happens to running tasks.
type FailFastRunning string

// The values of FailFast.Running.
const (
	FailFastStop     FailFastRunning = "stop" // the short form is fail_fast: true
	FailFastContinue FailFastRunning = "continue"
)

// MarshalJSON implements json.Marshaler. It prefers the forms that versions without
// FailFastRunning can read.
func (f FailFast) MarshalJSON() ([]byte, error) {
	switch f.Running {
	case "":
		return []byte("false"), nil
	case FailFastStop:
		return []byte("true"), nil
	case FailFastContinue:
	}
	return json.Marshal(map[string]FailFastRunning{"running": f.Running})
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *FailFast) UnmarshalJSON(data []byte) error {
	var on bool
	if json.Unmarshal(data, &on) == nil {
		*f = FailFast{}
		if on {
			f.Running = FailFastStop
		}
		return nil
	}
	var fields struct {
		Running FailFastRunning `json:"running"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	f.Running = fields.Running
	return nil
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

// Input declares an input of a run: a value that a client sets when it submits
// the run. Inputs are no secrets.
type Input struct {
	Type        InputType `json:"type,omitempty"`    // "" means string
	Default     *string   `json:"default,omitempty"` // nil: none
	Options     []string  `json:"options,omitempty"` // the values of a choice
	Required    bool      `json:"required,omitempty"`
	Description string    `json:"description,omitempty"`
	Pattern     string    `json:"pattern,omitempty"` // a regular expression that matches the whole string
}

// InputType is the type of the value of an input.
type InputType string

// The types of inputs.
const (
	InputString  InputType = "string"
	InputNumber  InputType = "number"
	InputBoolean InputType = "boolean"
	InputChoice  InputType = "choice" // a string, one of the options
)

// Typed returns the value that a text stands for: a float64 for a number, a bool
// for a boolean, and the text itself otherwise. It returns nil for a text that
// is none of the type.
func (i Input) Typed(text string) any {
	switch i.Type {
	case InputNumber:
		// The numbers are those of JSON, which are the same in all languages.
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !json.Valid([]byte(text)) {
			return nil
		}
		return x
	case InputBoolean:
		switch text {
		case "true":
			return true
		case "false":
			return false
		}
		return nil
	case "", InputString, InputChoice:
	}
	return text
}

// TypedInputs returns the values of the inputs by name, of the types that Typed
// returns: of all inputs if the references were replaced, else of those that
// have a value. It returns nil for a run without inputs.
func (s *Spec) TypedInputs() map[string]any {
	if len(s.Inputs) == 0 {
		return nil
	}
	values := make(map[string]any, len(s.Inputs))
	for name, in := range s.Inputs {
		if text, ok := s.InputValues[name]; ok {
			if value := in.Typed(text); value != nil {
				values[name] = value
			}
		}
	}
	return values
}

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
	Pool       string        `json:"pool,omitempty"`
	Requires   *Requires     `json:"requires,omitempty"`
	Image      string        `json:"image,omitempty"`
	PullPolicy PullPolicy    `json:"pull_policy,omitempty"` // "" means if_not_present
	Platform   string        `json:"platform,omitempty"`    // os/arch[/variant]
	Services   []ServiceSpec `json:"services,omitempty"`
	// ServiceNetwork is the network of the services; "" means shared.
	ServiceNetwork ServiceNetwork    `json:"service_network,omitempty"`
	Environment    map[string]string `json:"environment,omitempty"`
	WorkingDir     string            `json:"working_dir,omitempty"`
	Shell          Shell             `json:"shell,omitempty"`   // nil means DefaultShell
	Streams        Streams           `json:"streams,omitempty"` // of steps that name none; "" means merged
	User           string            `json:"user,omitempty"`
	Privileged     bool              `json:"privileged,omitempty"`
	Resources      Resources         `json:"resources,omitzero"`
	Volumes        []Volume          `json:"volumes,omitempty"`
	// Devices are the paths of devices of the host, which the task has at the same paths.
	Devices []string `json:"devices,omitempty"`
	// ExtraHosts are the IP addresses of further hosts that the steps and services find
	// by name.
	ExtraHosts   map[string]string `json:"extra_hosts,omitempty"`
	Steps        []Step            `json:"steps"`
	Depends      []Depend          `json:"depends,omitempty"`
	If           string            `json:"if,omitempty"` // a condition: see package spec/condition
	Approval     Approval          `json:"approval,omitzero"`
	ChangeGroups []TaskChangeGroup `json:"changegroups,omitempty"`
	AllowFailure bool              `json:"allow_failure,omitempty"`
	Skip         bool              `json:"skip,omitempty"`
	Timeout      Duration          `json:"timeout,omitempty"` // from the start of its environment; 0: none
	Retry        Retry             `json:"retry,omitzero"`
	OnLost       OnLost            `json:"on_executor_lost,omitempty"` // "" means fail
	// Finally says that the task begins when all tasks without it have ended,
	// with any result of the run, also after a stop. CleanupTimeout bounds it
	// then: see Plan.FinallyTimeout.
	Finally bool `json:"finally,omitempty"`
	// CleanupTimeout bounds the cleanup steps that run after a stop, or after the
	// timeout of the task; 0 means DefaultCleanupTimeout.
	CleanupTimeout Duration `json:"cleanup_timeout,omitempty"`
	Matrix         Matrix   `json:"matrix,omitzero"`
	Foreach        Foreach  `json:"foreach,omitzero"`
	// MaxParallel is how many of the tasks of the matrix or the list may have begun and not
	// ended at once; 0 is no limit.
	MaxParallel int `json:"max_parallel,omitempty"`
	// HoldOnFailure keeps the environment of each failed attempt for this time; 0: not.
	HoldOnFailure Duration `json:"hold_on_failure,omitempty"`
}

// Matrix expands a task to one task for each combination of the values of its
// axes. Its JSON has the axes beside include and exclude.
type Matrix struct {
	Axes map[string][]string `json:"axes"` // beside the other keys
	// Exclude removes the combinations that have all values of an entry.
	Exclude []map[string]string `json:"exclude,omitempty"`
	// Include adds the values of an entry, after Exclude, to each combination of
	// which it changes no value of an axis. An entry that fits none is a
	// combination of its own.
	Include []map[string]string `json:"include,omitempty"`
}

// The keys of a matrix that are no axes.
const (
	MatrixInclude = "include"
	MatrixExclude = "exclude"
)

// IsZero reports whether there is no expansion.
func (m Matrix) IsZero() bool { return len(m.Axes) == 0 && len(m.Include) == 0 && len(m.Exclude) == 0 }

// MarshalJSON implements json.Marshaler.
func (m Matrix) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	all := make(map[string]any, len(m.Axes)+2)
	for name, values := range m.Axes {
		all[name] = values
	}
	if len(m.Include) > 0 {
		all[MatrixInclude] = m.Include
	}
	if len(m.Exclude) > 0 {
		all[MatrixExclude] = m.Exclude
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Matrix) UnmarshalJSON(b []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*m = Matrix{}
	for key, raw := range all {
		var err error
		switch key {
		case MatrixInclude:
			err = json.Unmarshal(raw, &m.Include)
		case MatrixExclude:
			err = json.Unmarshal(raw, &m.Exclude)
		default:
			var values []string
			err = json.Unmarshal(raw, &values)
			if m.Axes == nil {
				m.Axes = make(map[string][]string, len(all))
			}
			m.Axes[key] = values
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Shell is the program that runs the scripts of a task, and its arguments. The path
// of the script is appended. In a run file it may be one of ShellNames instead.
type Shell []string

// DefaultShell is the shell of a task that names none.
func DefaultShell() []string { return []string{"/bin/sh", "-e"} }

// ShellNames returns the names that NamedShell knows.
func ShellNames() []string { return []string{"sh", "bash", "zsh", "pwsh", "python"} }

// NamedShell returns the shell with a name. Each ends at the first command that
// fails, and those that can also fail because of a command within a pipeline, as
// users of other systems expect.
func NamedShell(name string) (Shell, bool) {
	switch name {
	case "sh":
		return DefaultShell(), true
	case "bash":
		return Shell{"bash", "-e", "-o", "pipefail"}, true
	case "zsh":
		return Shell{"zsh", "-e", "-o", "pipefail"}, true
	case "pwsh":
		return Shell{"pwsh", "-NoProfile", "-NonInteractive", "-File"}, true
	case "python":
		return Shell{"python3", "-u"}, true
	}
	return nil, false
}

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

// ServiceNetwork says which addresses the services of a task have.
type ServiceNetwork string

// The networks of services.
const (
	// ServiceNetworkShared is the address of the task for all services.
	ServiceNetworkShared ServiceNetwork = "shared"
	// ServiceNetworkOwn is a network of the task attempt, on which the task and each
	// service have addresses.
	ServiceNetworkOwn ServiceNetwork = "own"
)

// ServiceSpec is a container beside the task's own, reachable by its HostNames, and on
// localhost unless the services have a network of their own.
type ServiceSpec struct {
	// Name is unique in the task; "" is a name derived from the image, see
	// ServiceName.
	Name    string   `json:"name,omitempty"`
	Aliases []string `json:"aliases,omitempty"` // more host names
	Image   string   `json:"image"`
	// Environment has the variables of the service. In a definition it includes those
	// of Secrets.
	Environment map[string]string `json:"environment,omitempty"`
	// Secrets are the names of secrets of the run, by the variables of the service that
	// get their values.
	Secrets    map[string]string `json:"secrets,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"` // nil: that of the image
	Command    []string          `json:"command,omitempty"`    // nil: that of the image
	Resources  Resources         `json:"resources,omitzero"`
	Privileged bool              `json:"privileged,omitempty"`
	// Health is a check that must succeed before the first step; nil is none.
	Health *HealthCheck `json:"health,omitempty"`
	// ShareWorkingDir mounts the working directory of the task, which is a volume then.
	ShareWorkingDir bool `json:"share_working_dir,omitempty"`
}

// HealthCheck is a command that exits with 0 in the container of a service once the
// service can be used.
type HealthCheck struct {
	Command []string `json:"command"`
	// Timeout is how long that may take; 0 means DefaultHealthTimeout. Then the start of
	// the task fails.
	Timeout Duration `json:"timeout,omitempty"`
}

// DefaultHealthTimeout is the timeout of a health check that names none.
const DefaultHealthTimeout = time.Minute

// MaxAliases is how many aliases a service may have.
const MaxAliases = 20

// needsHelpers reports whether an executor that knows no helper containers would start
// the service in another way than it is described.
func (s *ServiceSpec) needsHelpers() bool {
	return len(s.Aliases) > 0 || s.Entrypoint != nil || s.Resources != Resources{} || s.Privileged || s.Health != nil || s.ShareWorkingDir
}

// ServiceName returns the name of the service: its own, or the repository of its image
// with "-" for each "/", without the port of a registry, the tag and the digest.
func (s *ServiceSpec) ServiceName() string {
	if s.Name != "" {
		return s.Name
	}
	return strings.ReplaceAll(repositoryOf(s.Image), "/", "-")
}

// HostNames returns the names under which the service is reached: its name and its
// aliases, and for a name derived from the image also the one with "__" for each "/", as
// in GitLab CI. Not every resolver accepts all of them.
func (s *ServiceSpec) HostNames() []string {
	names := []string{s.ServiceName()}
	if other := strings.ReplaceAll(repositoryOf(s.Image), "/", "__"); s.Name == "" && other != names[0] {
		names = append(names, other)
	}
	return append(names, s.Aliases...)
}

// repositoryOf returns an image without the port of its registry, its tag and its
// digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	host, rest, qualified := strings.Cut(image, "/")
	if !qualified {
		name, _, _ := strings.Cut(image, ":")
		return name
	}
	host, _, _ = strings.Cut(host, ":")
	slash := strings.LastIndexByte(rest, '/')
	last, _, _ := strings.Cut(rest[slash+1:], ":")
	return host + "/" + rest[:slash+1] + last
}

// Resources limits a task, and an executor that offers resources reserves them for
// it. Quantities are in Kubernetes notation ("2", "500m"; "4Gi", "512M").
type Resources struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	PIDs   int    `json:"pids,omitempty"`
	GPUs   int    `json:"gpus,omitempty"`
}

// MaxExtraHosts is how many hosts ExtraHosts may have.
const MaxExtraHosts = 100

// MaxHelpers is how many different images the steps of a task may have.
const MaxHelpers = 8

// SharedWorkingDir is the working directory of a task that names none and shares it: see
// TaskSpec.SharesWorkingDir.
const SharedWorkingDir = "/workspace"

// SharesWorkingDir reports whether other containers of the task use its working
// directory: steps have images of their own, or services share it. It is a volume then.
func (t *TaskSpec) SharesWorkingDir() bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool { return s.Image != "" }) ||
		slices.ContainsFunc(t.Services, func(s ServiceSpec) bool { return s.ShareWorkingDir })
}

// Checkout checks out a git repository.
type Checkout struct {
	Repository string `json:"repository"` // a URL without credentials, or host:path for ssh
	// Ref is a branch, a tag or a full name; "" is the default branch.
	Ref string `json:"ref,omitempty"`
	// RefSpecs are fetched instead of Ref, as in git.
	RefSpecs []string `json:"refspecs,omitempty"`
	// SHA is the commit to check out; "" is the newest one of Ref.
	SHA string `json:"sha,omitempty"`
	// Depth is how many commits of the history are fetched; 0 is all.
	Depth      int        `json:"depth,omitempty"`
	Submodules Submodules `json:"submodules,omitempty"`
	LFS        bool       `json:"lfs,omitempty"`
	// Clean removes other files from the directory; nil means true.
	Clean *bool `json:"clean,omitempty"`
	// Path is the directory, relative to the working directory of the step; "" is that
	// directory.
	Path string `json:"path,omitempty"`
	// Credentials names the secret of the run that has the password, or user:password.
	Credentials string `json:"credentials,omitempty"`
	// Reuse copies objects that earlier checkouts of the repository left on the host of
	// the executor.
	Reuse bool `json:"reuse,omitempty"`
}

// Limits of a checkout.
const (
	MaxRefSpecs = 100
	MaxDepth    = 1_000_000
)

// Cleans reports whether the checkout removes other files from its directory.
func (c *Checkout) Cleans() bool { return c.Clean == nil || *c.Clean }

// Submodules says which submodules are checked out too.
type Submodules string

// The submodules of a checkout; "" means none.
const (
	SubmodulesNone      Submodules = "none"
	SubmodulesNormal    Submodules = "normal"
	SubmodulesRecursive Submodules = "recursive"
)

// Step is one step of a task. Exactly one of Run, Checkout and the fields of
// ArchiveStep is set.
type Step struct {
	Name string `json:"name,omitempty"`
	// Image runs the script in a container of its own, which shares the working
	// directory and the network of the task; "" is the environment of the task.
	Image       string            `json:"image,omitempty"`
	Run         string            `json:"run,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	WorkingDir  string            `json:"working_dir,omitempty"`
	Timeout     Duration          `json:"timeout,omitempty"`
	When        When              `json:"when,omitempty"`    // "" means on_success
	Streams     Streams           `json:"streams,omitempty"` // "" means those of the task
	// Checkout checks out a repository instead of running a script.
	Checkout *Checkout `json:"checkout,omitempty"`
	// Retry repeats a script that fails, within the attempt of the task.
	Retry Retry  `json:"retry,omitzero"`
	If    string `json:"if,omitempty"` // a condition, evaluated before the task begins

	ArchiveStep
}

// When is the condition on the outcome of earlier steps under which a step
// runs.
type When string

// The conditions of a step.
const (
	WhenOnSuccess When = "on_success"
	WhenOnFailure When = "on_failure"
	WhenAlways    When = "always"  // also after a stop, and after the timeout of the task
	WhenOnStop    When = "on_stop" // only then
)

// Streams says how the two outputs of a step, stdout and stderr, reach its log.
type Streams string

// The ways to read the outputs of a step.
const (
	// StreamsMerged is one pipe for both: the log has the order of the writes, and
	// all output counts as stdout.
	StreamsMerged Streams = "merged"
	// StreamsSplit is a pipe for each: every line is marked with its stream, and
	// lines are kept whole.
	StreamsSplit Streams = "split"
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
	OnStopped Condition = "stopped"
)

// Approval says how many distinct subjects must approve a task; 0 is none.
type Approval struct {
	Approvers int `json:"approvers,omitempty"`
	// From names the subjects that may approve and reject; nil means all.
	From []string `json:"from,omitempty"`
	// Timeout is how long the task waits before Drover rejects it; 0: for any
	// time.
	Timeout Duration `json:"timeout,omitempty"`
}

// Retry says how often and after which outcomes a task is retried, or a step within
// an attempt of its task.
type Retry struct {
	MaxAttempts int       `json:"max_attempts,omitempty"` // 0 means 1
	On          []RetryOn `json:"on,omitempty"`           // nil means [failed, start_failed]
	// ExitCodes, if there are any, restricts RetryFailed to these exit codes.
	ExitCodes []int `json:"exit_codes,omitempty"`
	// Backoff is the wait before the second attempt. BackoffFactor multiplies each
	// later wait; 0 means 1. BackoffMax limits the waits; 0 means none.
	Backoff       Duration `json:"backoff,omitempty"`
	BackoffFactor float64  `json:"backoff_factor,omitempty"`
	BackoffMax    Duration `json:"backoff_max,omitempty"`
	// BackoffJitter is the share of each wait that is random, up to 1: a wait is
	// shorter by at most this share.
	BackoffJitter float64 `json:"backoff_jitter,omitempty"`
}

// RetryOn is an outcome after which a task or a step may be retried.
type RetryOn string

// The outcomes that can be retried. RetryFailed includes the ones below it.
const (
	RetryStartFailed RetryOn = "start_failed" // its environment could not be started
	RetryFailed      RetryOn = "failed"       // any other failure
	RetryTimeout     RetryOn = "timeout"      // a timeout passed
	RetryOOM         RetryOn = "oom"          // it was killed because it ran out of memory
	RetryVanished    RetryOn = "vanished"     // its environment is gone
)

// Allows reports whether a failure with this cause and exit code may be retried. The
// number of attempts does not matter. The loss of an executor has a policy of its
// own, OnLost.
func (r Retry) Allows(cause Cause, exitCode *int) bool {
	on := r.On
	if on == nil {
		on = []RetryOn{RetryFailed, RetryStartFailed}
	}
	named := RetryOn("")
	switch cause {
	case CauseInput, CauseExecutorLost, CauseAcquireTimeout:
		return false
	case CauseStart:
		return slices.Contains(on, RetryStartFailed)
	case CauseTimeout:
		named = RetryTimeout
	case CauseOOM:
		named = RetryOOM
	case CauseVanished:
		named = RetryVanished
	case CauseStep:
	}
	if named != "" && slices.Contains(on, named) {
		return true
	}
	return slices.Contains(on, RetryFailed) &&
		(len(r.ExitCodes) == 0 || exitCode != nil && slices.Contains(r.ExitCodes, *exitCode))
}

// maxGrownBackoff limits waits that grow, if the policy names no limit.
const maxGrownBackoff = 24 * time.Hour

// Delay returns the wait after a failed attempt, which is counted from 1. It is a
// pure function, so that a workflow may use it: the jitter is a hash of the seed,
// which identifies what is retried, and of the attempt.
func (r Retry) Delay(attempt int, seed string) time.Duration {
	limit := r.BackoffMax
	if limit <= 0 {
		limit = max(r.Backoff, Duration(maxGrownBackoff))
	}
	wait := min(r.Backoff, limit)
	for i := 1; i < attempt && r.BackoffFactor > 1 && wait > 0 && wait < limit; i++ {
		grown := float64(wait) * r.BackoffFactor
		if grown >= float64(limit) {
			wait = limit
			break
		}
		wait = Duration(grown)
	}
	if r.BackoffJitter <= 0 || wait <= 0 {
		return wait.Std()
	}
	random := fraction(seed + "/" + strconv.Itoa(attempt))
	shorter := time.Duration(float64(wait) * (1 - r.BackoffJitter*random)).Round(time.Millisecond)
	if shorter <= 0 {
		return wait.Std() // whether a workflow waits at all does not depend on the jitter
	}
	return shorter
}

// fraction returns a number from 0 up to 1 that is a hash of the text.
func fraction(text string) float64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	// The upper bits of FNV hardly depend on the last characters: this mixes them.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

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
	MaxRequestBytes  = 8 << 20   // of one request body
	MaxTasks         = 10_000    // of one run, after expansion
	MaxSteps         = 256       // of one task
	MaxScriptBytes   = 512 << 10 // of one step's script
	MaxChangeGroups  = 64        // of one run, and of all of its tasks
	MaxUnits         = 1_000     // of one change group, for one task
	MaxOutputBytes   = 1 << 20   // of one task's outputs
	MaxForeach       = 5_000     // items of one foreach
	MaxNameLength    = 100       // of a run's or a task's name, in bytes
	MaxAttempts      = 100       // of one task, and of one step
	MaxExitCodes     = 100       // of one retry policy
	MaxMatrixItems   = 100       // of include, and of exclude, of one matrix
	MaxMatrixKeys    = 20        // that include of one matrix adds to the axes
	MaxLabelSets     = 1_000     // different requires.labels and resources of one run, together: each set is a queue of its own
	MaxConditions    = 1_000     // different conditions of the tasks and steps of one run
	MaxConditionText = 64 << 10  // bytes of these conditions together: compiling them takes time

	MaxExpandedName    = 250       // of a task's name with the suffix of its expansion, in bytes
	MaxGroupLength     = 500       // of a run's group, in bytes
	MaxDependencies    = 100_000   // of all tasks of one run, before expansion
	MaxApprovers       = 100       // of one task
	MaxAnnotations     = 100       // of one run or task
	MaxAnnotationBytes = 1 << 10   // of an annotation's value
	MaxInputs          = 100       // of one run
	MaxInputBytes      = 16 << 10  // of an input's value
	MaxInputFilter     = 1 << 10   // of an input's value by which lists find runs, in bytes
	MaxInputOptions    = 100       // of one input
	MaxPatternBytes    = 200       // of an input's pattern
	MaxArchivePaths    = 1000      // of one archive step
	MaxArchivePath     = 4 << 10   // of one of them, in bytes
	MaxCacheKeys       = 20        // of one restore_cache
	MaxCacheKeyBytes   = 512       // of a key, as written and as evaluated
	MaxVariableBytes   = 128 << 10 // of NAME=value: Linux does not start a process with more
)

// StopGrace is the time between SIGTERM and SIGKILL for a step that is stopped.
const StopGrace = 10 * time.Second

// DefaultCleanupTimeout is the timeout of the cleanup of a task that names none.
const DefaultCleanupTimeout = 5 * time.Minute

// ValidName reports whether name is valid for a task, service or pool: 1 to
// MaxNameLength of a to z, 0 to 9, dot, underscore and dash, and not dots
// alone.
func ValidName(name string) bool {
	return len(name) <= MaxNameLength && namePattern.MatchString(name)
}

var namePattern = newPattern(`^[a-z0-9._-]*[a-z0-9_-][a-z0-9._-]*$`)
