package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// ExecutorRegistry is the API for clients that manage executors and their
// pools. It is part of Service.
type ExecutorRegistry interface {
	// Executors lists all executors that are not removed, by id.
	Executors(ctx context.Context) ([]Executor, error)
	// Executor returns one executor with its tasks, also if it was removed.
	// Errors: not_found.
	Executor(ctx context.Context, id string) (Executor, error)
	// DrainExecutor makes an executor take no more tasks; its running tasks
	// continue. The desired state outlives the executor's process. Errors:
	// not_found, gone (it was removed).
	DrainExecutor(ctx context.Context, id, reason string) (Executor, error)
	// ResumeExecutor ends a drain. Errors: not_found, gone.
	ResumeExecutor(ctx context.Context, id string) (Executor, error)
	// RemoveExecutor removes an executor permanently, and ends its tasks as
	// their policies say. Removing it twice is no error. Errors: not_found,
	// conflict (it is in contact and has tasks, without Force).
	RemoveExecutor(ctx context.Context, id string, cause Removal) (Executor, error)
	// Pools lists all pools, by name.
	Pools(ctx context.Context) ([]Pool, error)
	// Pool returns one. Errors: not_found.
	Pool(ctx context.Context, name string) (Pool, error)
	// PutPool creates a pool, or replaces the pool of that name, and reports
	// whether it is new. It ignores the fields that are filled in when read.
	// Errors: invalid with all faults, conflict (executors of the pool do not
	// fit).
	PutPool(ctx context.Context, p Pool) (_ Pool, created bool, _ error)
	// DeletePool removes a pool. Errors: not_found, conflict (executors that
	// are not removed serve it, a fleet creates executors for it, or it has
	// unfinished tasks).
	DeletePool(ctx context.Context, name string) error
}

// Removal is a request to remove an executor.
type Removal struct {
	Reason string // a sentence; "" for none
	// Force removes an executor that is in contact although it has tasks. The
	// executor stops the tasks as soon as it learns of the removal; meanwhile
	// their policies may already have started another attempt.
	Force bool
}

// Executor is a process that takes tasks of one pool.
type Executor struct {
	ID         string
	Pool       string
	Driver     string
	OS         string
	Arch       string
	Labels     map[string]string
	Privileged bool // privileged tasks are allowed
	Slots      int
	SlotsUsed  int
	Version    string
	// Features are sorted; nil means that the executor does not report them.
	Features  []Feature
	JournalID string // random, of its state dir
	// Set is the executor set of which it is a member; "" for none. Any member
	// may continue the tasks of another.
	Set string
	// Temporary says that Drover removes the executor once it was offline for
	// RemoveAfter; only operators remove others. Members of a set are
	// temporary.
	Temporary bool
	// RemoveAfter defaults to TemporaryOffline.
	RemoveAfter time.Duration
	State       ExecutorState
	// Reason says why it drains, or why it was removed; "" if no reason was
	// given.
	Reason string
	// Drained says that it drains, has no task and gets none.
	Drained      bool
	RegisteredAt time.Time
	LastContact  time.Time
	RemovedAt    time.Time // zero if it is not removed

	// Fleet and Instance name the instance of a fleet that the executor is; ""
	// for none. The gateway sets them by the executor's token. Uses counts the
	// tasks that it took since, and MaxUses is the limit; 0 means no limit.
	Fleet    string
	Instance string
	Uses     int
	MaxUses  int

	// Filled in when read:
	Tasks int        // tasks that it holds
	Held  []HeldTask // the first MaxHeldTasks of them, oldest first; nil in lists
}

// MaxHeldTasks is the most tasks that Executor.Held lists.
const MaxHeldTasks = 100

// HeldTask is a task that an executor holds.
type HeldTask struct {
	Key       Key
	Name      string
	Reason    string // for example that the executor is out of contact
	StartedAt time.Time
}

// ExecutorState is the state of an executor.
type ExecutorState string

// The states of an executor.
const (
	ExecutorOnline   ExecutorState = "online"
	ExecutorDraining ExecutorState = "draining"
	ExecutorOffline  ExecutorState = "offline" // no contact for ExecutorTimeout
	ExecutorRemoved  ExecutorState = "removed"
)

// Liveness of executors: an executor renews its registration every
// ExecutorRenew, and is offline after it missed three renewals.
const (
	ExecutorRenew   = 5 * time.Second
	ExecutorTimeout = 3*ExecutorRenew + time.Second
)

// TemporaryOffline is how long a temporary executor may be offline before it is
// removed, unless it sets another duration.
const TemporaryOffline = 10 * time.Minute

// HasLabels reports whether labels has all of the required labels. Labels of resources
// are amounts: at least the required amount will do.
func HasLabels(labels, required map[string]string) bool {
	for k, v := range required {
		have, ok := labels[k]
		if !ok || have != v && !atLeast(k, have, v) {
			return false
		}
	}
	return true
}

// Labelled reports whether an executor has labels apart from those that name its fleet
// and its instance.
func Labelled(labels map[string]string) bool {
	for name := range labels {
		if name != LabelFleet && name != LabelInstance {
			return true
		}
	}
	return false
}

// LabelsText returns labels in their canonical form, JSON with sorted keys, "" for
// none.
func LabelsText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return "" // a map of strings can always be marshalled
	}
	return string(text)
}

// LabelsIDLength is the length of a LabelsID.
const LabelsIDLength = 32

// LabelsID returns a short identifier of labels in their canonical form, "" for none.
func LabelsID(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:LabelsIDLength/2])
}

// ShownLabels returns labels for a sentence: label gpu=a100, or labels gpu=a100 and
// zone=b and 2 CPU.
func ShownLabels(labels map[string]string) string {
	var pairs, shown []string
	for _, k := range slices.Sorted(maps.Keys(WithoutResources(labels))) {
		pairs = append(pairs, k+"="+labels[k])
	}
	switch {
	case len(pairs) == 1:
		shown = append(shown, "label "+pairs[0])
	case len(pairs) > 1:
		shown = append(shown, "labels "+enumerate(pairs))
	}
	if n, ok := labels[LabelCPU]; ok {
		shown = append(shown, n+" CPU")
	}
	if n, ok := labels[LabelMemory]; ok {
		shown = append(shown, n+" of memory")
	}
	if n, ok := labels[LabelGPUs]; ok {
		shown = append(shown, n+" GPU")
	}
	if len(shown) == 0 {
		return "no labels"
	}
	return enumerate(shown)
}

// enumerate joins texts for a sentence: a, b and c.
func enumerate(texts []string) string {
	last := len(texts) - 1
	if last == 0 {
		return texts[0]
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// ExecutorLabels returns the labels that the executor of a task must have itself: those
// of what it reserves, and those that its pool does not have, or of which some executors
// of the pool have another value; nil for none.
func (t *TaskSpec) ExecutorLabels(p Pool) map[string]string {
	rest := t.ownLabels(p)
	for k, v := range t.reserves(p) {
		if rest == nil {
			rest = map[string]string{}
		}
		rest[k] = v
	}
	return rest
}

// reserves returns the resources that a task reserves, as labels: those that an executor
// of the pool offers, and GPUs in any case.
func (t *TaskSpec) reserves(p Pool) map[string]string {
	if t.Resources == (Resources{}) {
		return nil
	}
	labels := t.Resources.Labels()
	maps.DeleteFunc(labels, func(k, _ string) bool {
		return k != LabelGPUs && !slices.ContainsFunc(p.ExecutorLabels, func(own map[string]string) bool { return own[k] != "" })
	})
	return labels
}

// held reports whether an executor of a pool offers what a task reserves.
func (t *TaskSpec) held(p Pool) bool {
	required := t.reserves(p)
	return len(required) == 0 || slices.ContainsFunc(p.ExecutorLabels, func(own map[string]string) bool { return HasLabels(own, required) })
}

// ownLabels returns the required labels that the pool does not have, or of which some of
// its executors have another value.
func (t *TaskSpec) ownLabels(p Pool) map[string]string {
	if t.Requires == nil {
		return nil
	}
	var rest map[string]string
	for k, v := range t.Requires.Labels {
		if have, ok := p.Labels[k]; ok && have == v && !slices.ContainsFunc(p.ExecutorLabels, func(own map[string]string) bool {
			other, ok := own[k]
			return ok && other != v
		}) {
			continue
		}
		if rest == nil {
			rest = map[string]string{}
		}
		rest[k] = v
	}
	return rest
}

// WithLabels returns an executor's labels together with those of its pool. A label of
// the executor replaces the pool's label of that name.
func (p Pool) WithLabels(executor map[string]string) map[string]string {
	all := maps.Clone(p.Labels)
	if all == nil {
		all = make(map[string]string, len(executor))
	}
	maps.Copy(all, executor)
	return all
}

// Permitted is an executor that could run more tasks of a pool with a limit.
type Permitted struct {
	Executor string
	Room     int // how many more tasks it could run
}

// DividePermits divides n permits to run a task among executors: evenly, beginning with
// the executor whose turn it is.
func DividePermits(n, turn int, among []Permitted) map[string]int {
	given := make(map[string]int, len(among))
	for progress := true; progress && n > 0; {
		progress = false
		for i := range among {
			p := among[(turn+i)%len(among)]
			if n > 0 && given[p.Executor] < p.Room {
				given[p.Executor]++
				n--
				progress = true
			}
		}
	}
	return given
}
