package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Fleets holds the calls about fleets that the engine needs for clients.
type Fleets interface {
	// ListFleets, GetFleet, PutFleet, ControlFleet, DeleteFleet, FleetInstances
	// and FleetEvents: see run.Fleets. The caller has validated what it puts.
	// Every change appends an event and an outbox row of OutboxFleet. The name
	// of a deleted fleet may be put again; its ledger continues. GetFleet
	// returns the secrets of the configuration too.
	ListFleets(ctx context.Context) ([]run.Fleet, error)
	GetFleet(ctx context.Context, name string) (run.Fleet, error)
	PutFleet(ctx context.Context, name string, s run.FleetSpec, by string) (_ run.Fleet, created bool, _ error)
	ControlFleet(ctx context.Context, name string, s run.FleetControl) (run.Fleet, error)
	DeleteFleet(ctx context.Context, name, by string) (run.Fleet, error)
	FleetInstances(ctx context.Context, name string, gone bool) ([]run.FleetInstance, error)
	FleetEvents(ctx context.Context, name string, after int64, n int) ([]run.FleetEvent, error)
	// FleetRevisions returns the last run.KeptFleetRevisions revisions of a
	// fleet, the current one first, with their secrets. Errors: not_found.
	FleetRevisions(ctx context.Context, name string) ([]run.FleetRevision, error)
	// UndoFleet: see run.Fleets. The caller has validated the settings. The
	// instances of that revision belong to the new one.
	UndoFleet(ctx context.Context, name string, u run.FleetUndo) (run.Fleet, error)
}

// Ledger holds the calls of the worker of a fleet.
type Ledger interface {
	// ViewFleet returns all inputs of a scaling decision, from one snapshot.
	// Errors: not_found (also if the fleet was deleted).
	ViewFleet(ctx context.Context, name string) (FleetView, error)
	// UpcomingTasks counts the tasks of a pool that become ready once the tasks
	// that run now have succeeded, in up to n running runs.
	UpcomingTasks(ctx context.Context, pool string, n int) (int, error)
	// ChangeFleet writes what the worker of a fleet observed or did, with the
	// events that describe it. It leaves out rows of instances that are not in
	// the state that the change expects, with their events. It returns the
	// numbers of the rows that it wrote, in order. Errors: not_found.
	ChangeFleet(ctx context.Context, name string, c FleetChanges) ([]int, error)
	// WatchFleets is Events.Watch for all inputs of scaling decisions: changes
	// by clients, executors of fleets, and tasks of runs.
	WatchFleets() (signal <-chan struct{}, stop func())
}

// FleetView holds all inputs of a scaling decision.
type FleetView struct {
	Fleet       run.Fleet
	Instances   []LedgerRow // without those in state gone, by number
	PolicyState string      // the policy state that ChangeFleet wrote last
	PoolLabels  map[string]string
	Tasks       []QueuedTasks  // of the pool, by the labels that they require
	FreeSlots   []FreeSlots    // of online executors of the pool that belong to none of its fleets
	Executors   []run.Executor // instances of the fleet that are not removed
	QuotaShares []QuotaShare   // other fleets that share its quota
	// Pool holds the other fleets of its pool, by name, each without the tasks
	// and free slots of the pool, and without Pool.
	Pool []FleetView
}

// QueuedTasks are queued tasks that require the same labels of their executor.
type QueuedTasks struct {
	Labels  map[string]string // nil: each executor of the pool may run them
	Queued  int               // as many as the pool may still run
	Overdue int               // those of them that have waited for longer than run.SlotTimeout
}

// FreeSlots are the free slots of executors with the same labels and as many slots.
type FreeSlots struct {
	Labels map[string]string // with those of the pool
	Slots  int               // of each executor
	Free   int               // of all of them together
}

// QuotaShare is the use of a quota by another fleet.
type QuotaShare struct {
	Fleet     string
	Spec      run.FleetSpec
	Instances int       // in any state but gone and ignored
	Target    int       // the number of instances that its policy asks for
	SeenAt    time.Time // when its plugin last listed its instances
}

// LedgerRow is an instance with the fields that only the fleet's worker uses.
type LedgerRow struct {
	run.FleetInstance
	// Acknowledged reports that the plugin has answered the request. Until then the
	// plugin may or may not have received it.
	Acknowledged bool
	Failures     int // failed health checks in a row
	Misses       int // plugin listings in a row without the instance
}

// FleetChanges is what the worker of a fleet writes in one transaction.
type FleetChanges struct {
	// Add holds new rows. ChangeFleet numbers them.
	Add []LedgerChange
	// Set replaces rows that are in the state From.
	Set []LedgerChange
	// Status and PolicyState replace the stored values if they are not nil.
	Status      *run.FleetStatus
	PolicyState *string
	// Error, if not nil, replaces the error in the stored status and keeps the
	// rest of it.
	Error  *FleetError
	Events []run.FleetEvent // that belong to no row
	// Request, if not "", adds nothing if the ledger already has a row of that
	// request.
	Request string
	// Capacity, if not nil, returns how many of Add may be added, given a view that
	// is read in the same transaction. The fleets of the same quota and of the
	// same pool do not change until the transaction ends. Capacity may be called
	// again.
	Capacity func(v FleetView) int
	// Deleted marks a fleet whose deletion is complete.
	Deleted bool
}

// FleetError is why a fleet does not work.
type FleetError struct {
	Text string
	At   time.Time
}

// LedgerChange is the new content of a row.
type LedgerChange struct {
	LedgerRow
	From run.InstanceState // of Set
	// Event describes the change; nil for none. ChangeFleet fills in its
	// instance.
	Event *run.FleetEvent
}
