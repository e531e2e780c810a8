// Package contract holds the contract with Temporal: names, ids, queues and
// payload types. Both sides of every call import it, and nothing else of each
// other.
//
// Payloads are JSON. Stored histories hold all of these names, so a release may
// add names but never rename or remove one. The name of a field is that of its
// Go field in snake case.
package contract

import (
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/drover-run/drover/run"
)

// Namespace is the Temporal namespace of Drover.
const Namespace = "drover"

// Workflow types.
const (
	RunWorkflow   = "run"
	BatchWorkflow = "task-batch"
	// ChangeGroupWorkflow grants the slots of one change group. The records,
	// not the workflow, hold the queue. It ends when it got no signal for a
	// while, and the next signal starts it again.
	ChangeGroupWorkflow = "change-group"
)

// Signals of the run workflow.
const (
	SignalAdmit       = "admit"        // no payload
	SignalStop        = "stop"         // no payload
	SignalForceStop   = "force-stop"   // no payload
	SignalCancel      = "cancel"       // no payload
	SignalSlots       = "slots"        // no payload: tasks got slots of their change groups; the records have which
	SignalApprove     = "approve"      // Approve
	SignalBatchReport = "batch-report" // BatchReport
	// SignalExecutorRemoved notifies a run that an executor which holds one of
	// its tasks was removed; the payload is ExecutorRemoved. Both workflows
	// receive it.
	SignalExecutorRemoved = "executor-removed"
	// SignalForceContinue makes the workflow continue as new as soon as it can;
	// no payload. It is for operators.
	SignalForceContinue = "force-continue-as-new"
)

// SignalGrant notifies the workflow of a change group that a slot may be free,
// or that a run waits for one; no payload.
const SignalGrant = "grant-slots"

// Signals of the batch workflow.
const (
	SignalBatchStop          = "batch-stop"           // Stop
	SignalBatchAddTasks      = "batch-add-tasks"      // BatchAddTasks
	SignalBatchWithdrawTasks = "batch-withdraw-tasks" // BatchWithdrawTasks
)

// QueryState is the query of both workflows that returns their state.
const QueryState = "state"

// Activity types.
const (
	ActivityLoadPlan      = "load-plan"
	ActivityBeginRun      = "begin-run"
	ActivityApplyChanges  = "apply-changes"
	ActivityExpandForeach = "expand-foreach"
	ActivityListHolders   = "list-holders"
	ActivityExecuteTask   = "execute-task"
	ActivityAdoptTask     = "adopt-task"
	ActivityStopTask      = "stop-task"
	ActivityGrantSlots    = "grant-slots"
)

// ControlQueue is the task queue of all workflows and control activities.
const ControlQueue = "control"

// PoolQueue is the task queue for any executor of a pool.
func PoolQueue(pool string) string { return "pool:" + pool }

// LabelsQueue is the task queue for those executors of a pool that have certain labels
// themselves: see run.LabelsID.
func LabelsQueue(pool, labels string) string { return labelsPrefix + labels + ":" + pool }

const labelsPrefix = "labels:"

// ParseLabelsQueue returns the pool and the labels of a queue that LabelsQueue named, and
// whether it is one.
func ParseLabelsQueue(queue string) (pool, labels string, ok bool) {
	rest, ok := strings.CutPrefix(queue, labelsPrefix)
	labels, pool, found := strings.Cut(rest, ":")
	return pool, labels, ok && found && len(labels) == run.LabelsIDLength && strings.Trim(labels, "0123456789abcdef") == ""
}

// ExecutorQueue is the task queue of one executor.
func ExecutorQueue(id string) string { return "executor:" + id }

// SetQueue is the task queue for any member of an executor set.
func SetQueue(set string) string { return "set:" + set }

// HolderQueue is the task queue for requests about a task that an executor
// holds. If the executor is a member of a set, any member may answer.
func HolderQueue(executor, set string) string {
	if set != "" {
		return SetQueue(set)
	}
	return ExecutorQueue(executor)
}

const runPrefix = "run:"

// RunWorkflowID is the workflow id of a run.
func RunWorkflowID(id run.ID) string { return runPrefix + string(id) }

// BatchWorkflowID is the workflow id of a run's n-th batch.
func BatchWorkflowID(id run.ID, n int) string { return fmt.Sprintf("%s%s/%d", runPrefix, id, n) }

const changeGroupPrefix = "change-group:"

// ChangeGroupWorkflowID is the workflow id of a change group.
func ChangeGroupWorkflowID(name string) string { return changeGroupPrefix + name }

// ChangeGroupOfWorkflow returns the change group of a workflow id, and whether
// the id is that of a change group.
func ChangeGroupOfWorkflow(workflowID string) (name string, ok bool) {
	return strings.CutPrefix(workflowID, changeGroupPrefix)
}

// ChangeGroupInput starts the workflow of a change group.
type ChangeGroupInput struct {
	Name string `json:"name"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// ChangeGroupState is the result of the query state of a change group's
// workflow: what this execution did. The records know which runs hold slots and
// which wait.
type ChangeGroupState struct {
	Rounds  int `json:"rounds"`  // attempts to grant slots
	Granted int `json:"granted"` // runs that got their slots
}

// GrantInput is the input of the activity grant-slots.
type GrantInput struct {
	Name string `json:"name"`
}

// GrantResult is the result of the activity grant-slots.
type GrantResult struct {
	Granted int  `json:"granted"`
	More    bool `json:"more,omitempty"` // to be called again at once
}

// RunOfWorkflow returns the run of a workflow id, and whether the id is that of
// a run (the id of a batch is not).
func RunOfWorkflow(workflowID string) (run.ID, bool) {
	id, ok := strings.CutPrefix(workflowID, runPrefix)
	return run.ID(id), ok && run.ValidID(run.ID(id))
}

// Search attributes, all of type Keyword.
const (
	AttributePhase  = "DroverPhase"
	AttributeResult = "DroverResult"
	AttributeGroup  = "DroverGroup"
	// AttributeChangeGroups is a list: the names of the run's change groups, as
	// many as fit in MaxAttribute.
	AttributeChangeGroups = "DroverChangeGroups"
)

// Types of the errors that activities return to workflows, in addition to the
// codes of package run, which are used as types unchanged.
const (
	// ErrorRequeued: the executor started nothing and requeues the task; this
	// does not count as an attempt. The details are a Requeue. Another executor
	// may hold the task: only the journal of the claim can say that no step of
	// it ran.
	ErrorRequeued = "requeued"
)

// RunInput starts the run workflow.
type RunInput struct {
	Run run.ID `json:"run"`
	// State is carried over continue-as-new; nil at first. Only a run with
	// batches continues as new.
	State *RunState `json:"state,omitempty"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// ExecuteInput is the input of execute-task and adopt-task.
type ExecuteInput struct {
	Key run.Key `json:"key"`
	// Name of the task, for users.
	Name string `json:"name"`
	// JournalID is, for adopt-task, the journal that the last heartbeat named;
	// "" if it is not known. An executor with another journal never answers
	// NeverStarted for the key.
	JournalID string `json:"journal_id,omitempty"`
	// ClaimProof is, for execute-task, the proof for the gateway that the executor
	// got the key. The relay that hands the task out sets it, so no history
	// holds it.
	ClaimProof string `json:"claim_proof,omitempty"`
}

// The fields of ExecuteInput that a relay reads and writes.
const (
	ExecuteInputKey        = "key"
	ExecuteInputClaimProof = "claim_proof"
)

// Requeue is the details of an ErrorRequeued.
type Requeue struct {
	Executor string `json:"executor"`
	Reason   string `json:"reason"` // a sentence for users
	// JournalID is the executor's journal if that journal held the claim, or is
	// closed to the key. It then guarantees that no step ran or will run.
	JournalID string `json:"journal_id,omitempty"`
}

// ExecuteResult is the result of execute-task and adopt-task. Exactly one field
// is set in addition to JournalID.
type ExecuteResult struct {
	// Ended: the task ended.
	Ended *run.TaskResult `json:"ended,omitempty"`
	// NeverStarted: the journal of the claim is closed to the key, and no step
	// of it ran or will run, so the task may be queued again as a new dispatch.
	// The value is the reason.
	NeverStarted string `json:"never_started,omitempty"`
	// JournalID is the journal that guarantees NeverStarted.
	JournalID string `json:"journal_id,omitempty"`
	// Claimed: another executor holds the task already, since Temporal
	// delivered the activity again or the workflow was reset. Executor is "" if
	// the holder is not known; the records know it.
	Claimed *Heartbeat `json:"claimed,omitempty"`
}

// Heartbeat is the details of every heartbeat, at most 512 bytes.
type Heartbeat struct {
	Executor  string `json:"executor"`
	Set       string `json:"set,omitempty"` // the executor set of which it is a member
	JournalID string `json:"journal_id"`
	Key       string `json:"key"`
	Frame     int64  `json:"frame,omitempty"`
}

// StopInput is the input of stop-task.
type StopInput struct {
	Key run.Key `json:"key"`
	// Force means that the task stops without a cleanup, or that its cleanup ends.
	// An older executor, which never cleans up, ignores it.
	Force bool `json:"force,omitempty"`
}

// StopResult is the result of stop-task.
type StopResult struct {
	// Known says that the executor has the key and stops it; execute-task or
	// adopt-task returns its end.
	Known bool `json:"known"`
}

// Approve is the payload of SignalApprove.
type Approve struct {
	Task int `json:"task"`
}

// MaxAttribute is the greatest size of the names in AttributeChangeGroups, in
// bytes: by default a server accepts 2 KiB for one attribute.
const MaxAttribute = 1800

// Attributes returns the search attributes that a namespace must have.
func Attributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		AttributePhase:        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		AttributeResult:       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		AttributeGroup:        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		AttributeChangeGroups: enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	}
}

// FirstNames returns as many of the names as fit in MaxAttribute.
func FirstNames(names []string) []string {
	size := 0
	for i, name := range names {
		if size += len(name) + 3; size > MaxAttribute { // quotes and a comma
			return names[:i]
		}
	}
	return names
}
