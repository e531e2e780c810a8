// Package records is the store of definitions, state, claims and events: the
// truth that clients read and that workflows write. Packages sqlite and
// postgres implement Store; package recordstest says what any Store must do.
//
// Every method is one transaction. Every change of a run or task appends its
// events, and every change that a workflow must learn of appends an outbox row,
// in the same transaction.
package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Store is all of the records. Methods are safe for concurrent use, also by
// several processes on one database. Errors carry run codes; a database out of
// reach is CodeUnavailable.
type Store interface {
	Secrets
	Runs
	Progress
	ChangeGroups
	Executors
	Registry
	Outbox
	Events
	EventFloor
	Garbage
	Packing
	Archives
	Logs
	Due
	Webhooks
	Schedules
	Fleets
	Ledger

	// Check returns nil when the database answers and its schema is current.
	Check(ctx context.Context) error
	Close() error
}

// Runs is what the engine needs for clients' calls.
type Runs interface {
	// CreateRun stores a run with all its tasks as not_started (skipped where
	// the plan says so stays for the workflow to say), phase queued, or
	// setup_error where the specification has setup errors. It makes the id,
	// whose time is taken inside the transaction, and the counter. Ids and
	// counters of one group root are in the same order. It appends an outbox
	// row of OutboxStart, except for setup_error. What it returns is what
	// GetRun would. A run of change groups takes its place in them: where it
	// may begin it holds its slots from then on, else it waits, after what
	// on_busy says was done. An idempotency key that is known is looked at
	// before anything else; the run that it made is returned. Errors: conflict,
	// changegroup_conflict, changegroup_busy, idempotency_mismatch, unavailable
	// (frames of a task that is kept have not arrived yet).
	CreateRun(ctx context.Context, r NewRun) (run.Run, error)
	// RestartSource returns what a new run is made of from an old one: its
	// specification with the secrets, and its tasks. Errors: not_found.
	RestartSource(ctx context.Context, id run.ID) (*run.Spec, run.Run, error)
	// DeleteRun removes a final run and everything of it; its logs' bytes are
	// left to Garbage. Errors: not_found, wrong_phase.
	DeleteRun(ctx context.Context, id run.ID) error
	// DeleteRuns: see run.Service. It may take several transactions.
	DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error)
	// Groups: see run.Service.
	Groups(ctx context.Context, q run.GroupQuery) (run.GroupPage, error)
	// GetRun returns a run with its tasks, from one snapshot. Reasons are as
	// stored; the engine adds those that are computed. Errors: not_found.
	GetRun(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error)
	// GetSummary returns a run as lists have it, without tasks. Errors: not_found.
	GetSummary(ctx context.Context, id run.ID) (run.Run, error)
	// GetTask returns one task without loading the rest of its run. Errors:
	// not_found (the run, or the task).
	GetTask(ctx context.Context, id run.ID, name string) (run.Task, error)
	// ListRuns returns a page without tasks. Annotations of one key are
	// alternatives, those of several keys must all match; the bounds of the
	// time of creation are not included. A cursor belongs to its query: only
	// the limit, and the groups of the token, may change between pages. The
	// token is of the same snapshot. Errors: invalid (a bad cursor).
	ListRuns(ctx context.Context, q run.ListQuery) (run.Page, error)
	// StartRun, CancelRun and StopRun check the phase, write what the call
	// means and append an outbox row, together. StartRun is for a queued run
	// of manual admission and marks it admitted; CancelRun makes a queued run
	// cancelled and its tasks with it; StopRun marks a running run as stop
	// wanted. To start or stop again is no error and tells nobody again, as
	// long as the phase is still right. A started run is running at once where
	// its change groups let it. These and the calls that follow check the
	// token, and change the versions of its groups and of those of the run.
	// Errors: not_found, wrong_phase, changegroup_conflict, and
	// changegroup_busy (StartRun).
	StartRun(ctx context.Context, id run.ID, token run.Token) error
	CancelRun(ctx context.Context, id run.ID, token run.Token) error
	StopRun(ctx context.Context, id run.ID, token run.Token) error
	// ApproveTask records an approval by subject; when the task has as many
	// as it needs, it appends an outbox row of OutboxApprove. Errors:
	// not_found, not_waiting_approval (also when this subject has approved,
	// or when the task has all approvals that it needs).
	ApproveTask(ctx context.Context, id run.ID, task, subject string, token run.Token) error
	// Annotate replaces the annotations of the run, or of the task if named.
	Annotate(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) error
	// Batches lists what log batches of a task are stored, in order, those with
	// frames after a place. A batch that has gone since was packed with others:
	// ask again. A task that has none yields an empty list. attempt 0 means the newest that was
	// queued. Errors: not_found (for attempt 0: the run, or the task).
	Batches(ctx context.Context, id run.ID, task, attempt int, after BatchRef) ([]Batch, error)
	// CloseLost closes a run whose workflow ended from outside (terminated,
	// reset, timed out): unfinished tasks become failed, or skipped if they
	// never started, the run finished with result failed, all with the
	// reason, and what is in the outbox for it is dropped. It changes nothing
	// in a final run. Errors: not_found.
	CloseLost(ctx context.Context, id run.ID, reason string) error
	// OpenRuns returns the ids of up to n runs in phase queued or running, those
	// of which the outbox has something to tell left out: their workflows were
	// started. They are greater than after, and in order.
	OpenRuns(ctx context.Context, after run.ID, n int) ([]run.ID, error)
	// Stats counts for the metrics: runs by phase is of open phases only.
	Stats(ctx context.Context) (Stats, error)
}

// Stats are figures for the metrics.
type Stats struct {
	OpenRuns  map[run.Phase]int
	OpenTasks map[run.Status]int // of open runs
	Outbox    int
	// OldestOutbox is the age of the oldest row that is not delivered.
	OldestOutbox time.Duration
}

// NewRun is a run to be stored. Nothing in it has been checked by the store.
type NewRun struct {
	Spec *run.Spec // secrets are stored apart from the rest, never in the clear elsewhere
	Plan run.Plan
	// Tasks in the order of their numbers.
	Tasks []run.ExpandedTask
	Time  time.Time // zero: the store's clock; for tests

	Token          run.Token // nil for none
	IdempotencyKey IdempotencyKey
	Restart        *Restart // nil unless it is made of an old run
}

// IdempotencyKey makes a creation happen once; the zero value is none.
type IdempotencyKey struct {
	Subject string // who uses it: keys of different subjects have nothing in common
	Key     string
	Digest  string // of the request; another one for the same key is refused
}

// Restart says of what a new run is made.
type Restart struct {
	From run.ID
	// Kept maps the numbers of tasks that keep how they ended, with their logs
	// and outputs, to their numbers in the old run.
	Kept map[int]int
}

// Progress is what the run workflow reads and writes through its activities.
type Progress interface {
	// LoadPlan returns page n (from 0) of a run's plan, each at most 64 KiB
	// as JSON, and whether more pages follow; run.MergePlans puts them
	// together. Errors: not_found.
	LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error)
	// Begin makes a queued run running, if it is admitted (auto, or started),
	// and returns how it stands. On a run that began before it changes nothing.
	Begin(ctx context.Context, id run.ID) (Standing, error)
	// Apply writes what the workflow decided. Changes of tasks that are
	// final, or that are of an earlier attempt or dispatch than what is
	// stored, are left out, and so is any change of a final run. A change to
	// queued does not undo a claim: it is left out too while the same dispatch
	// is running. What stands in the end is returned for each of the tasks
	// named, in order. What changes nothing makes neither a version nor an
	// event. A dispatch that is new to the task forgets the executor, the
	// start, the steps and the outputs of the one before. Steps that were
	// running when the task ended, and of which its result says nothing, end
	// with it. Errors: not_found (the run, or a task), conflict (Finish);
	// nothing is written then.
	Apply(ctx context.Context, id run.ID, c Changes) (Standing, []TaskStanding, error)
	// Expand makes the tasks that a task with a foreach stands for, and says
	// which they are; again once they are there. All are not_started: what
	// becomes of them, and of the task itself, is for the workflow to write.
	// Where the list is none, Expanded says why and nothing is written. Errors:
	// not_found (the run, or the task), conflict (the run is final),
	// unavailable (the list may still come).
	Expand(ctx context.Context, id run.ID, task int) (Expanded, error)
	// Holders returns the executor of each open claim: that of the newest
	// dispatch of a task that is not final.
	Holders(ctx context.Context, id run.ID) (map[int]Holder, error)
}

// Expanded has the tasks that were made of a list: Width of them with
// consecutive numbers from First. Else Fault says why there are none.
type Expanded struct {
	First int
	Width int
	Fault string
}

// Holder says who has a task.
type Holder struct {
	Key      run.Key
	Executor string
	Set      string // of the executor; "" for none
}

// Standing is how a run stands.
type Standing struct {
	Phase      run.Phase
	Result     run.Result
	StopWanted bool
	// Approved has the numbers of the tasks with enough approvals.
	Approved []int
}

// Changes are what a workflow writes in one transaction.
type Changes struct {
	Tasks []TaskChange
	// Result and Reason of the run; "" leaves them.
	Result run.Result
	Reason string
	// Finish makes the run finished, with Result. It is refused with
	// CodeConflict while a task is not final.
	Finish bool
}

// TaskChange sets the state of one task.
type TaskChange struct {
	Task     int
	Attempt  int
	Dispatch int
	Status   run.Status
	Reason   string
	// Result, where the task ended: its steps, times and exit code.
	Result *run.TaskResult
	// Executor is who has a task that runs, as far as the workflow knows; who
	// claimed it is not replaced. Without a reason, that of a task that runs
	// stays.
	Executor string
	// IfUnclaimed leaves the change out where an executor has claimed the
	// task, that is where it is running: so a queued task is withdrawn without
	// a race. From then on claims of it are refused, since it is final. A change
	// that queues another dispatch of the same attempt is left out where the
	// newest dispatch is claimed, unless Released names that claim's journal: so
	// the steps of an attempt start at most once.
	IfUnclaimed bool
	Released    Release
}

// Release says who vouches that no step of a dispatch ran or will run. Without
// a JournalID it is the executor, or the set, that was asked about its claim.
type Release struct {
	Executor  string
	Set       string
	JournalID string
}

// TaskStanding is how one task stands.
type TaskStanding struct {
	Task     int
	Attempt  int
	Dispatch int
	Status   run.Status
}

// ChangeGroups is the truth about change groups: a run holds a slot from the
// transaction that lets it begin to the one that makes it final. Slots are
// given by priority, then first come; all groups of a run together or none.
// Nobody overtakes: a run is let in only if, in each of its groups that has a
// limit, the runs before it and those that hold leave a slot for it.
type ChangeGroups interface {
	// ChangeGroups and PutChangeGroup: see run.Service.
	ChangeGroups(ctx context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error)
	PutChangeGroup(ctx context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error)
	// Grant gives free slots of a group to runs that wait: it makes them
	// running and tells their workflows by the outbox. more says that it may
	// be called again at once with effect. Errors: none for an unknown group.
	Grant(ctx context.Context, name string) (granted []run.ID, more bool, err error)
	// Waits says for each change group with a limit of a queued run what it
	// waits for there, from one snapshot. Errors: not_found.
	Waits(ctx context.Context, id run.ID) ([]GroupWait, error)
	// Places returns the place in line, from 1, of tasks of a run that are
	// queued, by their numbers: in their pool, by priority and then by the
	// time since when they are queued.
	Places(ctx context.Context, id run.ID) (map[int]int, error)
}

// GroupWait is how a run stands in one change group that it waits for.
type GroupWait struct {
	Group      string
	MaxRunning int
	Holding    int      // runs that hold a slot
	Holders    []run.ID // the first few of them
	Place      int      // in line, from 1
}

// Garbage is what deleted runs and packed logs left in the blob store.
type Garbage interface {
	// TakeGarbage returns up to n pieces of logs that no run names any more, by
	// the key under which their bytes lie. It does not lease them: to remove
	// bytes twice is harmless.
	TakeGarbage(ctx context.Context, n int) ([]GarbageBatch, error)
	// GarbageWake is signalled (coalesced) when this process has deleted runs,
	// or packed logs.
	// All callers get the same channel: one of them should read.
	GarbageWake() <-chan struct{}
	// DoneGarbage forgets those whose bytes are removed.
	DoneGarbage(ctx context.Context, done []GarbageBatch) error
}

// GarbageBatch is a stored batch of frames, or a packed log, to be removed.
type GarbageBatch struct {
	Key run.Key
	// Frame is the first one of a batch, the last one of a packed log.
	Frame  int64
	Packed bool
}

// Packing says which logs are to be packed: those of dispatches that have sent
// their last frame, or whose executor was removed.
type Packing interface {
	// TakePacking leases up to n logs that are due to the caller for the lease
	// time; one that is not switched by then is handed out again. Whoever has
	// it may write the object of Packing.Last until the lease ends, and no
	// later: it is known from this call on, and removed where another is
	// written instead.
	TakePacking(ctx context.Context, n int, lease time.Duration) ([]PackingLog, error)
	// SwitchPacked puts a packed log, whose object takes so many bytes, in the
	// place of its batches, for all runs that name them; what it replaces is
	// left to Garbage. Errors: conflict (the log was expired, its run deleted,
	// or it is packed otherwise by now: the object is known to be garbage).
	SwitchPacked(ctx context.Context, p PackingLog, bytes int64) error
	// PackStale makes the logs due of dispatches that ended before, or were
	// followed by another, without having sent their last frame, and returns
	// how many.
	PackStale(ctx context.Context, before time.Time) (int, error)
	// PackingWake is signalled (coalesced) when this process has made logs due.
	// All callers get the same channel: one of them should read.
	PackingWake() <-chan struct{}
}

// Logs removes logs that have expired.
type Logs interface {
	// ExpireLogs removes the logs of up to n runs that ended before a time, the
	// oldest first, each in a transaction of its own; also from the tasks of
	// other runs that keep them. Fewer than n say that there are no more.
	ExpireLogs(ctx context.Context, before time.Time, n int) (ExpiredLogs, error)
}

// ExpiredLogs is of how many runs logs were removed, and what they took.
type ExpiredLogs struct {
	Runs  int
	Bytes int64
}

// PackingLog is a log to be packed.
type PackingLog struct {
	Key     run.Key
	Batches []Batch // all of it, in order
	Last    int64   // frame of the last of them
}

// Executors is what the desk needs. These calls, and those of Archives on behalf
// of an executor, fail with forbidden once the executor was removed: nothing is
// written for it after the removal.
type Executors interface {
	// RegisterExecutor and RenewExecutor: see run.Desk. Registering makes the
	// executor's pool if no executor or operator has made it yet; an executor
	// whose driver, os or arch contradict its pool is refused with
	// CodeInvalid. Fleet and Instance are what the executor's token proves, or "":
	// an executor that is an instance of a fleet stays that instance. Errors:
	// conflict (it is another instance, or for another pool), invalid (its labels
	// name a fleet of its pool to which it does not belong).
	RegisterExecutor(ctx context.Context, e run.Executor) (run.Wanted, error)
	// RenewExecutor also answers not_found to a process whose journal is not
	// the one that is registered, once the other is silent: it may register.
	RenewExecutor(ctx context.Context, r run.Renewal) (run.Wanted, error)
	// Claim: see run.Desk. It sets the task running, its executor and start. A
	// key that is newer than what is stored is accepted: the workflow may not
	// have written it yet. Refused with conflict are keys of a run that is not
	// running, or whose stop is wanted (but for a claim that is repeated), of
	// a final task, of an earlier dispatch, and any new one where the executor
	// is to drain; not_found answers for what the request does not allow.
	// Repeated it changes nothing but
	// for the reason of a task whose executor was out of contact: it is cleared.
	Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error)
	// ClaimStates: see run.Desk. A claim is open while its task is not final and
	// was not queued again. Of keys that it has not claimed an executor learns
	// only whether they are void, and that in its own pool.
	ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error)
	// CheckFrames returns what ApplyFrames would refuse a batch for, before its
	// bytes are written, and whether the batch is known: it needs not be stored
	// again.
	CheckFrames(ctx context.Context, b run.FrameBatch) (known bool, err error)
	// ApplyFrames records that a batch is stored, and the states of steps and
	// outputs that its frames tell, if the key is the task's newest dispatch
	// and the task is not final. They show that its executor is in contact, so
	// the reason of a task that runs is cleared. A batch that is known changes
	// nothing; frames of outputs add up. Errors: not_found (no claim), conflict (another's
	// claim), invalid (frames are left out, or come in other bounds than
	// before), too_large (the log is over its budget, or the outputs over their
	// limit).
	ApplyFrames(ctx context.Context, b run.FrameBatch) error
}

// Registry is what clients and workflows need about executors and pools.
type Registry interface {
	// ListExecutors returns those that are not removed, by id, and GetExecutor
	// any, with what it holds. Errors: not_found.
	ListExecutors(ctx context.Context) ([]run.Executor, error)
	GetExecutor(ctx context.Context, id string) (run.Executor, error)
	// DrainExecutor notes whether an executor is to take no tasks, and why, and
	// tells its workflow. Errors: not_found, gone (it was removed).
	DrainExecutor(ctx context.Context, id string, drain bool, reason string) (run.Executor, error)
	// RemoveExecutor: see run.ExecutorRegistry. It appends an outbox row of
	// OutboxExecutorRemoved for each run that has a task with it, unless its
	// set has other members, and tells its workflow. It returns the executor
	// with what it had.
	RemoveExecutor(ctx context.Context, id string, why run.Removal) (run.Executor, error)
	// ExpireExecutor removes a temporary executor that was offline for its
	// time, but not the last one of a set that has tasks, nor at the first look:
	// for another ExecutorTimeout it may show that the clock had jumped. again is when to look
	// next, 0 where that can wait until something is told. Errors: not_found.
	ExpireExecutor(ctx context.Context, id string) (_ run.Executor, again time.Duration, _ error)
	// LostExecutors returns which of the executors were removed, with the
	// reason, and have left nobody who could go on with their tasks.
	LostExecutors(ctx context.Context, ids []string) (map[string]string, error)
	// ListPools returns all pools, by name, and GetPool one. Errors: not_found.
	ListPools(ctx context.Context) ([]run.Pool, error)
	GetPool(ctx context.Context, name string) (run.Pool, error)
	// PutPool and DeletePool: see run.ExecutorRegistry. A default takes the place of
	// the one of its kind.
	PutPool(ctx context.Context, p run.Pool) (_ run.Pool, created bool, _ error)
	DeletePool(ctx context.Context, name string) error
}

// Batch is a stored batch of frames; its bytes lie in the blob store.
type Batch struct {
	Key run.Key
	// Source is the key under which the bytes lie: another run's for a task
	// that was kept at a restart.
	Source run.Key
	First  int64 // frame number; likewise Last
	Last   int64
	// End says that it holds the task_end frame of its key.
	End bool
	// Packed says that it stands for all batches from the first frame to Last,
	// in one object.
	Packed bool
	Bytes  int64 // of the object, as it is stored; 0: not known
	// Outline of a batch that is not packed; nil: not known.
	Outline *run.LogOutline
}

// BatchRef is a place in a task's list of batches, that after frame Last; the
// zero value is its start.
type BatchRef struct {
	Key  run.Key
	Last int64
}

// OutboxKind says what must be done for an outbox row.
type OutboxKind string

// The kinds of outbox row. Delivering any of them twice is harmless.
const (
	OutboxStart   OutboxKind = "start"   // start the run's workflow
	OutboxAdmit   OutboxKind = "admit"   // tell it that it may start
	OutboxStop    OutboxKind = "stop"    // tell it to stop
	OutboxCancel  OutboxKind = "cancel"  // tell it that it was cancelled
	OutboxApprove OutboxKind = "approve" // tell it that Task was approved
	OutboxGrant   OutboxKind = "grant"   // tell the workflow of ChangeGroup that a slot may be free
	OutboxWebhook OutboxKind = "webhook" // tell the workflow of Webhook that it was made, changed or deleted
	// OutboxExecutor tells the workflow of Executor that it registered, or that
	// a client wants something of it.
	OutboxExecutor OutboxKind = "executor"
	// OutboxFleet tells the workflow of Fleet that a client made or changed it.
	OutboxFleet OutboxKind = "fleet"
	// OutboxExecutorRemoved tells a run that Executor, which had a task of it,
	// was removed for Reason.
	OutboxExecutorRemoved OutboxKind = "executor_removed"
)

// OutboxRow is one thing to tell.
type OutboxRow struct {
	ID  int64
	Run run.ID // "" for OutboxGrant, OutboxWebhook, OutboxExecutor and OutboxFleet
	// ChangeGroup of OutboxGrant.
	ChangeGroup string
	Webhook     string // of OutboxWebhook
	Executor    string // of OutboxExecutor and OutboxExecutorRemoved
	Fleet       string // of OutboxFleet
	Reason      string // of OutboxExecutorRemoved
	Kind        OutboxKind
	Task        int // of OutboxApprove
	Attempts    int
	Created     time.Time
}

// Outbox hands out what is to be delivered.
type Outbox interface {
	// TakeOutbox leases up to n rows that are due to the caller for the lease
	// time, those that are due longest; a row not done by then is handed out
	// again. Rows of one run are handed out in order, the next not before the
	// one before it is done. Attempts counts the times a row was handed out.
	TakeOutbox(ctx context.Context, n int, lease time.Duration) ([]OutboxRow, error)
	// DoneOutbox removes a delivered row. Again is no error.
	DoneOutbox(ctx context.Context, id int64) error
	// RetryOutbox gives a row back, due after delay.
	RetryOutbox(ctx context.Context, id int64, delay time.Duration) error
	// OutboxWake is signalled (coalesced) when this process, or another on
	// the same database, has appended outbox rows, and when the next row of a
	// run may be taken. It is not signalled when a retry becomes due or a
	// lease ends. All callers get the same channel: one of them should read.
	OutboxWake() <-chan struct{}
}

// Events gives out what happened.
type Events interface {
	// ReadEvents returns up to n events with numbers greater than q.After.
	// Errors: gone (some of them were removed).
	ReadEvents(ctx context.Context, q run.EventQuery, n int) ([]run.Event, error)
	// LastEvent returns the greatest number given, 0 if none.
	LastEvent(ctx context.Context) (int64, error)
	// Watch returns a channel that is signalled (coalesced) after every
	// commit that changed the run, or any run where id is "": its state, its
	// events or its stored log batches. stop ends it. Across processes the
	// signal comes within 250 ms.
	Watch(id run.ID) (signal <-chan struct{}, stop func())
}
