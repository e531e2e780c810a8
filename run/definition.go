package run

import "time"

// Definition is everything an executor needs to run one task, secrets included:
// the specification with the environments merged and the registry credentials
// resolved. The gateway returns it once, for a claim.
type Definition struct {
	Key Key `json:"key"`
	// Last says that the executor must take no other task after this one.
	Last       bool            `json:"last,omitempty"`
	RunName    string          `json:"run_name"`
	RunGroup   string          `json:"run_group"`
	RunCounter int64           `json:"run_counter"`
	Task       string          `json:"task"`
	Image      string          `json:"image,omitempty"`
	PullPolicy PullPolicy      `json:"pull_policy,omitempty"`
	Platform   string          `json:"platform,omitempty"`
	Auth       map[string]Auth `json:"auth,omitempty"` // by registry host
	Services   []ServiceSpec   `json:"services,omitempty"`
	WorkingDir string          `json:"working_dir,omitempty"`
	Shell      []string        `json:"shell"`
	User       string          `json:"user,omitempty"`
	Privileged bool            `json:"privileged,omitempty"`
	Resources  Resources       `json:"resources,omitzero"`
	Volumes    []Volume        `json:"volumes,omitempty"`
	// Kubernetes has the pod settings of the task's pool; nil if it has none.
	Kubernetes *KubernetesPool `json:"kubernetes,omitempty"`
	// Environment holds run, task, axis and secret variables, merged in that
	// order, without those that the executor sets itself (DROVER_OUTPUT).
	Environment map[string]string `json:"environment,omitempty"`
	// SecretFiles are the contents of the secrets that steps get as files, by
	// the variables that hold the paths. They are not in Environment.
	SecretFiles map[string]string `json:"secret_files,omitempty"`
	// Secrets has the values that must be masked in the log.
	Secrets []string `json:"secrets,omitempty"`
	// SecretsFrom are the secrets that Supply adds, by name, and Registries the
	// registries whose passwords are among them. They are not sent to
	// executors.
	SecretsFrom map[string]SecretRef `json:"-"`
	Registries  map[string]Registry  `json:"-"`
	// Fault, if not "", says in a sentence for users what the task needs and
	// cannot have: the task fails before it begins, and all other fields are
	// unused.
	Fault string `json:"fault,omitempty"`
	// LogLimit is how many bytes of output are kept, 0 for all: further output
	// of the steps is discarded, and the steps continue.
	LogLimit int64         `json:"log_limit,omitempty"`
	Steps    []StepDef     `json:"steps"`
	Timeout  time.Duration `json:"timeout,omitempty"`
	Grace    time.Duration `json:"grace"`
}

// StepDef is a step as an executor runs it.
type StepDef struct {
	Name        string            `json:"name,omitempty"`
	Script      string            `json:"script"`                // "" for an archive step
	Environment map[string]string `json:"environment,omitempty"` // overrides the task's
	WorkingDir  string            `json:"working_dir,omitempty"`
	Timeout     time.Duration     `json:"timeout,omitempty"`
	When        When              `json:"when"`
	ArchiveStep
}

// ArchiveType returns the type of an archive step, "" for a step that runs a
// script.
func (s *StepDef) ArchiveType() string {
	if types := s.types(); len(types) > 0 {
		return types[0]
	}
	return ""
}

// Auth is a pair of registry credentials. It marshals in the clear, and is used
// only in definitions for executors.
type Auth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}
