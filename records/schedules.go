package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Schedules keeps what Temporal is not told of schedules: the specifications
// of their runs, with secrets, and what their firings made.
type Schedules interface {
	// ListSchedules returns up to n schedules with names after one, by name,
	// without specifications.
	ListSchedules(ctx context.Context, after string, n int) ([]Schedule, error)
	// GetSchedule returns a schedule with its specification and secrets.
	// Errors: not_found.
	GetSchedule(ctx context.Context, name string) (Schedule, error)
	// PutSchedule stores a schedule in the place of the one of that version,
	// 0 for none. Its note, and whether it is paused, are not kept. Errors:
	// conflict (there is another version).
	PutSchedule(ctx context.Context, s run.ScheduleSpec, version int64) error
	// DeleteSchedule removes a schedule, and forgets its firings. Errors:
	// not_found.
	DeleteSchedule(ctx context.Context, name string) error
	// PutFiring notes what a firing made; one that is known, by its key, is
	// noted anew. Only the last run.MaxFirings are kept, and those whose runs
	// are open. Nothing is noted of a schedule that does not exist.
	PutFiring(ctx context.Context, schedule string, f Firing) error
	// Firings returns the last firings, newest first, with how their runs
	// stand.
	Firings(ctx context.Context, schedule string, n int) ([]Firing, error)
	// OpenFirings returns those whose runs are open, oldest first.
	OpenFirings(ctx context.Context, schedule string) ([]Firing, error)
}

// Schedule is a stored schedule.
type Schedule struct {
	run.ScheduleSpec // Spec is nil in lists
	RunName          string
	Group            string
	Version          int64
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// Firing is a stored firing of a schedule.
type Firing struct {
	// Key is the execution of the workflow that makes the run.
	Key string
	run.Firing
}
