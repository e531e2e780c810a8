package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// EventFloor is the end of the events at which old ones are removed.
type EventFloor interface {
	// EventFloor returns the floor for readers of a run's events, or of all
	// where id is "": the greatest number whose event was removed, and 0 where
	// no event that they would read was. Errors: not_found (the run).
	EventFloor(ctx context.Context, id run.ID) (int64, error)
	// RemoveEvents removes up to n of the oldest events, as far as they are not
	// to be kept, and says how many.
	RemoveEvents(ctx context.Context, keep KeepEvents, n int) (removed int, err error)
}

// KeepEvents says which events are kept: those that both allow.
type KeepEvents struct {
	Since  time.Time // not older than this; zero is no limit
	Newest int64     // as many; 0 is no limit
}
