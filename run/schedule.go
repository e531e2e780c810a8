package run

import (
	"context"
	"maps"
	"time"
)

// Schedules is the API for clients that manage schedules: specifications of
// runs with the times at which a run of each is created. Temporal keeps the
// schedules, and its documentation of schedules applies. Implementations are
// safe for concurrent use. All calls fail with CodeUnavailable if Temporal or
// the records store cannot be reached.
type Schedules interface {
	// Schedules returns one page of schedules by name, without specifications
	// and firings.
	Schedules(ctx context.Context, q ScheduleQuery) (SchedulePage, error)
	// Schedule returns one schedule with all details. Errors: not_found.
	Schedule(ctx context.Context, name string) (Schedule, error)
	// ScheduleGroup returns the group of the runs of a schedule. Errors: not_found.
	ScheduleGroup(ctx context.Context, name string) (string, error)
	// PutSchedule creates a schedule, or replaces the schedule of that name,
	// and reports whether it is new. A replaced schedule keeps its secrets if
	// the specification has none: for the subject that gave them, or if nothing
	// else of the specification changes. Errors: invalid with all faults,
	// not_supported.
	PutSchedule(ctx context.Context, s ScheduleSpec, subject string) (_ Schedule, created bool, _ error)
	// DeleteSchedule deletes a schedule permanently. Its runs continue. Errors:
	// not_found.
	DeleteSchedule(ctx context.Context, name string) error
	// PauseSchedule stops the firings of a schedule, and ResumeSchedule resumes
	// them; the note says why. Repeating a call is no error. Errors: not_found,
	// invalid (the note).
	PauseSchedule(ctx context.Context, name, note string) (Schedule, error)
	ResumeSchedule(ctx context.Context, name, note string) (Schedule, error)
	// TriggerSchedule fires a schedule now, paused or not; if overlap is "",
	// the schedule's own policy applies. Errors: not_found, invalid.
	TriggerSchedule(ctx context.Context, name string, overlap Overlap) (Schedule, error)
	// BackfillSchedule fires a schedule for all its times in a past span of
	// time. Errors: not_found, invalid.
	BackfillSchedule(ctx context.Context, name string, b Backfill) (Schedule, error)
}

// Overlap is the policy for a firing while a run of the previous firing is
// open. The values are Temporal's.
type Overlap string

// The overlap policies.
const (
	OverlapSkip           Overlap = "skip"            // the firing is skipped; the default
	OverlapBufferOne      Overlap = "buffer_one"      // the firing waits for the end of the run; at most one waits
	OverlapBufferAll      Overlap = "buffer_all"      // likewise; any number waits
	OverlapCancelOther    Overlap = "cancel_other"    // the run is stopped, and the firing waits for its end
	OverlapTerminateOther Overlap = "terminate_other" // the run is stopped, and the firing is made at once
	OverlapAllowAll       Overlap = "allow_all"       // the firing is made at once
)

// Overlaps lists all overlap policies, the default first.
func Overlaps() []Overlap {
	return []Overlap{OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther, OverlapTerminateOther, OverlapAllowAll}
}

// The annotations of runs that a schedule created.
const (
	AnnotationSchedule     = "drover.schedule"      // the name of the schedule
	AnnotationScheduledFor = "drover.scheduled_for" // the time of the firing, RFC 3339
)

// ScheduleSpec is the specification of a schedule. Package spec reads it.
type ScheduleSpec struct {
	Name string `json:"name,omitempty"`
	// Spec is the specification of the runs. If its secrets are nil, those of
	// the existing schedule are kept.
	Spec *Spec `json:"spec"`
	// Cron and Intervals are the times; both apply.
	Cron          []string   `json:"cron,omitempty"`
	Intervals     []Interval `json:"intervals,omitempty"`
	Timezone      string     `json:"timezone,omitempty"` // of cron; "" means UTC
	Jitter        Duration   `json:"jitter,omitempty"`   // the greatest random delay of a firing
	StartAt       time.Time  `json:"start_at,omitzero"`  // no firing before
	EndAt         time.Time  `json:"end_at,omitzero"`    // no firing after
	Overlap       Overlap    `json:"overlap,omitempty"`
	CatchupWindow Duration   `json:"catchup_window,omitempty"` // how late a firing may be after an outage; 0: a year
	// PauseOnFailure pauses it when a run of it fails.
	PauseOnFailure bool   `json:"pause_on_failure,omitempty"`
	Paused         *bool  `json:"paused,omitempty"` // nil leaves it unchanged; a new schedule is not paused
	Note           string `json:"note,omitempty"`   // for users; "" leaves it unchanged
}

// Interval is the set of times that are a multiple of Every since 1970, plus
// Offset.
type Interval struct {
	Every  Duration `json:"every"`
	Offset Duration `json:"offset,omitempty"`
}

// Schedule is a schedule as clients see it.
type Schedule struct {
	ScheduleSpec           // without secrets; Spec is nil in lists
	RunName       string   // of Spec
	Group         string   // likewise
	SecretNames   []string // nil in lists
	CreatedAt     time.Time
	UpdatedAt     time.Time
	Next          []time.Time // of the next firings, none while it is paused
	Fired         int         // number of firings; likewise below
	Overlapped    int         // firings skipped because of the overlap policy
	MissedCatchup int         // firings skipped because they were too late
	Recent        []Firing    // the last firings, newest first; nil in lists
}

// Firing is one firing of a schedule.
type Firing struct {
	For time.Time // the scheduled time
	At  time.Time // when its run was created
	Run ID        // "" if no run was created
	// Error says why no run was created.
	Error  string
	Phase  Phase // of the run; "" if the run was deleted
	Result Result
}

// Backfill is a span of time, bounds included, for which firings are requested.
type Backfill struct {
	From, To time.Time
	Overlap  Overlap // "" is the schedule's own
}

// ScheduleQuery selects schedules.
type ScheduleQuery struct {
	After  string   // schedules with greater names
	Limit  int      // 1 to 100; 0 means 25
	Within []string // only those whose runs have one of these groups, or one below; none means no such limit
}

// SchedulePage is one page of schedules. After is for the next query; it is ""
// on the last page.
type SchedulePage struct {
	Schedules []Schedule
	After     string
}

// Limits of schedules.
const (
	MaxScheduleTimes = 100 // cron expressions and intervals
	MaxCronLength    = 500
	MaxNoteLength    = 1000
	MinInterval      = time.Second      // Temporal's clock for schedules
	MinCatchupWindow = 10 * time.Second // likewise
	MaxFirings       = 100              // stored of a schedule
)

// ScheduledSpec returns the specification of the run that a schedule creates
// for a time.
func (s ScheduleSpec) ScheduledSpec(at time.Time) *Spec {
	scheduled := *s.Spec
	scheduled.Annotations = maps.Clone(s.Spec.Annotations)
	if scheduled.Annotations == nil {
		scheduled.Annotations = make(map[string]string)
	}
	scheduled.Annotations[AnnotationSchedule] = s.Name
	scheduled.Annotations[AnnotationScheduledFor] = at.UTC().Format(time.RFC3339)
	return &scheduled
}
