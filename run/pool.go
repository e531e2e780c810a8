package run

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Pool is a named class of executors.
type Pool struct {
	Name       string
	Driver     string
	OS         string // "": executors may differ; likewise Arch
	Arch       string
	Labels     map[string]string
	Privileged bool // privileged tasks are allowed
	// Shared says that runs which must not use the images of each other share
	// the hosts of the pool. Each task then pulls its images with the
	// credentials of its own run and of the pool, also if its pull policy says otherwise.
	Shared bool
	// Exec says whether clients may open sessions in its tasks; "" means ExecAllowed.
	Exec ExecPolicy
	// Default says that tasks which name no pool prefer this one. There is at
	// most one default pool that runs containers, and one that does not.
	Default bool
	Flavor  Flavor
	// Kubernetes configures pods; nil for none, and for other drivers.
	Kubernetes *KubernetesPool
	// MaxRunning is how many of its tasks may run at a time; 0: as many as its
	// executors have slots.
	MaxRunning int
	// AllowedGroups are the patterns of the groups whose runs may use the pool (see
	// GroupPattern); none means all groups. In a pool to be stored, none means those that
	// it has.
	AllowedGroups []string
	// Images has the settings of its tasks' images. In a pool to be stored, empty lists and
	// nil maps mean those that it has.
	Images PoolImages
	// AllowedVolumes are the patterns of the persistent volumes that tasks may have; none
	// means no volumes. In a pool to be stored, nil means those that it has.
	AllowedVolumes []string
	// AllowedHostPaths and AllowedDevices are the patterns of the paths and the devices of
	// their host that tasks may have, if its executor allows such tasks too; none means no
	// paths and no devices. In a pool to be stored, nil means those that it has.
	AllowedHostPaths []string
	AllowedDevices   []string
	// FleetGroups are those of the fleets that serve the pool, by the name of the fleet; a
	// fleet that allows all groups has none. A run may use the pool only if all of them
	// allow its group too. They are filled in when read.
	FleetGroups []FleetGroups

	// ExecutorLabels has the labels of each of its executors that is not removed, and of
	// its fleets. Only the choice of a pool reads it.
	ExecutorLabels []map[string]string

	// Features are what at least one of its executors that is not removed can do; nil if
	// there is none, or one of them does not report its features.
	Features []Feature

	// Filled in when read:
	Online    int // executors
	Draining  int // executors that take no tasks
	Offline   int // executors out of contact
	Slots     int // of the online executors
	SlotsUsed int
	Queued    int // tasks
	Running   int
	// MeanElapsed is how long its running tasks have run on average.
	MeanElapsed time.Duration
}

// FleetGroups are the patterns of the groups whose runs may use the machines of a fleet.
type FleetGroups struct {
	Fleet         string
	AllowedGroups []string
}

// Allows reports whether runs of a group may use the pool.
func (p *Pool) Allows(group string) bool {
	return slices.ContainsFunc(p.GroupPaths(), func(path string) bool { return GroupWithin(group, path) })
}

// GroupPaths returns the paths of the groups at and below which runs may use the pool; the
// path "" is all groups. Without any, no run may.
func (p *Pool) GroupPaths() []string {
	paths := allowedPaths(p.AllowedGroups)
	for _, f := range p.FleetGroups {
		var both []string
		for _, path := range allowedPaths(f.AllowedGroups) {
			for _, other := range paths {
				switch { // of two paths, one is below the other, or they have no group in common
				case GroupWithin(path, other):
					both = append(both, path)
				case GroupWithin(other, path):
					both = append(both, other)
				}
			}
		}
		slices.Sort(both)
		paths = slices.Compact(both)
	}
	return paths
}

// allowedPaths returns the paths of the patterns of allowed groups. Without patterns, all
// groups are allowed; a pattern that is not valid allows none.
func allowedPaths(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{""}
	}
	var paths []string
	for _, pattern := range patterns {
		if path, err := GroupPattern(pattern); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// Feature is something that an executor can do for tasks, besides running scripts.
type Feature string

// The features.
const (
	FeatureImages        Feature = "images"
	FeatureStepImages    Feature = "step_images"
	FeatureServices      Feature = "services"
	FeatureOwnNetworks   Feature = "service_networks" // of the services of each task
	FeatureCheckouts     Feature = "checkouts"        // without an image of the step
	FeatureUsers         Feature = "users"
	FeatureTmpfs         Feature = "tmpfs"
	FeatureVolumes       Feature = "volumes" // persistent ones
	FeatureHostPaths     Feature = "host_paths"
	FeatureDevices       Feature = "devices"
	FeatureExtraHosts    Feature = "extra_hosts"
	FeatureLimits        Feature = "limits" // on CPU and memory
	FeatureProcessLimits Feature = "process_limits"
	FeaturePrivileged    Feature = "privileged"
	FeatureSecretFiles   Feature = "secret_files"
	FeatureArchives      Feature = "archives"
	FeatureExec          Feature = "exec" // sessions
)

// AddFeatures adds the features of the executors of the pool, each with the features that
// it reports; nil for one that reports none.
func (p *Pool) AddFeatures(executors [][]Feature) {
	all := make([]Feature, 0)
	for _, features := range executors {
		if features == nil {
			p.Features = nil
			return
		}
		all = append(all, features...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(executors) > 0 {
		p.Features = all
	}
}

// Needs returns the features that a task needs in a pool, each with the path of a key
// below the task. Whether the driver of the pool runs tasks from images at all is not
// among them.
func (t *TaskSpec) Needs(p Pool) map[Path]Feature {
	needs := make(map[Path]Feature)
	for i := range t.Steps {
		s, at := &t.Steps[i], Path("steps").Index(i)
		switch {
		case s.Image != "" && p.Container():
			needs[at.Key("image")] = FeatureStepImages
		case s.Image == "" && s.Checkout != nil:
			needs[at.Key("checkout")] = FeatureCheckouts
		}
	}
	if !p.Container() {
		return needs
	}
	for i, v := range t.Volumes {
		if v.Name != "" {
			needs[Path("volumes").Index(i).Key("name")] = FeatureVolumes
		}
		if v.HostPath != "" {
			needs[Path("volumes").Index(i).Key("host_path")] = FeatureHostPaths
		}
	}
	for i := range t.Services {
		if t.Services[i].Privileged && p.Privileged {
			needs[Path("services").Index(i).Key("privileged")] = FeaturePrivileged
		}
	}
	for _, n := range []struct {
		key     Path
		feature Feature
		needed  bool
	}{
		{"privileged", FeaturePrivileged, t.Privileged && p.Privileged},
		{"services", FeatureServices, len(t.Services) > 0},
		// The driver itself is the reason of a pool on Kubernetes: see spec.CheckPool.
		{"service_network", FeatureOwnNetworks, t.ServiceNetwork == ServiceNetworkOwn && p.Driver != DriverKubernetes},
		{"user", FeatureUsers, t.User != ""},
		{"volumes", FeatureTmpfs, slices.ContainsFunc(t.Volumes, func(v Volume) bool { return v.Tmpfs != nil })},
		{"devices", FeatureDevices, len(t.Devices) > 0},
		{"extra_hosts", FeatureExtraHosts, len(t.ExtraHosts) > 0},
		{Path("resources").Key("pids"), FeatureProcessLimits, t.Resources.PIDs > 0},
	} {
		if n.needed {
			needs[n.key] = n.feature
		}
	}
	return needs
}

// can reports whether an executor of a pool has what the task needs, as far as it is
// known.
func (t *TaskSpec) can(p Pool) bool {
	if t.ServiceNetwork == ServiceNetworkOwn && p.Driver == DriverKubernetes { // not among its needs
		return false
	}
	for _, f := range t.Needs(p) {
		if p.Lacks(f) {
			return false
		}
	}
	return true
}

// Lacks reports whether no executor of the pool has a feature, as far as it is known.
func (p *Pool) Lacks(f Feature) bool { return p.Features != nil && !slices.Contains(p.Features, f) }

// Count adds an executor to the counts of the pool.
func (p *Pool) Count(e Executor) {
	switch e.State { //nolint:exhaustive // removed executors do not count
	case ExecutorOnline:
		p.Online++
		p.Slots += e.Slots
		p.SlotsUsed += e.SlotsUsed
	case ExecutorDraining:
		p.Draining++
	case ExecutorOffline:
		p.Offline++
	}
}

// Define adds the settings of the pool to the definition of one of its tasks.
func (p Pool) Define(d *Definition) {
	d.Kubernetes = p.Kubernetes
	if p.Exec == ExecForbidden {
		d.HoldOnFailure = 0
	}
	p.Images.define(d)
	d.PoolRegistries = p.registries(d)
	if p.Shared {
		d.PullPolicy = PullAlways
	}
	if !p.Container() { // the executor reserves them, and the host limits nothing
		d.Resources.CPU, d.Resources.Memory, d.Resources.GPUs = "", "", 0
	}
}

// Offers reports whether an executor of the pool offers resources.
func (p Pool) Offers() bool {
	return slices.ContainsFunc(p.ExecutorLabels, func(own map[string]string) bool { return ResourcesOf(own) != Resources{} })
}

// Container reports whether the pool's driver runs tasks from images.
func (p Pool) Container() bool { return p.Driver != DriverShell }

// ExecPolicy says whether clients may run commands in the tasks of a pool.
type ExecPolicy string

// The policies.
const (
	ExecAllowed   ExecPolicy = "allowed"
	ExecForbidden ExecPolicy = "forbidden"
)

// Drivers that Drover handles specially.
const (
	DriverShell      = "shell"
	DriverDocker     = "docker"
	DriverKubernetes = "kubernetes"
)

// Flavor describes a pool's executors, for users and for cost reports.
type Flavor struct {
	Name   string `json:"name,omitempty"`   // such as large
	Memory string `json:"memory,omitempty"` // of one slot, in Kubernetes notation
	// Weight is refused: it never had an effect. Stored pools may still have it.
	Weight float64 `json:"weight,omitempty"`
}

// ChoosePool returns the pool of a task, and whether there is one. A task that
// names a pool gets that pool. Else the pool must match what the task requires
// and its image (container pools with an image; shell pools without, or else container
// pools with a default image), and the required labels must be labels of the pool, or of
// one of its executors. Of several, ChoosePool takes one that allows its images, pull
// policy, volumes and devices, and prefers those whose executors have the features that the task needs, then
// those with an executor that offers its resources, then those that have the labels
// themselves, then the default one, then the first by name. If no pool suits the images
// or privileges, it returns one that matches all else, so that CheckPool reports the
// fault.
func ChoosePool(t *TaskSpec, pools []Pool) (Pool, bool) {
	if t.Pool != "" {
		i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == t.Pool })
		if i < 0 {
			return Pool{}, false
		}
		return pools[i], true
	}
	matching := filter(pools, func(p Pool) bool { return t.Requires.matches(p) })
	defaults := func(p Pool) bool { return t.Image == "" && p.Container() && p.Images.Default != "" }
	for _, suits := range []func(Pool) bool{
		func(p Pool) bool { // only pools that run containers have these
			return (LastingVolumes(t.Volumes) || len(t.Devices) > 0) && defaults(p) && (p.Privileged || !t.Privileged) && p.allows(t)
		},
		func(p Pool) bool {
			return p.Container() == (t.Image != "") && (p.Privileged || !t.Privileged) && p.allows(t)
		},
		func(p Pool) bool { return p.Container() == (t.Image != "") && (p.Privileged || !t.Privileged) },
		func(p Pool) bool { return p.Container() == (t.Image != "") },
		func(p Pool) bool { return defaults(p) && (p.Privileged || !t.Privileged) && p.allows(t) },
		defaults,
		func(Pool) bool { return t.Requires != nil },
	} {
		if some := filter(matching, suits); len(some) > 0 {
			for _, better := range []func(Pool) bool{t.can, t.held, func(p Pool) bool { return len(t.ownLabels(p)) == 0 }} {
				if own := filter(some, better); len(own) > 0 {
					some = own
				}
			}
			return slices.MinFunc(some, byPreference), true
		}
	}
	return Pool{}, false
}

// allows reports whether the pool allows the images, the pull policy, the persistent volumes,
// and the paths and devices of the host of a task.
func (p *Pool) allows(t *TaskSpec) bool {
	refused := slices.ContainsFunc(t.Volumes, func(v Volume) bool {
		return v.Name != "" && !p.AllowsVolume(v.Name) || v.HostPath != "" && !p.AllowsHostPath(v.HostPath)
	}) || slices.ContainsFunc(t.Devices, func(device string) bool { return !p.AllowsDevice(device) })
	return p.Images.allow(t) && !refused
}

func byPreference(a, b Pool) int {
	if a.Default != b.Default {
		if a.Default {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

func filter(pools []Pool, keep func(Pool) bool) []Pool {
	var out []Pool
	for _, p := range pools {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

func (r *Requires) matches(p Pool) bool {
	if r == nil {
		return true
	}
	if r.Driver != "" && r.Driver != p.Driver || r.OS != "" && r.OS != p.OS || r.Arch != "" && r.Arch != p.Arch {
		return false
	}
	return HasLabels(p.Labels, r.Labels) ||
		slices.ContainsFunc(p.ExecutorLabels, func(own map[string]string) bool { return HasLabels(p.WithLabels(own), r.Labels) })
}

// Limits of a pool.
const (
	MaxPoolLabels  = 100
	MaxPoolRunning = 1_000_000
	MaxPoolGroups  = 50       // patterns of allowed groups, also of a fleet
	MaxPoolImages  = 50       // patterns of allowed images, and of services; rewrites
	MaxPoolBytes   = 64 << 10 // of its pod settings, as JSON
	MaxLabelBytes  = 1 << 10  // of a label's value
)

// KubernetesPool configures the pods of a pool's tasks.
type KubernetesPool struct {
	NodeSelector map[string]string `json:"node_selector,omitempty"`
	Tolerations  []Toleration      `json:"tolerations,omitempty"`
	// Affinity has the form of a pod's affinity (node, pod and anti-affinity).
	Affinity         json.RawMessage `json:"affinity,omitempty"`
	ServiceAccount   string          `json:"service_account,omitempty"`
	RuntimeClass     string          `json:"runtime_class,omitempty"`
	PriorityClass    string          `json:"priority_class,omitempty"`
	ImagePullSecrets []string        `json:"image_pull_secrets,omitempty"` // names, in addition to the secrets created for the run's registries
	// Labels and Annotations are added to the pods.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// PodTemplate is applied to the pod of a task, as a strategic merge patch
	// of a pod template ({"metadata": ..., "spec": ...}).
	PodTemplate json.RawMessage `json:"pod_template,omitempty"`
}

// Toleration allows pods on nodes with a matching taint.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Equal or Exists
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`  // "" means all
	Seconds  *int64 `json:"seconds,omitempty"` // of NoExecute; nil means forever
}
