// Package records is the store of definitions, state, claims and events: the
// authoritative state that clients read and workflows write. Packages sqlite
// and postgres implement Store. Package recordstest tests any Store.
//
// Every method is one transaction, unless it says otherwise. Every change of a run or task appends its
// events in the same transaction, and every change that a workflow must learn
// of appends an outbox row.
package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Store holds all records. Methods are safe for concurrent use, also by several
// processes on one database. Errors carry run codes; an unreachable database is
// CodeUnavailable.
type Store interface {
	Secrets
	Runs
	Progress
	ChangeGroups
	Approving
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
	Sessions
	Tokens
	BrowserSessions
	RoleGrants
	Audit
	Forgetting

	// Check returns nil if the database answers and its schema is current.
	Check(ctx context.Context) error
	Close() error
}

// Runs holds the calls that the engine needs for clients.
type Runs interface {
	// CreateRun stores a run with all its tasks as not_started, in phase
	// queued, or setup_error if the specification has setup errors. Tasks that
	// the plan skips are not_started too; the workflow marks them as skipped.
	// CreateRun creates the id, whose time is taken inside the transaction, and
	// the counter. Ids and counters of one group root are in the same order. It
	// appends an outbox row of OutboxStart, except for setup_error. It returns
	// what GetRun would return.
	//
	// A run of change groups enters their queues. If it may begin, it holds its
	// slots from then on. Else it waits, after the on_busy policies of its
	// groups were applied. A known idempotency key is checked first, and the
	// run that it created is returned. Errors: conflict, changegroup_conflict,
	// changegroup_busy, idempotency_mismatch, unavailable (frames of a task
	// that is kept have not arrived yet).
	CreateRun(ctx context.Context, r NewRun) (run.Run, error)
	// RestartSource returns the specification of a run with its secrets, and
	// its tasks, to create a new run from. References to inputs are as they were
	// written, with the values of all inputs beside them. Errors: not_found.
	RestartSource(ctx context.Context, id run.ID) (Source, error)
	// RunSpec returns the specification of a run. Each secret has the placeholder
	// of package run instead of its value. References to inputs are as in
	// RestartSource. Errors: not_found.
	RunSpec(ctx context.Context, id run.ID) (*run.Spec, error)
	// DeleteRun removes a final run and all its rows. Garbage removes the bytes
	// of its logs. Errors: not_found, wrong_phase.
	DeleteRun(ctx context.Context, id run.ID) error
	// DeleteRuns: see run.Service. It may take several transactions.
	DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error)
	// Groups: see run.Service.
	Groups(ctx context.Context, q run.GroupQuery) (run.GroupPage, error)
	// GetRun returns a run with its tasks, from one snapshot. It returns the
	// stored reasons; the engine adds the computed ones. Errors: not_found.
	GetRun(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error)
	// GetSummary returns a run without tasks, as in lists. Errors: not_found.
	GetSummary(ctx context.Context, id run.ID) (run.Run, error)
	// GetTask returns one task without loading the rest of its run. Errors:
	// not_found (the run, or the task).
	GetTask(ctx context.Context, id run.ID, name string) (run.Task, error)
	// ListRuns returns a page without tasks. Annotations of one key are
	// alternatives; all keys must match. The bounds of the creation time are
	// exclusive. A cursor belongs to its query: only the limit and the groups
	// of the token may change between pages. The token is of the same snapshot.
	// Errors: invalid (a bad cursor).
	ListRuns(ctx context.Context, q run.ListQuery) (run.Page, error)
	// StartRun, CancelRun and StopRun check the phase, write the change and
	// append an outbox row, in one transaction. StartRun marks a queued run of
	// manual admission as admitted; the run is running at once if its change
	// groups have free slots. CancelRun cancels a queued run and its tasks.
	// StopRun marks a running run as StopRequested. To start or stop again is
	// no error and appends no second row, as long as the phase is still right.
	// The actor of the context (run.WithActor) is recorded with the change.
	//
	// These calls and those that follow check the token, and bump the versions
	// of its groups and of the run's groups. Errors: not_found, wrong_phase,
	// changegroup_conflict, and changegroup_busy (StartRun).
	StartRun(ctx context.Context, id run.ID, token run.Token) error
	CancelRun(ctx context.Context, id run.ID, token run.Token) error
	StopRun(ctx context.Context, id run.ID, token run.Token) error
	// ForceStopRun is StopRun without the cleanup of the tasks. A run that is being
	// stopped may be stopped by force too; each call appends a row.
	ForceStopRun(ctx context.Context, id run.ID, token run.Token) error
	// EndRun is CancelRun for a queued run, and StopRun for a running one, or with
	// force ForceStopRun. It returns which it was: run.ActionCancel or
	// run.ActionStop.
	EndRun(ctx context.Context, id run.ID, token run.Token, force bool) (run.ActionKind, error)
	// ApproveTask records an approval by subject. When the task has as many as
	// it needs, it appends an outbox row of OutboxApprove. Errors: not_found,
	// not_waiting_approval (also if this subject has approved, or if the task
	// has all approvals that it needs or was rejected), forbidden (the approval
	// of the task does not name the subject).
	ApproveTask(ctx context.Context, id run.ID, task, subject string, token run.Token) error
	// RejectTask makes a task failed that waits for approval, with the reason,
	// and appends an outbox row of OutboxApprove: the workflow then finds that the
	// task is final. Errors: not_found, not_waiting_approval, forbidden (as
	// ApproveTask).
	RejectTask(ctx context.Context, id run.ID, task, subject, reason string, token run.Token) error
	// Approvals: see run.Service.
	Approvals(ctx context.Context, q run.ApprovalQuery) (run.ApprovalPage, error)
	// Annotate replaces the annotations of the run, or of the task if one is
	// named.
	Annotate(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) error
	// Batches lists the stored log batches of a task, in order, that have
	// frames after the given position. A batch that is missing in a later call
	// was packed with others: list again. A task without batches yields an
	// empty list. attempt 0 means the newest that was queued. Errors: not_found
	// (for attempt 0: the run, or the task).
	Batches(ctx context.Context, id run.ID, task, attempt int, after BatchRef) ([]Batch, error)
	// CloseLost closes a run whose workflow was ended from outside (terminated,
	// reset, timed out), all with the reason. Unfinished tasks become failed,
	// or skipped if they never started. The run becomes finished with result
	// failed. The outbox rows of the run are deleted. CloseLost changes nothing
	// in a final run. Errors: not_found.
	CloseLost(ctx context.Context, id run.ID, reason string) error
	// OpenRuns returns the ids of up to n runs in phase queued or running,
	// without those that have outbox rows: the workflows of the rest were
	// started. The ids are greater than after, and in order.
	OpenRuns(ctx context.Context, after run.ID, n int) ([]run.ID, error)
	// Stats counts for the metrics. It counts runs by phase for open phases
	// only.
	Stats(ctx context.Context) (Stats, error)
}

// Stats are figures for the metrics.
type Stats struct {
	OpenRuns  map[run.Phase]int
	OpenTasks map[run.Status]int // of open runs
	Outbox    int
	// OldestOutbox is the age of the oldest outbox row.
	OldestOutbox time.Duration
}

// NewRun is a run to be stored. The store does not validate it.
type NewRun struct {
	Spec *run.Spec // secrets are stored in a table of their own, never in the clear elsewhere
	// Source is the specification with its references to inputs, from which a
	// restart with other values starts; nil if Spec never had any. Its secrets
	// and annotations are ignored.
	Source *run.Spec
	Plan   run.Plan
	// Tasks are in the order of their numbers.
	Tasks []run.ExpandedTask
	Time  time.Time // for tests; zero means the store's clock

	Actor string // who creates it
	// SecretsBy gave the values of its secrets: "" if that is unknown, or several
	// did.
	SecretsBy      string
	Token          run.Token // nil for none
	IdempotencyKey IdempotencyKey
	Restart        *Restart // nil unless it restarts an old run
}

// IdempotencyKey makes a creation happen once; the zero value is none.
type IdempotencyKey struct {
	Subject string // the client: keys of different subjects are independent
	Key     string
	Digest  string // of the request; the same key with another digest is refused
}

// Source is a run to be restarted.
type Source struct {
	Spec *run.Spec // with the values of its secrets
	// Ran is the specification as the tasks had it: with the references to inputs replaced, and
	// the images of pools. Its secrets are hidden.
	Ran *run.Spec
	// SecretsBy is who gave them; "" if that is not known.
	SecretsBy string
	Run       run.Run
}

// Restart names the run that a new run restarts.
type Restart struct {
	From run.ID
	// Kept maps the numbers of tasks that keep their end states, logs and
	// outputs to their numbers in the old run.
	Kept map[int]int
}

// Progress holds the calls of the run workflow's activities.
type Progress interface {
	// LoadPlan returns page n (from 0) of a run's plan, each at most 64 KiB as
	// JSON, and whether more pages follow. run.MergePlans joins them. Errors:
	// not_found.
	LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error)
	// Begin makes a queued run running, if it is admitted (auto, or started),
	// and returns its state. It changes nothing in a run that began before.
	Begin(ctx context.Context, id run.ID) (run.Progress, error)
	// Apply writes what the workflow decided. A change by which a task with
	// conditions would first be queued, or wait for approvals, evaluates them: the
	// task becomes skipped if its condition is false, and failed if a condition has
	// no value. The change is left out while outputs that a condition reads have not
	// arrived, and if the conditions of the call take too long: other writes wait for
	// them. Apply evaluates long ones in several transactions, so after an error some
	// changes may be written; a repeated call goes on. It leaves out changes of final
	// tasks, changes of an earlier attempt or dispatch than the stored one, and
	// all changes of a final run. A change to queued does not undo a claim: it
	// is left out too while the same dispatch is running. Apply returns the
	// resulting state of each task named, in order. A change without effect
	// creates neither a version nor an event. A new dispatch of a task clears
	// the executor, start, steps and outputs of the one before. When a task
	// ends, its running steps that the result does not mention end with it.
	// Errors: not_found (the run, or a task), conflict (Finish).
	Apply(ctx context.Context, id run.ID, c Changes) (run.Progress, []run.TaskStatus, error)
	// Expand creates the tasks that a task with a foreach stands for, and
	// returns them; it returns them again if they exist. All are not_started:
	// the workflow writes their later states and that of the task itself. If
	// the list is invalid, Expanded holds the reason and nothing is written.
	// Errors: not_found (the run, or the task), conflict (the run is final),
	// unavailable (the list may still arrive).
	Expand(ctx context.Context, id run.ID, task int) (Expanded, error)
	// Holders returns the executor of each open claim: the claim of the newest
	// dispatch of a task that is not final.
	Holders(ctx context.Context, id run.ID) (map[int]Holder, error)
}

// Expanded describes the tasks created from a list: Width of them with
// consecutive numbers from First; none if the list is empty. Else Fault is the
// reason why there are none, or Skipped is why the condition of the task skips it.
type Expanded struct {
	First   int
	Width   int
	Fault   string
	Skipped string
}

// Holder is the executor that has claimed a task.
type Holder struct {
	Key      run.Key
	Executor string
	Set      string // of the executor; "" if it belongs to no set
}

// Changes is what a workflow writes in one transaction.
type Changes struct {
	Tasks []run.TaskChange
	// Result and Reason of the run; "" keeps them.
	Result run.Result
	Reason string
	// Finish makes the run finished, with Result. It is refused with
	// CodeConflict while a task is not final.
	Finish bool
}

// ChangeGroups is the authority on change groups. A run holds a slot from the
// transaction that admits it to the one that makes it final. Slots are granted
// by priority, then first come; all groups of a run together or none. No run
// overtakes: a run is admitted only if, in each of its groups with a limit, the
// runs ahead of it and those that hold slots leave a slot for it.
type ChangeGroups interface {
	// ChangeGroups and PutChangeGroup: see run.Service.
	ChangeGroups(ctx context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error)
	PutChangeGroup(ctx context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error)
	// Grant grants free slots of a group: first to tasks that wait, then to waiting
	// runs, which it makes running. It notifies their workflows through the outbox.
	// more reports that another call may grant more. Errors: none for an unknown group.
	Grant(ctx context.Context, name string) (granted []Grant, more bool, err error)
	// GroupWaits returns what a queued run waits for in each of its change groups
	// with a limit, from one snapshot. Errors: not_found.
	GroupWaits(ctx context.Context, id run.ID) ([]GroupWait, error)
	// SweepSlots releases the slots of up to n tasks that have ended, or no longer exist, and
	// enqueues a grant for each group whose next waiting task could have its slots: processes of
	// an earlier version leave slots behind, and grant none to tasks. It returns how many tasks
	// had left slots. It takes several transactions.
	SweepSlots(ctx context.Context, n int) (int, error)
	// ResumeSlotWaits notifies the workflows of up to n tasks that have held their slots for at
	// least a time and wait for them all the same, or have no place in the queues, which they
	// get: a process of an earlier version has handled what would have told them, or has
	// written that they wait. It returns how many tasks there were. It takes several transactions.
	ResumeSlotWaits(ctx context.Context, overdue time.Duration, n int) (int, error)
	// TaskWaits returns what the tasks of a run that wait for slots wait for, by their
	// numbers, from one snapshot: each of their change groups with a limit. It is empty for
	// a run that does not exist.
	TaskWaits(ctx context.Context, id run.ID) (map[int][]GroupWait, error)
	// QueuePositions returns the queue positions, from 1, of the queued tasks of a run,
	// by their numbers. A pool's queue is ordered by priority and then by the
	// time of queueing.
	QueuePositions(ctx context.Context, id run.ID) (map[int]int, error)
}

// Grant is a run, or one of its tasks, that got its slots.
type Grant struct {
	Run  run.ID
	Task int // -1 for the run itself
}

// NamedHolders bounds the Holders of a GroupWait.
const NamedHolders = 3

// GroupWait is the state of a run, or of a task, in one change group that it waits for.
type GroupWait struct {
	Group      string
	MaxRunning int
	Units      int      // how many slots a task needs; 0 for a run
	Holding    int      // slots that are held
	Holders    []run.ID // the first few of the runs that hold them, or whose tasks do
	Position   int      // in the queue of tasks and runs, from 1
	Ahead      int      // slots for which those ahead wait
	// Later reports that the position is this one or a later one: the runs ahead are
	// counted up to a limit.
	Later bool
}

// Approving holds the calls that end the wait for approvals.
type Approving interface {
	// ExpireApprovals rejects up to n tasks whose approval timed out, as RejectTask
	// does, each in a transaction of its own. It returns how many. Fewer than n
	// means that no more are due.
	ExpireApprovals(ctx context.Context, n int) (int, error)
}

// Garbage holds the objects that deleted runs and packed logs left in the blob
// store.
type Garbage interface {
	// TakeGarbage returns up to n pieces of logs that no run refers to, by the
	// key of their bytes. It does not lease them, since removing bytes twice is
	// harmless.
	TakeGarbage(ctx context.Context, n int) ([]GarbageBatch, error)
	// GarbageWake is signalled (coalesced) when this process has deleted runs,
	// or packed logs. All callers get the same channel: only one should read.
	GarbageWake() <-chan struct{}
	// CompleteGarbage deletes the rows of pieces whose bytes are removed.
	CompleteGarbage(ctx context.Context, done []GarbageBatch) error
}

// GarbageBatch is a stored batch of frames, or a packed log, to be removed.
type GarbageBatch struct {
	Key run.Key
	// Frame is the first frame of a batch, or the last frame of a packed log.
	Frame  int64
	Packed bool
}

// Packing selects the logs to pack: those of dispatches that have sent their
// last frame, or whose executor was removed.
type Packing interface {
	// TakePacking leases up to n logs that are due. A log that is not switched
	// within the lease is handed out again. The holder of the lease may write
	// the object of Packing.Last until the lease ends, and no later. The store
	// records that object from this call on, and removes it if another object
	// is written instead.
	TakePacking(ctx context.Context, n int, lease time.Duration) ([]PackingLog, error)
	// SwitchPacked replaces the batches of a log by a packed log, for all runs
	// that refer to them. bytes is the size of its object. Garbage removes the
	// replaced batches. Errors: conflict (the log expired, its run was deleted,
	// or it was packed otherwise meanwhile: the object is recorded as garbage).
	SwitchPacked(ctx context.Context, p PackingLog, bytes int64) error
	// PackStale makes the logs due of dispatches that ended before, or were
	// followed by another, and have not sent their last frame. It returns how
	// many.
	PackStale(ctx context.Context, before time.Time) (int, error)
	// PackingWake is signalled (coalesced) when this process has made logs due.
	// All callers get the same channel: only one should read.
	PackingWake() <-chan struct{}
}

// Logs removes expired logs.
type Logs interface {
	// ExpireLogs removes the logs of up to n runs that ended before a time, the
	// oldest first, each in a transaction of its own; also from the tasks of
	// other runs that keep them. Fewer than n means that no more have expired.
	ExpireLogs(ctx context.Context, before time.Time, n int) (ExpiredLogs, error)
}

// ExpiredLogs counts the runs whose logs were removed, and the bytes of the
// logs.
type ExpiredLogs struct {
	Runs  int
	Bytes int64
}

// PackingLog is a log to be packed.
type PackingLog struct {
	Key     run.Key
	Batches []Batch // the whole log, in order
	Last    int64   // frame of the last of them
}

// Executors holds the calls that the executor API needs. These calls, and those
// of Archives on behalf of an executor, fail with forbidden once the executor
// was removed: nothing is written for it after the removal.
type Executors interface {
	// RegisterExecutor and RenewExecutor: see run.ExecutorAPI. Registering
	// creates the executor's pool if no executor or operator has created it. An
	// executor whose driver, os or arch contradict its pool is refused with
	// CodeInvalid. Fleet and Instance are what the executor's token proves, or
	// "". An executor that is an instance of a fleet stays that instance.
	// Errors: conflict (it is another instance, or for another pool), invalid
	// (its labels name a fleet of its pool to which it does not belong).
	RegisterExecutor(ctx context.Context, e run.Executor) (run.DesiredState, error)
	// RenewExecutor also returns not_found to a process whose journal is not
	// the registered one, once the other process is silent: it may register.
	RenewExecutor(ctx context.Context, r run.Renewal) (run.DesiredState, error)
	// Claim: see run.ExecutorAPI. It sets the task running, with its executor
	// and start. It accepts a key that is newer than the stored one: the
	// workflow may not have written it yet. It refuses with conflict a key of a
	// run that is not running or has a stop requested (except for a repeated
	// claim), of a final task, of an earlier dispatch, and any new key if the
	// executor is to drain. It returns not_found for a key that the request
	// does not allow. A repeated claim changes nothing, except that it clears
	// the reason of a task whose executor was out of contact.
	Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error)
	// ClaimStates: see run.ExecutorAPI. A claim is open while its task is not
	// final and was not queued again. Of keys that it has not claimed, an
	// executor learns only whether they are unclaimable, and only in its own
	// pool.
	ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error)
	// CheckFrames returns the error with which ApplyFrames would refuse a
	// batch, before its bytes are written, and whether the batch is known and
	// need not be stored again.
	CheckFrames(ctx context.Context, b run.FrameBatch) (known bool, err error)
	// ApplyFrames records that a batch is stored. It also records the states of
	// steps and the outputs in its frames, if the key is the task's newest
	// dispatch and the task is not final. Frames show that the executor is in
	// contact, so the reason of a running task is cleared. A known batch
	// changes nothing. Frames of outputs accumulate. Errors: not_found (no
	// claim), conflict (another executor's claim), invalid (frames are missing,
	// or come in other bounds than before), too_large (the log is over its
	// budget, or the outputs over their limit).
	ApplyFrames(ctx context.Context, b run.FrameBatch) error
}

// Registry holds the calls of clients and workflows about executors and pools.
type Registry interface {
	// ListExecutors returns the executors that are not removed, by id.
	// GetExecutor returns any executor, with the tasks that it holds. Errors:
	// not_found.
	ListExecutors(ctx context.Context) ([]run.Executor, error)
	// ServingExecutors is ListExecutors without the tasks of the executors. If there are
	// many, the answer may be a second old: callers share it, and must not change it.
	ServingExecutors(ctx context.Context) ([]run.Executor, error)
	GetExecutor(ctx context.Context, id string) (run.Executor, error)
	// DrainExecutor records whether an executor is to drain, and why, and
	// notifies its workflow. Errors: not_found, gone (it was removed).
	DrainExecutor(ctx context.Context, id string, drain bool, reason string) (run.Executor, error)
	// RemoveExecutor: see run.ExecutorRegistry. It appends an outbox row of
	// OutboxExecutorRemoved for each run that has a task with the executor,
	// unless its set has other members. It also notifies the executor's
	// workflow. It returns the executor with the tasks that it had.
	RemoveExecutor(ctx context.Context, id string, why run.Removal) (run.Executor, error)
	// ExpireExecutor removes a temporary executor that was offline for its
	// time. It keeps the last executor of a set that has tasks. It never
	// removes at the first call that finds the executor expired: for another
	// ExecutorTimeout it may turn out that the clock had jumped. recheck is
	// when to call again, 0 if the next notification is soon enough. Errors:
	// not_found.
	ExpireExecutor(ctx context.Context, id string) (_ run.Executor, recheck time.Duration, _ error)
	// LostExecutors returns which of the executors were removed without a set
	// member that could continue their tasks, with the reasons.
	LostExecutors(ctx context.Context, ids []string) (map[string]string, error)
	// ListPools returns all pools, by name, and GetPool one. Errors: not_found. If there are
	// many executors or waiting tasks, their counts may be a second old: callers share them.
	ListPools(ctx context.Context) ([]run.Pool, error)
	GetPool(ctx context.Context, name string) (run.Pool, error)
	// ChoosePools returns all pools without the counts of their tasks, and the executors as
	// ServingExecutors does, always as they are now: a run is accepted or refused by them.
	ChoosePools(ctx context.Context) ([]run.Pool, []run.Executor, error)
	// PutPool and DeletePool: see run.ExecutorRegistry. A default pool replaces
	// the default of its kind.
	PutPool(ctx context.Context, p run.Pool) (_ run.Pool, created bool, _ error)
	DeletePool(ctx context.Context, name string) error
}

// Batch is a stored batch of frames; its bytes are in the blob store.
type Batch struct {
	Key run.Key
	// Source is the key of the bytes: that of another run for a task that was
	// kept at a restart.
	Source run.Key
	First  int64 // frame number; likewise Last
	Last   int64
	// End reports that the batch holds the task_end frame of its key.
	End bool
	// Packed reports that it stands for all batches from the first frame to
	// Last, in one object.
	Packed bool
	Bytes  int64 // the stored size of the object
	// Outline is of a batch that is not packed; nil for a packed log.
	Outline *run.LogOutline
}

// BatchRef is a position in a task's list of batches, after frame Last; the
// zero value is the start.
type BatchRef struct {
	Key  run.Key
	Last int64
}

// OutboxKind is what the dispatcher must do for an outbox row.
type OutboxKind string

// The kinds of outbox row. Delivering any of them twice is harmless.
const (
	OutboxStart OutboxKind = "start" // start the run's workflow
	OutboxAdmit OutboxKind = "admit" // notify it that it may start
	OutboxStop  OutboxKind = "stop"  // signal it to stop
	// OutboxForceStop signals it to stop without a cleanup. A dispatcher that does not
	// know the kind leaves the row to a newer one.
	OutboxForceStop OutboxKind = "force-stop"

	OutboxCancel  OutboxKind = "cancel"  // notify it that it was cancelled
	OutboxApprove OutboxKind = "approve" // notify it that Task was approved
	OutboxGrant   OutboxKind = "grant"   // notify the workflow of ChangeGroup that a slot may be free
	OutboxSlots   OutboxKind = "slots"   // notify the run's workflow that tasks got slots of change groups
	OutboxWebhook OutboxKind = "webhook" // notify the workflow of Webhook that the webhook was created, changed or deleted
	// OutboxExecutor notifies the workflow of Executor that it registered, or
	// that a client changed it.
	OutboxExecutor OutboxKind = "executor"
	// OutboxFleet notifies the workflow of Fleet that a client created or
	// changed it.
	OutboxFleet OutboxKind = "fleet"
	// OutboxExecutorRemoved notifies a run that Executor, which had a task of
	// it, was removed for Reason.
	OutboxExecutorRemoved OutboxKind = "executor_removed"
)

// OutboxRow is one pending notification of a workflow.
type OutboxRow struct {
	ID  int64
	Run run.ID // "" for OutboxGrant, OutboxWebhook, OutboxExecutor and OutboxFleet
	// ChangeGroup is of OutboxGrant.
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

// Outbox hands out pending outbox rows.
type Outbox interface {
	// TakeOutbox leases up to n due rows, those that have been due the longest.
	// A row that is not completed within the lease is handed out again. Rows of
	// one run are handed out in order, each after the one before it is
	// completed. Attempts counts how often a row was handed out.
	TakeOutbox(ctx context.Context, n int, lease time.Duration) ([]OutboxRow, error)
	// CompleteOutbox removes a delivered row. A repeated call is no error.
	CompleteOutbox(ctx context.Context, id int64) error
	// RetryOutbox returns a row to the outbox, due after delay.
	RetryOutbox(ctx context.Context, id int64, delay time.Duration) error
	// OutboxWake is signalled (coalesced) when this process, or another on the
	// same database, has appended outbox rows, and when the next row of a run
	// may be taken. It is not signalled when a retry becomes due or a lease
	// ends. All callers get the same channel: only one should read.
	OutboxWake() <-chan struct{}
}

// EventPage is an answer of ReadEvents.
type EventPage struct {
	Events []run.Event
	// Next is the number after which the next read begins: the query has no other
	// events up to it.
	Next int64
	More bool // there may be more events after Next at once
}

// Events reads and watches events.
type Events interface {
	// ReadEvents returns up to n events with numbers greater than q.After. Its work is
	// bounded, also if other groups have millions of events: a page may have fewer
	// events, or none, and still not be the last. Errors: gone (some of them were
	// removed).
	ReadEvents(ctx context.Context, q run.EventQuery, n int) (EventPage, error)
	// LastEvent returns the greatest event number, 0 if there is none.
	LastEvent(ctx context.Context) (int64, error)
	// Watch returns a channel that is signalled (coalesced) after every commit
	// that changed the run, or any run if id is "": its state, its events or
	// its stored log batches. stop ends it. Across processes the signal arrives
	// within 250 ms.
	Watch(id run.ID) (signal <-chan struct{}, stop func())
}
