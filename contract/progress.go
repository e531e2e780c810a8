package contract

import "github.com/drover-run/drover/run"

// The payloads of the activities that read and write the records. They mirror
// records.Progress; types of which there is one for each task have short field
// names.

// LoadPlanInput is the input of load-plan.
type LoadPlanInput struct {
	Run  run.ID `json:"run"`
	Page int    `json:"page"` // from 0
}

// PlanPage is the result of load-plan: a page of a run's plan.
type PlanPage struct {
	Plan run.Plan `json:"plan"`
	More bool     `json:"more,omitempty"` // more pages follow
}

// BeginInput is the input of begin.
type BeginInput struct {
	Run run.ID `json:"run"`
	// Plan requests the first page of the plan with the result.
	Plan bool `json:"plan,omitempty"`
}

// BeginResult is the result of begin.
type BeginResult struct {
	Status RunStatus `json:"standing"`
	Page   *PlanPage `json:"page,omitempty"`
}

// RunStatus is the status of a run in the records.
type RunStatus struct {
	Phase         run.Phase  `json:"phase"`
	Result        run.Result `json:"result,omitempty"`
	StopRequested bool       `json:"stop,omitempty"`
	Approved      []int      `json:"approved,omitempty"` // tasks with enough approvals
}

// ApplyInput is the input of apply: the decisions of a workflow, to be written
// in one transaction.
type ApplyInput struct {
	Run   run.ID       `json:"run"`
	Tasks []TaskChange `json:"tasks,omitempty"`
	// Result and Reason of the run; "" leaves them unchanged.
	Result run.Result `json:"result,omitempty"`
	Reason string     `json:"reason,omitempty"`
	// Finish sets the run finished, with Result.
	Finish bool `json:"finish,omitempty"`
}

// TaskChange sets the state of one task.
type TaskChange struct {
	Task     int             `json:"t"`
	Attempt  int             `json:"a,omitempty"`
	Dispatch int             `json:"d,omitempty"`
	Status   run.Status      `json:"s"`
	Reason   string          `json:"w,omitempty"`
	Result   *run.TaskResult `json:"r,omitempty"` // set if the task ended
	// Executor is the holder of a running task, as far as the workflow knows.
	Executor string `json:"e,omitempty"`
	// IfUnclaimed skips the change if an executor holds the task. A change to
	// queued is applied all the same if Released names the journal of the
	// claim.
	IfUnclaimed bool     `json:"u,omitempty"`
	Released    *Release `json:"l,omitempty"`
}

// Release names the source of the guarantee that no step of a dispatch ran or
// will run: a journal, or the executor or set that answered a request about its
// claim.
type Release struct {
	Executor  string `json:"e,omitempty"`
	Set       string `json:"s,omitempty"`
	JournalID string `json:"j,omitempty"`
}

// ApplyResult is the result of apply.
type ApplyResult struct {
	Status RunStatus `json:"standing"`
	// Mismatched has the tasks whose status differs from the change, in the order
	// of the changes; usually there is none.
	Mismatched []TaskStatus `json:"differs,omitempty"`
}

// TaskStatus is the status of one task in the records.
type TaskStatus struct {
	Task     int        `json:"t"`
	Attempt  int        `json:"a,omitempty"`
	Dispatch int        `json:"d,omitempty"`
	Status   run.Status `json:"s"`
}

// ExpandInput is the input of expand.
type ExpandInput struct {
	Run  run.ID `json:"run"`
	Task int    `json:"task"` // a foreach task
}

// ExpandResult is the result of expand: the tasks that were created from a
// list, with consecutive numbers, or why there are none.
type ExpandResult struct {
	First int    `json:"first,omitempty"`
	Width int    `json:"width,omitempty"`
	Fault string `json:"fault,omitempty"` // a sentence
}

// HoldersInput is the input of holders.
type HoldersInput struct {
	Run run.ID `json:"run"`
	// Tasks are the requested tasks; empty means all that are not final.
	Tasks []int `json:"tasks,omitempty"`
	// Executors are checked for removal.
	Executors []string `json:"executors,omitempty"`
}

// HoldersResult is the result of holders: the executor that holds each claim,
// ascending by task.
type HoldersResult struct {
	Holders []Holder `json:"holders,omitempty"`
	// Removed are those of the requested executors that were removed, and of
	// which no member of the set is left to continue their tasks.
	Removed []ExecutorRemoved `json:"removed,omitempty"`
}

// Holder is the executor that has the open claim of a task: the claim of its
// newest dispatch.
type Holder struct {
	Task     int    `json:"t"`
	Attempt  int    `json:"a"`
	Dispatch int    `json:"d"`
	Executor string `json:"e"`
	Set      string `json:"s,omitempty"` // of the executor
}
