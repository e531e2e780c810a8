package run

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	// ServiceNetwork is ServiceNetworkOwn, or "" for the shared one.
	ServiceNetwork ServiceNetwork `json:"service_network,omitempty"`
	WorkingDir     string         `json:"working_dir,omitempty"`
	Shell          []string       `json:"shell"`
	User           string         `json:"user,omitempty"`
	Privileged     bool           `json:"privileged,omitempty"`
	Resources      Resources      `json:"resources,omitzero"`
	Volumes        []Volume       `json:"volumes,omitempty"`
	// VolumeScope separates the persistent volumes of tasks that do not trust each other:
	// see PersistentVolumeScope and UntrustedVolumeScope. "" if the task has none.
	VolumeScope string `json:"volume_scope,omitempty"`
	// Devices and ExtraHosts are as in TaskSpec.
	Devices    []string          `json:"devices,omitempty"`
	ExtraHosts map[string]string `json:"extra_hosts,omitempty"`
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
	// ProviderSecrets: secrets of providers are among them. A later definition of the task
	// may have other values.
	ProviderSecrets bool `json:"provider_secrets,omitempty"`
	// SecretsFrom are the secrets that Supply adds, by name, and Registries the
	// registries whose passwords are among them. They are not sent to
	// executors.
	SecretsFrom map[string]SecretRef `json:"-"`
	Registries  map[string]Registry  `json:"-"`
	// PoolRegistries are the pool's registries that the executor may pull from, and
	// for which the run has no credentials. SupplyPool adds their passwords. They are not sent to
	// executors.
	PoolRegistries map[string]PoolRegistry `json:"-"`
	// Fault, if not "", says in a sentence for users what the task needs and
	// cannot have: the task fails before it begins, and all other fields are
	// unused.
	Fault string `json:"fault,omitempty"`
	// LogLimit is how many bytes of output are kept, 0 for all: further output
	// of the steps is discarded, and the steps continue.
	LogLimit int64 `json:"log_limit,omitempty"`
	// ServiceLogs says that the gateway stores the output of services. Gateways of earlier
	// versions refuse it.
	ServiceLogs bool          `json:"service_logs,omitempty"`
	Steps       []StepDef     `json:"steps"`
	Timeout     time.Duration `json:"timeout,omitempty"`
	Grace       time.Duration `json:"grace"`
	// CleanupTimeout bounds the steps that run after a stop or after Timeout; 0
	// means DefaultCleanupTimeout.
	CleanupTimeout time.Duration `json:"cleanup_timeout,omitempty"`
	// HoldOnFailure keeps the environment of a failed task for this time. An executor
	// of an earlier version ignores it.
	HoldOnFailure time.Duration `json:"hold_on_failure,omitempty"`
}

// StepDef is a step as an executor runs it.
type StepDef struct {
	Name string `json:"name,omitempty"`
	// Image is the image of the helper container that the step runs in; "" is the
	// environment of the task.
	Image       string            `json:"image,omitempty"`
	Script      string            `json:"script"` // "" for another type of step
	Checkout    *Checkout         `json:"checkout,omitempty"`
	Environment map[string]string `json:"environment,omitempty"` // overrides the task's
	WorkingDir  string            `json:"working_dir,omitempty"`
	Timeout     time.Duration     `json:"timeout,omitempty"`
	When        When              `json:"when"`
	// Streams is how the output of a script is read. "" means merged. Executors
	// of an older version ignore it and read two pipes, each by itself.
	Streams Streams `json:"streams,omitempty"`
	Retry   Retry   `json:"retry,omitzero"`
	// Skip says that the step is skipped, for each outcome of earlier steps.
	Skip bool `json:"skip,omitempty"`
	ArchiveStep
}

// HelperImages returns the images of the helper containers of the task, each once, in
// the order of the steps.
func (d *Definition) HelperImages() []string {
	var images []string
	for i := range d.Steps {
		if image := d.Steps[i].Image; image != "" && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return images
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

// Variables that Drover sets in the environment of every step.
const (
	VariablePrefix      = "DROVER_" // prefix of names that specifications may not use
	VariableRunID       = "DROVER_RUN_ID"
	VariableRunCounter  = "DROVER_RUN_COUNTER"
	VariableRunGroup    = "DROVER_RUN_GROUP"
	VariableTaskName    = "DROVER_TASK_NAME"
	VariableTaskAttempt = "DROVER_TASK_ATTEMPT"
	VariableOutput      = "DROVER_OUTPUT" // set by the shim
)

// StepVariables returns the names of the variables that Drover sets for a script.
func StepVariables() []string {
	return []string{
		VariableRunID, VariableRunCounter, VariableRunGroup, VariableTaskName, VariableTaskAttempt, VariableOutput, VariableItem, VariableItemIndex,
	}
}

// MinMasked is the length of the shortest secret that is masked in logs, in
// bytes: masking shorter ones would make logs unreadable and hide nothing.
const MinMasked = 3

// Define returns the definition of a task: all that an executor needs to run
// the key, secrets included. header is the run's specification; its tasks are
// not used and may be nil. t is the specification of the task. The result
// shares only lists with them, which are never changed.
func Define(header *Spec, t *TaskSpec, x ExpandedTask, key Key, counter int64) Definition {
	d := Definition{
		Key: key, RunName: header.Name, RunGroup: header.Group, RunCounter: counter, Task: x.Name,
		Image: t.Image, PullPolicy: cmp.Or(t.PullPolicy, PullIfNotPresent), Platform: t.Platform,
		WorkingDir: t.WorkingDir, Shell: t.Shell, User: t.User, Privileged: t.Privileged,
		Resources: t.Resources, Volumes: t.Volumes, VolumeScope: volumeScope(header, t, x.Pool),
		Devices: t.Devices, ExtraHosts: t.ExtraHosts, Timeout: t.Timeout.Std(), Grace: StopGrace,
		CleanupTimeout: t.CleanupTimeout.Std(), HoldOnFailure: t.HoldOnFailure.Std(),
		Environment: environment(header, t, x, key, counter),
		SecretFiles: secretFiles(header),
		Secrets:     masked(header.Secrets),
		Auth:        auth(header),
		Steps:       make([]StepDef, len(t.Steps)),
	}
	if len(header.SecretsFrom) > 0 {
		d.SecretsFrom, d.Registries, d.ProviderSecrets = header.SecretsFrom, oneSpelling(header.Registries), true
		if header.Untrusted { // an older version accepted and stored it
			d.Fault = UntrustedReason
		}
	}
	if len(d.Shell) == 0 {
		d.Shell = DefaultShell()
	}
	if d.WorkingDir == "" && t.SharesWorkingDir() {
		d.WorkingDir = SharedWorkingDir
	}
	d.Services = slices.Clone(t.Services)
	if t.ServiceNetwork != ServiceNetworkShared {
		d.ServiceNetwork = t.ServiceNetwork
	}
	for i := range d.Services {
		d.Services[i].Name = d.Services[i].ServiceName()
		d.Services[i].Aliases = t.Services[i].HostNames()[1:]
	}
	d.supplyServices(header.Secrets)
	for i, s := range t.Steps {
		d.Steps[i] = StepDef{
			Name: s.Name, Image: s.Image, Script: s.Run, Environment: s.Environment, WorkingDir: s.WorkingDir,
			Timeout: s.Timeout.Std(), When: cmp.Or(s.When, WhenOnSuccess), Retry: s.Retry, Checkout: s.Checkout,
			ArchiveStep: s.ArchiveStep,
		}
		if s.Run != "" {
			d.Steps[i].Streams = cmp.Or(s.Streams, t.Streams)
		}
	}
	d.maskCheckouts(header.Secrets)
	d.addDockerAuth(header.Secrets)
	return d
}

// Supply adds the secrets that SecretsFrom names, by name. They are used like
// the run's own secrets.
func (d *Definition) Supply(secrets map[string]Secret) {
	for name, secret := range secrets {
		if _, file := d.SecretFiles[name]; file {
			d.SecretFiles[name] = secret.Reveal()
		} else {
			d.Environment[name] = secret.Reveal()
		}
	}
	d.supplyServices(secrets)
	d.Secrets = longestFirst(append(slices.Clone(d.Secrets), masked(secrets)...))
	d.maskCheckouts(secrets)
	for host, r := range d.Registries {
		if password, ok := secrets[r.PasswordSecret]; ok {
			d.Auth[host] = Auth{Username: r.Username, Password: password.Reveal()}
		}
	}
	d.addDockerAuth(secrets)
}

// SupplyPool adds the passwords of PoolRegistries, by host, for registries for which the
// task has none. Supply comes first. Only the executor gets them: they are not among
// Secrets, which the environment of the task has.
func (d *Definition) SupplyPool(passwords map[string]Secret) {
	for host, password := range passwords {
		d.addAuth(host, Auth{Username: d.PoolRegistries[host].Username, Password: password.Reveal()})
	}
}

// Hidden returns what executors mask in the setup log: Secrets and the passwords of
// registries.
func (d *Definition) Hidden() []string {
	passwords := make(map[string]Secret, len(d.Auth))
	for host, a := range d.Auth {
		passwords[host] = Secret(a.Password)
	}
	return longestFirst(append(masked(passwords), d.Secrets...))
}

// Secret returns the value of a secret that the task has as a variable or as a file; "" if
// it has none of this name.
func (d *Definition) Secret(name string) string {
	if content, file := d.SecretFiles[name]; file {
		return content
	}
	return d.Environment[name]
}

// maskCheckouts masks the passwords in the credentials of checkouts, which are
// user:password.
func (d *Definition) maskCheckouts(secrets map[string]Secret) {
	parts := make(map[string]Secret)
	for i := range d.Steps {
		if c := d.Steps[i].Checkout; c != nil && c.Credentials != "" {
			if _, password, ok := strings.Cut(secrets[c.Credentials].Reveal(), ":"); ok {
				parts[c.Credentials] = Secret(password)
			}
		}
	}
	if len(parts) > 0 {
		d.Secrets = longestFirst(append(slices.Clone(d.Secrets), masked(parts)...))
	}
}

// supplyServices gives services the values of their secrets.
func (d *Definition) supplyServices(secrets map[string]Secret) {
	for i := range d.Services {
		s := &d.Services[i]
		env := maps.Clone(s.Environment)
		for variable, name := range s.Secrets {
			if secret, ok := secrets[name]; ok {
				if env == nil {
					env = make(map[string]string)
				}
				env[variable] = secret.Reveal()
			}
		}
		s.Environment = env
	}
}

// SharesWorkingDir reports whether other containers use the working directory of the
// task.
func (d *Definition) SharesWorkingDir() bool {
	return len(d.HelperImages()) > 0 || slices.ContainsFunc(d.Services, func(s ServiceSpec) bool { return s.ShareWorkingDir })
}

func environment(header *Spec, t *TaskSpec, x ExpandedTask, key Key, counter int64) map[string]string {
	env := make(map[string]string)
	maps.Copy(env, header.Environment)
	maps.Copy(env, t.Environment)
	maps.Copy(env, x.Axis)
	for name, secret := range header.Secrets {
		env[name] = secret.Reveal()
	}
	for _, name := range header.SecretFiles {
		delete(env, name) // the shim sets it to the path of the file
	}
	env[VariableRunID] = string(key.Run)
	env[VariableRunCounter] = strconv.FormatInt(counter, 10)
	env[VariableRunGroup] = header.Group
	env[VariableTaskName] = x.Name
	env[VariableTaskAttempt] = strconv.Itoa(key.Attempt)
	return env
}

// secretFiles returns the contents of the secrets that are files. Those that
// Supply adds are empty until then.
func secretFiles(header *Spec) map[string]string {
	if len(header.SecretFiles) == 0 {
		return nil
	}
	files := make(map[string]string, len(header.SecretFiles))
	for _, name := range header.SecretFiles {
		files[name] = header.Secrets[name].Reveal()
	}
	return files
}

// masked returns the texts to mask, longest first, so that a text is masked
// before any text that it contains. Logs consist of lines, so each line of a
// secret of several lines is a text of its own.
func masked(secrets map[string]Secret) []string {
	var out []string
	add := func(s string) {
		if len(s) >= MinMasked {
			out = append(out, s)
		}
	}
	for _, secret := range secrets {
		value := secret.Reveal()
		add(value)
		if strings.Contains(strings.TrimSpace(value), "\n") {
			for line := range strings.Lines(value) {
				add(strings.TrimSpace(line))
			}
		} else if trimmed := strings.TrimSpace(value); trimmed != value {
			add(trimmed)
		}
	}
	return longestFirst(out)
}

func longestFirst(texts []string) []string {
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(texts)
}

func auth(header *Spec) map[string]Auth {
	if len(header.Registries) == 0 {
		return nil
	}
	out := make(map[string]Auth, len(header.Registries))
	for host, r := range oneSpelling(header.Registries) {
		out[host] = Auth{Username: r.Username, Password: header.Secrets[r.PasswordSecret].Reveal()}
	}
	return out
}

// oneSpelling returns registries by the one spelling of their hosts. Of several, the one
// that is spelled so comes first.
func oneSpelling(registries map[string]Registry) map[string]Registry {
	out := make(map[string]Registry, len(registries))
	for _, host := range slices.Sorted(maps.Keys(registries)) {
		one := registryHost(host)
		if _, taken := out[one]; !taken || host == one {
			out[one] = registries[host]
		}
	}
	return out
}

// ShimSpec is the specification that the shim gets, once and in full, before
// any step runs: how to run the steps of one task inside its environment.
type ShimSpec struct {
	Version    int        `json:"v"` // see RequiredSpecVersion
	FirstFrame int64      `json:"first_frame"`
	Definition Definition `json:"definition"`
	// User is the user of the steps if the definition names none (the image's
	// own); "" means the shim's user.
	User string `json:"user,omitempty"`
	// WorkingDir is used if the definition names none.
	WorkingDir string `json:"working_dir,omitempty"`
	// BaseEnvironment has the variables of the image or of the host driver. The
	// definition's environment overrides them.
	BaseEnvironment map[string]string `json:"base_environment,omitempty"`
	// SecretsDir is a directory in memory, used by this task only, for the
	// secrets that are files; "" if there are none.
	SecretsDir string `json:"secrets_dir,omitempty"`
	// Helpers are the helper containers of the task, in the order of
	// Definition.HelperImages.
	Helpers []HelperSpec `json:"helpers,omitempty"`
	// GitStores are the directories of object stores for checkouts with reuse, by
	// repository. A shim of an earlier version ignores them.
	GitStores map[string]string `json:"git_stores,omitempty"`
}

// HelperSpec is a helper container: a container of the task for the steps with an image
// of their own. User, WorkingDir and BaseEnvironment are those of its image, as in
// ShimSpec.
type HelperSpec struct {
	Image           string            `json:"image"`
	User            string            `json:"user,omitempty"`
	WorkingDir      string            `json:"working_dir,omitempty"`
	BaseEnvironment map[string]string `json:"base_environment,omitempty"`
}

// Versions of the specification, by the feature that each added.
const (
	specVersionScripts     = 1
	specVersionArchives    = 2
	specVersionSecretFiles = 3
	specVersionStepControl = 4
	specVersionHelpers     = 5
	specVersionNetworks    = 6
	specVersionVolumes     = 7
	specVersionHostAccess  = 8

	// NewestSpecVersion is the newest version of the specification that this build
	// supports.
	NewestSpecVersion = specVersionHostAccess
)

// RequiredSpecVersion returns the version of the specification that a task needs: the
// oldest version that an executor and its shim must support to run the task
// correctly. It is 1, 2 if steps transfer archives, 3 if secrets are files, and 4 if
// it decides more about its steps than whether they run on success or on failure: it
// retries them, runs them after a stop only, skips them by a condition, or has a
// timeout of the cleanup, and 5 if steps have images of their own or check out a
// repository, if it has extra hosts, or if services have more than a name, an image,
// variables and a command, 6 if the services have a network of their own, 7 if
// it has persistent volumes, and 8 if it has paths or devices of its host. A step that
// always runs does not require 4: without it, an older
// executor runs the step in all other cases.
func RequiredSpecVersion(d *Definition) int {
	if HostPaths(d.Volumes) || len(d.Devices) > 0 {
		return specVersionHostAccess
	}
	if PersistentVolumes(d.Volumes) {
		return specVersionVolumes
	}
	if d.ServiceNetwork == ServiceNetworkOwn {
		return specVersionNetworks
	}
	checksOut := func(s StepDef) bool { return s.Checkout != nil }
	if len(d.HelperImages()) > 0 || len(d.ExtraHosts) > 0 || slices.ContainsFunc(d.Steps, checksOut) || slices.ContainsFunc(d.Services, func(s ServiceSpec) bool { return s.needsHelpers() }) {
		return specVersionHelpers
	}
	if d.CleanupTimeout > 0 || slices.ContainsFunc(d.Steps, func(s StepDef) bool { return s.When == WhenOnStop || s.Retry.MaxAttempts > 1 || s.Skip }) {
		return specVersionStepControl
	}
	if len(d.SecretFiles) > 0 {
		return specVersionSecretFiles
	}
	for i := range d.Steps {
		if d.Steps[i].ArchiveType() != "" {
			return specVersionArchives
		}
	}
	return specVersionScripts
}

// CheckSpecVersion returns an error if an executor that supports specifications up to
// a version cannot run a task. Without this check an old executor would ignore
// the features that it does not know. Version 0 is an executor that does not
// report its version, and counts as 1. Errors: conflict.
func CheckSpecVersion(d *Definition, specVersion int) error {
	required, subject := RequiredSpecVersion(d), "steps that transfer archives"
	if required <= max(specVersion, specVersionScripts) {
		return nil
	}
	switch required {
	case specVersionSecretFiles:
		subject = "secrets as files"
	case specVersionStepControl:
		subject = "steps that are retried, run after a stop, or are skipped by a condition"
	case specVersionHelpers:
		subject = "steps with images of their own, checkout steps, extra hosts, or services with a health check, an entrypoint, aliases or limits"
	case specVersionNetworks:
		subject = "services with a network of their own"
	case specVersionVolumes:
		subject = "persistent volumes"
	case specVersionHostAccess:
		subject = "paths or devices of the host"
	}
	return Errorf(CodeConflict, "the task has %s, which this version of the executor does not support", subject)
}
