// Package run is the domain of Drover: runs and their tasks, their specification
// and plan, and the names of phases, results and errors. Package spec validates and
// expands specifications; package graph decides when a task may start.
//
// It does no I/O and imports the standard library alone, so every other package may
// depend on it. docs/life-of-a-run.md describes how a run proceeds.
package run

import (
	"context"
	"time"
)

// Run is a run as clients see it. It never holds the value of a secret.
type Run struct {
	ID            ID
	Counter       int64 // dense from 1 per group root, the first two elements of Group
	Name          string
	Group         string
	ChangeGroups  []string
	Priority      int
	Admission     Admission
	Phase         Phase
	Result        Result
	Reason        string
	Annotations   map[string]string
	Environment   map[string]string
	InputValues   map[string]any // as Spec.TypedInputs returns them
	SecretNames   []string
	SetupErrors   []string
	CreatedAt     time.Time
	StartedAt     time.Time // zero until it starts; likewise below
	EndedAt       time.Time
	RestartedFrom ID
	RestartedAs   []ID
	// CreatedBy is the actor that created it, "" if that is not recorded.
	CreatedBy string
	// Actions are the calls of clients that changed it after its creation,
	// oldest first; nil in lists.
	Actions []Action
	// StopRequested says that the run is to stop, or was stopped.
	StopRequested bool

	// Version increases with every change of the run or of one of its tasks.
	Version int64
	// Tasks are in the order of their numbers; nil in lists.
	Tasks []Task
	// Tests summarizes the test reports among its artifacts; nil without any,
	// and in lists.
	Tests *TestSummary
	// TaskCounts has the number of tasks by status; a status without tasks is
	// absent.
	TaskCounts map[Status]int
	// Replayed says that an earlier call with the same idempotency key created
	// the run.
	Replayed bool
	// Token has the versions of the change groups that the reader asked for,
	// from the same snapshot; nil if it asked for none.
	Token Token
}

// Warnings returns the failed tasks whose failure is allowed, in the order of
// their numbers: nil in lists. A run with the result success that has any
// succeeded with warnings.
func (r *Run) Warnings() []*Task {
	var out []*Task
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.Status == StatusFailed && t.AllowFailure {
			out = append(out, t)
		}
	}
	return out
}

// Task is a task of a run as clients see it.
type Task struct {
	Number int
	Name   string // with the suffix of its expansion: build[GO=1.25]
	Status Status
	// Finally says that it begins when all tasks without it have ended.
	Finally bool
	// AllowFailure says that its failure counts as a success for its dependents and
	// for the run.
	AllowFailure bool
	Reason       string // why it waits or failed; a sentence
	Pool         string
	Labels       map[string]string // that its executor must have, in addition to those of the pool
	Executor     string            // id of the executor that claimed it; "" before
	Attempt      int               // 0 before it was queued
	Dispatch     int
	ExitCode     *int
	TimedOut     bool
	Stage        Stage // while it is running; "" otherwise
	Cause        Cause // why it failed; "" if it did not, or if that is not known
	QueuedAt     time.Time
	StartedAt    time.Time
	EndedAt      time.Time
	MaxParallel  int      // of the tasks of its matrix or list; 0: no limit
	Depends      []Depend // names as in the specification
	Outputs      map[string]string
	Annotations  map[string]string
	ChangeGroups []TaskChangeGroup
	Approval     Approval
	ApprovedBy   []string
	// RejectedBy is the actor that rejected it; "" if it was not rejected, or by
	// Drover because its approval timed out. Set if the whole run is read.
	RejectedBy string
	// ApprovalDue is when it is rejected unless it is approved before: zero if it
	// does not wait, or for any time. Set if the whole run is read.
	ApprovalDue time.Time
	Steps       []StepState
	// LogsExpired says that its logs were removed. It is set only if the task
	// is read alone.
	LogsExpired bool
}

// StepState is a step of a task as clients see it.
type StepState struct {
	Name string
	Type string // "run", or the archive step's key
	StepResult
}

// EventType is the kind of change that an event reports.
type EventType string

// The types of event.
const (
	EventRun  EventType = "run"  // phase, result or reason of a run changed, or a client acted on it
	EventTask EventType = "task" // status, reason, attempt or executor of a task changed, or a client acted on it
	// EventStage: the stage of a running task changed. Changes within a moment are one
	// event, and a dispatch has at most MaxStageEvents.
	EventStage EventType = "stage"
	EventExec  EventType = "exec" // a session in a task began or ended; the reason says whose, and which command or end
	// EventApprovalWanted says that a task began to wait for approval, beside the
	// task event of that change.
	EventApprovalWanted EventType = "approval_wanted"
)

// Event is one change, committed in the same transaction as the state that it
// reports. Numbers are dense from 1 in the order of commits.
type Event struct {
	Number   int64
	Type     EventType
	Time     time.Time
	Run      ID
	Group    string
	Phase    Phase
	Result   Result
	Reason   string
	Task     string // of a task event; likewise below
	Status   Status
	Stage    Stage // of a running task
	Attempt  int
	Executor string
	ExitCode *int
	// Action is the call of a client that caused the event, and Actor its
	// subject; both "" if another change caused it.
	Action ActionKind
	Actor  string
	// FailedTasks is how many tasks had failed at the end of a run: the run may be deleted
	// since. It is nil in other events, and in those of earlier versions.
	FailedTasks *int
}

// Action is a call of a client that changed a run.
type Action struct {
	Kind   ActionKind
	Actor  string // "" is Drover itself
	Time   time.Time
	Task   string // "" for the run
	Reason string // that the actor gave, of a rejection or approval
}

// FirstActor returns the actor of the first action of a kind, "" if there is none.
func (r *Run) FirstActor(kind ActionKind) string {
	for _, a := range r.Actions {
		if a.Kind == kind {
			return a.Actor
		}
	}
	return ""
}

// ActionKind is the kind of an action.
type ActionKind string

// The kinds of actions.
const (
	ActionCreate  ActionKind = "create" // a submission, a restart or a schedule
	ActionStart   ActionKind = "start"
	ActionCancel  ActionKind = "cancel"
	ActionStop    ActionKind = "stop"
	ActionApprove ActionKind = "approve"
	ActionReject  ActionKind = "reject"
)

type actorKey struct{}

// WithActor returns a context for calls on behalf of an authenticated subject.
// The records store it with what the calls change.
func WithActor(ctx context.Context, subject string) context.Context {
	return context.WithValue(ctx, actorKey{}, subject)
}

// ActorOf returns the subject of WithActor. It returns "" for Drover itself.
func ActorOf(ctx context.Context) string {
	subject, _ := ctx.Value(actorKey{}).(string)
	return subject
}

type othersKey struct{}

// HideOthers returns a context for calls on behalf of a subject that may not see all
// runs: explanations do not name the runs for which one waits.
func HideOthers(ctx context.Context) context.Context {
	return context.WithValue(ctx, othersKey{}, true)
}

// OthersHidden reports whether the context is of HideOthers.
func OthersHidden(ctx context.Context) bool {
	hidden, _ := ctx.Value(othersKey{}).(bool)
	return hidden
}

type commentKey struct{}

// WithComment returns a context for an approval with a comment. The records store it
// as the reason of the action.
func WithComment(ctx context.Context, comment string) context.Context {
	return context.WithValue(ctx, commentKey{}, comment)
}

// CommentOf returns the comment of WithComment, or "".
func CommentOf(ctx context.Context) string {
	comment, _ := ctx.Value(commentKey{}).(string)
	return comment
}

// MaxHold is the longest time for which a failed task may be held: it keeps a slot.
const MaxHold = 24 * time.Hour

// HoldReason returns the reason of a running task whose steps have ended with a
// failure and whose environment is held, "" if it is not. A task that is not held
// ends within moments of its last step.
func HoldReason(spec *TaskSpec, t *Task) string {
	if spec.HoldOnFailure <= 0 || t.Status != StatusRunning {
		return ""
	}
	failed := false
	for _, s := range t.Steps {
		if !s.Status.Final() {
			return ""
		}
		failed = failed || s.Status == StatusFailed
	}
	if !failed {
		return ""
	}
	return "failed; its environment is held for " + spec.HoldOnFailure.Std().String() + ", or until drover runs release"
}
