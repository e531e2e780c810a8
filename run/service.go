package run

import (
	"context"
	"io"
	"iter"
	"time"
)

// Service is what clients may ask of Drover. Implementations are safe for
// concurrent use. Errors carry the codes named at each call, and
// CodeUnavailable where the records store is out of reach.
type Service interface {
	ExecutorRegistry
	// Create validates the specification, stores the run and starts it; the
	// run goes on by itself from the moment Create returns, whatever process
	// dies. Errors: invalid with all faults, not_supported,
	// changegroup_conflict, changegroup_busy, and idempotency_mismatch (the
	// key was used with another request).
	Create(ctx context.Context, req CreateRequest) (Run, error)
	// Get returns a run with its tasks, steps and the reasons for waiting, and
	// the update token of the change groups named, from one snapshot. Errors:
	// not_found.
	Get(ctx context.Context, id ID, tokenFor ...string) (Run, error)
	// List returns one page of runs without their tasks. Errors: invalid.
	List(ctx context.Context, q ListQuery) (Page, error)
	// Start lets a queued run of manual admission start: it is running when
	// the call returns, unless it has to wait for its change groups. This and
	// the other calls that change something take an update token, nil for
	// none. Errors: not_found, wrong_phase, changegroup_busy,
	// changegroup_conflict; likewise below, where the last is not named again.
	Start(ctx context.Context, id ID, token Token) (Run, error)
	// Cancel ends a queued run for good. Errors: not_found, wrong_phase.
	Cancel(ctx context.Context, id ID, token Token) (Run, error)
	// Stop stops a running run: it returns at once, and the run is finished
	// when no task of it executes any more. Errors: not_found, wrong_phase.
	Stop(ctx context.Context, id ID, token Token) (Run, error)
	// Approve approves a waiting task on behalf of subject. Errors: not_found,
	// not_waiting_approval.
	Approve(ctx context.Context, id ID, task, subject string, token Token) (Run, error)
	// Annotate replaces the annotations of the run, or of the task where one
	// is named. Errors: not_found, invalid.
	Annotate(ctx context.Context, id ID, task string, annotations map[string]string, token Token) (Run, error)
	// Restart makes a new run of one that is final. Errors: not_found,
	// wrong_phase (it is not final, or there is nothing to restart), invalid,
	// and those of Create.
	Restart(ctx context.Context, req RestartRequest) (Run, error)
	// Delete removes a final run with its logs for good. Errors: not_found,
	// wrong_phase.
	Delete(ctx context.Context, id ID) error
	// DeleteRuns removes final runs, oldest first (with Keep, group by group),
	// and says how many; it stops at MaxDelete, and is to be called again then.
	// Errors: invalid.
	DeleteRuns(ctx context.Context, q DeleteQuery) (Deleted, error)
	// ChangeGroups returns change groups by name, and the update token of them
	// all, from one snapshot. Errors: invalid.
	ChangeGroups(ctx context.Context, q ChangeGroupQuery) ([]ChangeGroup, Token, error)
	// PutChangeGroup sets the limit and policy of a change group, and grants
	// the slots that there are more. It returns the group and its new token.
	// Errors: invalid.
	PutChangeGroup(ctx context.Context, g ChangeGroup, token Token) (ChangeGroup, Token, error)
	// Groups counts the open runs of groups and tells the last run of each.
	// Errors: invalid.
	Groups(ctx context.Context, q GroupQuery) (GroupPage, error)
	// Logs opens the log of a task. Errors: not_found (run, task, attempt),
	// invalid (a step or stream that there is not, a negative offset).
	Logs(ctx context.Context, q LogQuery) (LogReader, error)
	// EventFloor returns the greatest number whose event was removed, for
	// readers of a run's events, or of all where id is "". It is 0 where no
	// event that they would read was. Errors: not_found.
	EventFloor(ctx context.Context, id ID) (int64, error)
	// Events yields events from after q.After on, oldest first, and goes on
	// waiting for new ones until ctx ends. Errors: gone (what comes next was
	// removed).
	Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error]
	// Ready returns nil when the service can do its work, and else what it
	// lacks. Errors: unavailable.
	Ready(ctx context.Context) error
}

// CreateRequest asks for a new run.
type CreateRequest struct {
	Spec *Spec
	// Subject is who asks.
	Subject string
	Token   Token // nil for none
	// IdempotencyKey, where not "", makes Create return the run that an
	// equal request of the subject with this key made in the last
	// IdempotencyTime, instead of making another.
	IdempotencyKey string
}

// IdempotencyTime is how long an idempotency key is remembered.
const IdempotencyTime = 24 * time.Hour

// RestartFrom says what of a run is to run again.
type RestartFrom string

// Where to restart from.
const (
	RestartStart RestartFrom = "start" // all of it
	// RestartFailed is what failed or was stopped, with all that depends on
	// it; what succeeded otherwise is kept. Not for a run that succeeded.
	RestartFailed RestartFrom = "failed"
)

// RestartRequest asks for a new run of an old one. Exactly one of From and
// Tasks is set.
type RestartRequest struct {
	Run  ID
	From RestartFrom
	// Tasks are to run again, with all that depend on them; all others keep
	// how they ended. An expansion may be named whole.
	Tasks []string
	// Environment and Secrets are laid over those of the old run.
	Environment map[string]string
	Secrets     map[string]Secret

	Subject        string
	Token          Token
	IdempotencyKey string
}

// MaxDelete is how many runs one call of DeleteRuns removes at most.
const MaxDelete = 1000

// DeleteQuery selects final runs to delete: all conditions that are set hold.
// At least one of Before and Keep must be set.
type DeleteQuery struct {
	Group  string    // this path and below; "" means all
	Before time.Time // created before
	// Keep spares the newest runs of each group (of each exact path), as many
	// as it says; 0 means none are spared for that.
	Keep int
	// DryRun only counts.
	DryRun bool
	// Pace, where it is not nil, is called before each deletion. Its error ends
	// the call, which returns what was done until then.
	Pace func(ctx context.Context) error
}

// Deleted says what DeleteRuns did.
type Deleted struct {
	Runs int
	More bool // there are more to delete
}

// GroupQuery selects groups: those of Paths, each counted with all below it,
// or else every exact path that has runs at Under or below it, by path.
type GroupQuery struct {
	Paths []string
	Under string // without Paths; "" means all
	After string // without Paths: greater paths
	Limit int    // without Paths: 1 to 100; 0 means 25
}

// Group is how the runs of a group stand.
type Group struct {
	Path    string
	Queued  int
	Running int
	Last    *Run // the newest, without tasks; nil where there is none
}

// GroupPage is one page of groups. After is for the next query, "" at the end.
type GroupPage struct {
	Groups []Group
	After  string
}

// ListQuery selects runs: values of one field are alternatives, fields must
// all match. The zero value selects the newest runs.
type ListQuery struct {
	Phases        []Phase
	Results       []Result
	Groups        []string // the path itself or anything below it
	ChangeGroups  []string
	Annotations   []Annotation
	CreatedAfter  time.Time
	CreatedBefore time.Time
	Limit         int    // 1 to 100; 0 means 25
	Cursor        string // from a page's Next or Prev
	Ascending     bool   // oldest first
	// TokenFor names the change groups of the page's token.
	TokenFor []string
}

// Annotation is one key and value.
type Annotation struct{ Key, Value string }

// Page is one page of runs. A cursor is "" where there is nothing more in its
// direction.
type Page struct {
	Runs []Run
	Next string
	Prev string
	// Token is of the same snapshot as the runs; nil where no groups were named.
	Token Token
}

// LogQuery selects a log.
type LogQuery struct {
	Run     ID
	Task    string
	Attempt int      // 0 means the newest
	Step    *int     // from 0; SetupStep; nil means all of the task in order
	Streams []Stream // nil means all
	Offset  int64    // in bytes of what is selected
	// Since and Tail leave out what is older, and all but the last lines; where
	// both are set, what either leaves out. Not with Offset.
	Since  time.Time // zero: none is too old
	Tail   *int      // nil: all
	Follow bool      // go on until the step or task is final
}

// LogReader reads a log. Close must be called.
type LogReader interface {
	io.Closer
	// Offset returns where the log begins that is read: what follows is all of
	// it from there on, also for a reader that comes later with this offset.
	Offset() int64
	// Next returns the next chunk, waiting for it where the query follows,
	// and io.EOF at the end.
	Next(ctx context.Context) (LogChunk, error)
}

// LogChunk is a piece of a log.
type LogChunk struct {
	Offset int64 // of the first byte of Data in what the query selects
	Time   time.Time
	Step   int
	Stream Stream
	Data   []byte
}

// EventQuery selects events.
type EventQuery struct {
	After int64  // events with greater numbers
	Run   ID     // only of this run; "" means of all
	Group string // only of this group path and below; "" means of all
}

// Desk is what executors may ask of Drover: the door of the gateway that is
// theirs. Implementations are safe for concurrent use. Every call fails with
// forbidden once the executor was removed, and none with it for another reason.
type Desk interface {
	ArchiveDesk
	// Register announces an executor, or its return, and tells what is wanted
	// of it. Errors: conflict when the id belongs to another journal that is
	// still renewed, forbidden when the id was removed, invalid when it does
	// not fit its pool.
	Register(ctx context.Context, e Executor) (Wanted, error)
	// Renew says that the executor is alive and what it holds, and tells what
	// is wanted of it. It fails like Register, and with not_found when it must
	// register again.
	Renew(ctx context.Context, r Renewal) (Wanted, error)
	// Claim gives the definition of a key to one executor only, whatever
	// Temporal does. A repeated claim by the same executor and journal gets
	// it again. Errors: conflict (another has it, or the claim is closed, or
	// the key is not the newest dispatch of its task, or the executor is too old
	// for it), not_found (also where the request does not allow the claim).
	Claim(ctx context.Context, c ClaimRequest) (Definition, error)
	// Ship stores frames: they are idempotent by their number, and must be
	// sent in order without gaps. Errors: conflict (the claim is not this
	// executor's), not_found.
	Ship(ctx context.Context, b FrameBatch) error
	// ClaimStates tells for each key whether the executor's claim of it is
	// still open. A key that another executor claimed is unknown to it, or void.
	ClaimStates(ctx context.Context, executor string, keys []Key) (map[Key]ClaimState, error)
}

// Renewal is a sign of life.
type Renewal struct {
	Executor  string
	Set       string // that it is a member of; "" for none. Likewise below
	JournalID string
	SlotsUsed int
	Draining  bool // it takes no tasks
	// Drained says that it drains and that nothing is left: no task, and no
	// poll that might still bring one.
	Drained bool
	// Expiring asks whether the executor's token may be replaced: see Wanted.Gone.
	Expiring bool
}

// Wanted is what an executor is to do.
type Wanted struct {
	// Drain: take no tasks, and finish those that run. It holds until it is
	// no longer told.
	Drain bool
	// Fleet and Instance say which machine of which fleet the executor is, as a
	// renewal is answered; "" for none.
	Fleet, Instance string
	// Gone answers Renewal.Expiring: the fleet has that instance no more, or is
	// deleting it, so that the executor gets no new token.
	Gone bool
}

// ClaimRequest asks for the definition of a key.
type ClaimRequest struct {
	Key       Key
	Executor  string
	Set       string
	JournalID string
	// Knows is the newest version of an order (see OrderVersion) that the
	// executor knows; 0 where it does not say.
	Knows int
	// Ticket proves that the key was handed to the executor, to a gateway that
	// does not believe the executor itself.
	Ticket string
	// Pool, where not "", is the only pool whose tasks the executor may claim.
	Pool string
	// Repeat allows no claim but one that the executor has already: nobody says
	// that the key was handed to it.
	Repeat bool
}

// ClaimState is how a claim stands.
type ClaimState string

// The states of a claim.
const (
	ClaimUnknown ClaimState = "unknown" // never claimed by this executor
	ClaimOpen    ClaimState = "open"
	ClaimClosed  ClaimState = "closed" // the task is final, or queued again: the environment may go
	// ClaimVoid: never claimed by this executor, and it can not be any more,
	// since the task, of the executor's pool, is final or queued again.
	ClaimVoid ClaimState = "void"
)

// FrameBatch is a run of frames with dense numbers. The bounds of a batch stay
// the same over retries.
type FrameBatch struct {
	Key      Key     `json:"key"`
	Executor string  `json:"executor"`
	Set      string  `json:"set,omitempty"`
	Frames   []Frame `json:"frames"`
	// Stored is how many bytes it takes in the blob store, once it is there.
	Stored int64 `json:"-"`
	// Budget is what the log of the dispatch may cost from its first batch on, by
	// LogCost; 0: no bound. Later batches go by what is left of it.
	Budget int64 `json:"-"`
}
