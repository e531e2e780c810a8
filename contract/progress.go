package contract

import "github.com/drover-run/drover/run"

// The payloads of the activities that read and write the records, which call
// records.Progress.

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

// BeginInput is the input of begin-run.
type BeginInput struct {
	Run run.ID `json:"run"`
	// Plan requests the first page of the plan with the result.
	Plan bool `json:"plan,omitempty"`
}

// BeginResult is the result of begin-run.
type BeginResult struct {
	Status run.Progress `json:"status"`
	Page   *PlanPage    `json:"page,omitempty"`
}

// ApplyInput is the input of apply-changes: the decisions of a workflow, to be written
// in one transaction.
type ApplyInput struct {
	Run   run.ID           `json:"run"`
	Tasks []run.TaskChange `json:"tasks,omitempty"`
	// Result and Reason of the run; "" leaves them unchanged.
	Result run.Result `json:"result,omitempty"`
	Reason string     `json:"reason,omitempty"`
	// Finish sets the run finished, with Result.
	Finish bool `json:"finish,omitempty"`
}

// ApplyResult is the result of apply-changes.
type ApplyResult struct {
	Status run.Progress `json:"status"`
	// Mismatched has the tasks whose status differs from the change, in the order
	// of the changes; usually there is none. It also has queued tasks whose wait
	// for an executor is limited.
	Mismatched []run.TaskStatus `json:"mismatched,omitempty"`
}

// ExpandInput is the input of expand-foreach.
type ExpandInput struct {
	Run  run.ID `json:"run"`
	Task int    `json:"task"` // a foreach task
	// Empty says that the workflow accepts an empty list. Workflows of earlier versions
	// do not, and their histories have a Fault for it.
	Empty bool `json:"empty,omitempty"`
}

// ExpandResult is the result of expand-foreach: the tasks that were created from a
// list, with consecutive numbers, or why there are none. An empty list has a Width of
// 0, and neither a Fault nor Skipped, if the workflow accepts it.
type ExpandResult struct {
	First int    `json:"first,omitempty"`
	Width int    `json:"width,omitempty"`
	Fault string `json:"fault,omitempty"` // a sentence
	// Skipped says why the condition of the task skips it; "" if it does not.
	Skipped string `json:"skipped,omitempty"`
}

// HoldersInput is the input of list-holders.
type HoldersInput struct {
	Run run.ID `json:"run"`
	// Tasks are the requested tasks; empty means all that are not final.
	Tasks []int `json:"tasks,omitempty"`
	// Executors are checked for removal.
	Executors []string `json:"executors,omitempty"`
}

// HoldersResult is the result of list-holders: the executor that holds each claim,
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
	Task     int    `json:"task"`
	Attempt  int    `json:"attempt"`
	Dispatch int    `json:"dispatch"`
	Executor string `json:"executor"`
	Set      string `json:"set,omitempty"` // of the executor
}
