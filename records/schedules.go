package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Schedules stores what Temporal does not hold of schedules: the specifications
// of their runs, with secrets, and the runs that their firings created.
type Schedules interface {
	// ListSchedules returns up to n schedules whose names follow after, by
	// name, without specifications. within limits the groups of their runs, as in
	// run.ScheduleQuery.
	ListSchedules(ctx context.Context, after string, n int, within ...string) ([]Schedule, error)
	// ScheduleGroup returns the group of the runs of a schedule. Errors: not_found.
	ScheduleGroup(ctx context.Context, name string) (string, error)
	// GetSchedule returns a schedule with its specification and secrets.
	// Errors: not_found.
	GetSchedule(ctx context.Context, name string) (Schedule, error)
	// PutSchedule replaces the given version of a schedule; 0 creates one.
	// secretsBy is the subject that gave the values of its secrets. It does not
	// store its note or whether it is paused. Errors: conflict (the stored
	// version is another).
	PutSchedule(ctx context.Context, s run.ScheduleSpec, secretsBy string, version int64) error
	// DeleteSchedule removes a schedule and its firings. Errors: not_found.
	DeleteSchedule(ctx context.Context, name string) error
	// PutFiring records what a firing created. A firing with a known key is
	// replaced. Only the last run.MaxFirings are kept, and those whose runs are
	// open. Nothing is recorded for a schedule that does not exist.
	PutFiring(ctx context.Context, schedule string, f Firing) error
	// Firings returns the last firings, newest first, with the phases and
	// results of their runs.
	Firings(ctx context.Context, schedule string, n int) ([]Firing, error)
	// OpenFirings returns the firings whose runs are open, oldest first.
	OpenFirings(ctx context.Context, schedule string) ([]Firing, error)
}

// Schedule is a stored schedule.
type Schedule struct {
	run.ScheduleSpec // Spec is nil in lists
	RunName          string
	Group            string
	SecretsBy        string // gave the values of the secrets; "" if that is unknown
	Version          int64
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// Firing is a stored firing of a schedule.
type Firing struct {
	// Key is the execution of the workflow that creates the run.
	Key string
	run.Firing
}
