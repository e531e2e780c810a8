package run

import (
	"context"
	"time"
)

// ExecutorRegistry is what clients may ask about executors and their pools. It is part
// of Service.
type ExecutorRegistry interface {
	// Executors lists all executors that are not removed, by id.
	Executors(ctx context.Context) ([]Executor, error)
	// Executor returns one, with what it holds; also one that was removed.
	// Errors: not_found.
	Executor(ctx context.Context, id string) (Executor, error)
	// DrainExecutor has an executor take no more tasks; those that it has go
	// on. The wish outlives its process. Errors: not_found, gone (it was
	// removed).
	DrainExecutor(ctx context.Context, id, reason string) (Executor, error)
	// ResumeExecutor takes the wish back. Errors: not_found, gone.
	ResumeExecutor(ctx context.Context, id string) (Executor, error)
	// RemoveExecutor removes an executor for good, and ends the wait for its
	// tasks as their policies say. Again is no error. Errors: not_found,
	// conflict (it is in contact and has tasks, without Force).
	RemoveExecutor(ctx context.Context, id string, why Removal) (Executor, error)
	// Pools lists all pools, by name.
	Pools(ctx context.Context) ([]Pool, error)
	// Pool returns one. Errors: not_found.
	Pool(ctx context.Context, name string) (Pool, error)
	// PutPool makes a pool, or changes the one of that name, and says whether
	// it is new. What is filled in when read is ignored. Errors: invalid with
	// all faults, conflict (executors of it do not fit).
	PutPool(ctx context.Context, p Pool) (_ Pool, created bool, _ error)
	// DeletePool removes a pool. Errors: not_found, conflict (executors that
	// are not removed serve it, a fleet makes executors of it, or unfinished
	// tasks are of it).
	DeletePool(ctx context.Context, name string) error
}

// Removal says how and why an executor is removed.
type Removal struct {
	Reason string // a sentence; "" for none
	// Force removes one that is in contact although it has tasks: it stops
	// them as soon as it hears of it, while their policies may have begun
	// another attempt already.
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
	// Set is the set that it is a member of: whatever is one member's is any
	// other's too. "" for none.
	Set string
	// Temporary says that it is removed by itself once it was offline for
	// RemoveAfter; others are removed by operators alone. Members of a set are
	// temporary.
	Temporary bool
	// RemoveAfter is TemporaryOffline where it is 0.
	RemoveAfter time.Duration
	State       ExecutorState
	// Reason says why it drains, or was removed; "" where nobody said.
	Reason string
	// Drained says that it drains, has no task and will be handed none.
	Drained      bool
	RegisteredAt time.Time
	LastContact  time.Time
	RemovedAt    time.Time // zero until then

	// Fleet and Instance say which machine of which fleet it is; "" for none. The
	// gateway sets them by the executor's token. Uses is how many tasks it took since, and MaxUses
	// how many it may, 0 for any number.
	Fleet    string
	Instance string
	Uses     int
	MaxUses  int

	// Filled in when read:
	Tasks int        // that it has
	Held  []HeldTask // the first MaxHeldTasks of them, oldest first; nil in lists
}

// MaxHeldTasks bounds the tasks that are named of one executor.
const MaxHeldTasks = 100

// HeldTask is a task that an executor has.
type HeldTask struct {
	Key       Key
	Name      string
	Reason    string // such as that the executor is out of contact
	StartedAt time.Time
}

// ExecutorState is how an executor stands.
type ExecutorState string

// The states of an executor.
const (
	ExecutorOnline   ExecutorState = "online"
	ExecutorDraining ExecutorState = "draining"
	ExecutorOffline  ExecutorState = "offline" // not heard of for ExecutorTimeout
	ExecutorRemoved  ExecutorState = "removed"
)

// Liveness of executors: a row renewed every ExecutorRenew, and counted as
// offline after three of them were missed.
const (
	ExecutorRenew   = 5 * time.Second
	ExecutorTimeout = 3*ExecutorRenew + time.Second
)

// TemporaryOffline is how long a temporary executor may be offline before it is
// removed, unless it says otherwise.
const TemporaryOffline = 10 * time.Minute
