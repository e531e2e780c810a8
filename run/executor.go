package run

import (
	"context"
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
	JournalID  string // random, of its state dir
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
