package run

import (
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
	// credentials of its own run, also if its pull policy says otherwise.
	Shared bool
	// Default says that tasks which name no pool prefer this one. There is at
	// most one default pool that runs containers, and one that does not.
	Default bool
	Flavor  Flavor
	// Kubernetes configures pods; nil for none, and for other drivers.
	Kubernetes *KubernetesPool

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

// Define adds the settings of the pool to the definition of one of its tasks.
func (p Pool) Define(d *Definition) {
	d.Kubernetes = p.Kubernetes
	if p.Shared {
		d.PullPolicy = PullAlways
	}
}

// Container reports whether the pool's driver runs tasks from images.
func (p Pool) Container() bool { return p.Driver != DriverShell }

// Drivers that Drover handles specially.
const (
	DriverShell      = "shell"
	DriverDocker     = "docker"
	DriverKubernetes = "kubernetes"
)

// Flavor describes a pool's executors, for users and for cost reports.
type Flavor struct {
	Name   string  `json:"name,omitempty"`   // such as large
	Memory string  `json:"memory,omitempty"` // of one slot, in Kubernetes notation
	Weight float64 `json:"weight,omitempty"` // the weight of a slot; 0 means 1
}

// CheckPool returns the faults of a task that is to run in a pool.
func CheckPool(name string, t *TaskSpec, p Pool) []Fault {
	l := newFaultList()
	path := Path("tasks").Key(name)
	if t.Privileged && !p.Privileged {
		l.add(path.Key("privileged"), FaultPoolMismatch, "pool %s does not allow privileged tasks", p.Name)
	}
	if p.Container() {
		if t.Image == "" {
			l.add(path.Key("image"), FaultRequired, "pool %s runs tasks in containers (%s): the task needs an image", p.Name, p.Driver)
		}
		return l.faults
	}
	for _, c := range []struct {
		field string
		given bool
	}{
		{"image", t.Image != ""},
		{"pull_policy", t.PullPolicy != ""},
		{"platform", t.Platform != ""},
		{"services", len(t.Services) > 0},
		{"user", t.User != ""},
		{"resources", t.Resources != Resources{}},
		{"volumes", len(t.Volumes) > 0},
		{"privileged", t.Privileged && p.Privileged},
	} {
		if c.given {
			l.add(path.Key(c.field), FaultPoolMismatch, "pool %s runs tasks on the host itself (%s), which does not support it", p.Name, p.Driver)
		}
	}
	return l.faults
}

// ChoosePool returns the pool of a task, and whether there is one. A task that
// names a pool gets that pool. Else the pool must match what the task requires
// and its image (container pools with an image, shell pools without); of
// several, ChoosePool prefers the default one, then the first by name. If no
// pool suits the image or privileges, it returns one that matches all else, so
// that CheckPool reports the fault.
func ChoosePool(t *TaskSpec, pools []Pool) (Pool, bool) {
	if t.Pool != "" {
		i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == t.Pool })
		if i < 0 {
			return Pool{}, false
		}
		return pools[i], true
	}
	matching := filter(pools, func(p Pool) bool { return t.Requires.matches(p) })
	for _, suits := range []func(Pool) bool{
		func(p Pool) bool { return p.Container() == (t.Image != "") && (p.Privileged || !t.Privileged) },
		func(p Pool) bool { return p.Container() == (t.Image != "") },
		func(Pool) bool { return t.Requires != nil },
	} {
		if some := filter(matching, suits); len(some) > 0 {
			return slices.MinFunc(some, byPreference), true
		}
	}
	return Pool{}, false
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
	for k, v := range r.Labels {
		if have, ok := p.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
