package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Fleets is what the engine needs of fleets for clients' calls.
type Fleets interface {
	// ListFleets, GetFleet, PutFleet, SteerFleet, DeleteFleet, FleetInstances
	// and FleetEvents: see run.Fleets. What is put has been checked. Every
	// change appends an event and an outbox row of OutboxFleet. A name whose
	// fleet was deleted may be put again; its ledger goes on. GetFleet has the
	// secrets of the configuration.
	ListFleets(ctx context.Context) ([]run.Fleet, error)
	GetFleet(ctx context.Context, name string) (run.Fleet, error)
	PutFleet(ctx context.Context, name string, s run.FleetSpec, by string) (_ run.Fleet, created bool, _ error)
	SteerFleet(ctx context.Context, name string, s run.FleetSteer) (run.Fleet, error)
	DeleteFleet(ctx context.Context, name, by string) (run.Fleet, error)
	FleetInstances(ctx context.Context, name string, gone bool) ([]run.FleetInstance, error)
	FleetEvents(ctx context.Context, name string, after int64, n int) ([]run.FleetEvent, error)
}

// Ledger is what the worker of a fleet reads and writes.
type Ledger interface {
	// ViewFleet returns all that is decided by, from one snapshot. Errors:
	// not_found (also where it was deleted).
	ViewFleet(ctx context.Context, name string) (FleetView, error)
	// UpcomingTasks counts the tasks of a pool that are ready once those that run
	// have ended as they should, in up to n running runs.
	UpcomingTasks(ctx context.Context, pool string, n int) (int, error)
	// ChangeFleet writes what the worker of a fleet saw or did, and the events
	// that tell of it. Rows of instances that do not stand as the change
	// expects are left out, with their events; it returns the numbers of those
	// that were written, in order. Errors: not_found.
	ChangeFleet(ctx context.Context, name string, c FleetChanges) ([]int, error)
	// WatchFleets is Events.Watch for whatever a fleet is decided by: what
	// clients change, its executors, and the tasks of runs.
	WatchFleets() (signal <-chan struct{}, stop func())
}

// FleetView is all that is decided by.
type FleetView struct {
	Fleet     run.Fleet
	Instances []LedgerRow    // that are not gone, by number
	Memory    string         // what ChangeFleet wrote last
	Queued    int            // tasks of the pool that wait for an executor
	Overdue   int            // of them: those that have waited for longer than run.SlotTimeout
	FreeSlots int            // of online executors of the pool that are of none of its fleets
	Executors []run.Executor // that are instances of the fleet, and are not removed
	Sharing   []QuotaShare   // other fleets of its quota
	// Pool are the other fleets of its pool, by name, each without the tasks and
	// free slots of the pool, and without Pool.
	Pool []FleetView
}

// QuotaShare is what another fleet has of a quota.
type QuotaShare struct {
	Fleet     string
	Spec      run.FleetSpec
	Instances int       // that it has, in whatever state
	Target    int       // that it would have
	SeenAt    time.Time // when its plugin last listed its instances
}

// LedgerRow is an instance with what only its fleet's worker wants to know.
type LedgerRow struct {
	run.FleetInstance
	// Told says that the plugin has answered the request: until then nobody
	// knows whether it has heard of it.
	Told     bool
	Failures int // health checks in a row
	Misses   int // listings in a row that did not have it
}

// FleetChanges are what the worker of a fleet writes in one transaction.
type FleetChanges struct {
	// Add are new rows; their numbers are given when they are written.
	Add []LedgerChange
	// Set replaces rows, where they are in the state that From says.
	Set []LedgerChange
	// Status and Memory replace what there is, where they are not nil.
	Status *run.FleetStatus
	Memory *string
	Events []run.FleetEvent // that are of no row
	// Request, where not "", lets nothing be added where the ledger has a row
	// of that request already.
	Request string
	// Room, where not nil, says how many of Add may be added, by a view that is
	// read in the same transaction: the fleets of the same quota and of the
	// same pool do not change until it is written. It may be called again.
	Room func(v FleetView) int
	// Deleted says that a fleet that was being deleted is gone.
	Deleted bool
}

// LedgerChange is a row as it becomes.
type LedgerChange struct {
	LedgerRow
	From run.InstanceState // of Set
	// Event tells of the change; nil for none. Its instance is filled in.
	Event *run.FleetEvent
}
