package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// EventFloor removes old events and returns the floor: the number up to which
// events were removed.
type EventFloor interface {
	// EventFloor returns the floor for readers of a run's events, or of all
	// events if id is "": the greatest number of a removed event, or 0 if none
	// that they would read was removed. Errors: not_found (the run).
	EventFloor(ctx context.Context, id run.ID) (int64, error)
	// RemoveEvents removes up to n of the oldest events that keep does not
	// retain, and returns how many it removed.
	RemoveEvents(ctx context.Context, keep KeepEvents, n int) (removed int, err error)
}

// KeepEvents selects the events to retain: those that satisfy both limits.
type KeepEvents struct {
	Since  time.Time // the oldest time to retain; zero is no limit
	Newest int64     // how many of the newest events to retain; 0 is no limit
}
