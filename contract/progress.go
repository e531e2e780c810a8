package contract

import "github.com/drover-run/drover/run"

// The payloads of the activities that read and write the records. They mirror
// records.Progress; fields have short names where there is one for each task.

// LoadPlanInput is the input of load-plan.
type LoadPlanInput struct {
	Run  run.ID `json:"run"`
	Page int    `json:"page"` // from 0
}

// PlanPage is the result of load-plan: a page of a run's plan.
type PlanPage struct {
	Plan run.Plan `json:"plan"`
	More bool     `json:"more,omitempty"` // pages follow
}

// BeginInput is the input of begin.
type BeginInput struct {
	Run run.ID `json:"run"`
	// Plan asks for the first page of the plan with the answer.
	Plan bool `json:"plan,omitempty"`
}

// BeginResult is the result of begin.
type BeginResult struct {
	Standing Standing  `json:"standing"`
	Page     *PlanPage `json:"page,omitempty"`
}

// Standing is how a run stands in the records.
type Standing struct {
	Phase      run.Phase  `json:"phase"`
	Result     run.Result `json:"result,omitempty"`
	StopWanted bool       `json:"stop,omitempty"`
	Approved   []int      `json:"approved,omitempty"` // tasks with enough approvals
}

// ApplyInput is the input of apply: what a workflow decided, to be written in
// one transaction.
type ApplyInput struct {
	Run   run.ID       `json:"run"`
	Tasks []TaskChange `json:"tasks,omitempty"`
	// Result and Reason of the run; "" leaves them.
	Result run.Result `json:"result,omitempty"`
	Reason string     `json:"reason,omitempty"`
	// Finish makes the run finished, with Result.
	Finish bool `json:"finish,omitempty"`
}

// TaskChange sets the state of one task.
type TaskChange struct {
	Task     int             `json:"t"`
	Attempt  int             `json:"a,omitempty"`
	Dispatch int             `json:"d,omitempty"`
	Status   run.Status      `json:"s"`
	Reason   string          `json:"w,omitempty"`
	Result   *run.TaskResult `json:"r,omitempty"` // where the task ended
	// Executor is who has a task that runs, as far as the workflow knows.
	Executor string `json:"e,omitempty"`
	// IfUnclaimed leaves the change out where an executor has the task. A
	// change to queued is made all the same where Released names the journal of
	// the claim.
	IfUnclaimed bool     `json:"u,omitempty"`
	Released    *Release `json:"l,omitempty"`
}

// Release says who vouches that no step of a dispatch ran or will run: a
// journal, or the executor or set that was asked about its claim.
type Release struct {
	Executor  string `json:"e,omitempty"`
	Set       string `json:"s,omitempty"`
	JournalID string `json:"j,omitempty"`
}

// ApplyResult is the result of apply.
type ApplyResult struct {
	Standing Standing `json:"standing"`
	// Differs has the tasks that do not stand as the change asked, in the
	// order of the changes; most often there is none.
	Differs []TaskStanding `json:"differs,omitempty"`
}

// TaskStanding is how one task stands in the records.
type TaskStanding struct {
	Task     int        `json:"t"`
	Attempt  int        `json:"a,omitempty"`
	Dispatch int        `json:"d,omitempty"`
	Status   run.Status `json:"s"`
}

// ExpandInput is the input of expand.
type ExpandInput struct {
	Run  run.ID `json:"run"`
	Task int    `json:"task"` // that stands for a list
}

// ExpandResult is the result of expand: the tasks that were made of a list,
// with consecutive numbers, or why there are none.
type ExpandResult struct {
	First int    `json:"first,omitempty"`
	Width int    `json:"width,omitempty"`
	Fault string `json:"fault,omitempty"` // a sentence
}

// HoldersInput is the input of holders.
type HoldersInput struct {
	Run run.ID `json:"run"`
	// Tasks asked for; empty means all that are not final.
	Tasks []int `json:"tasks,omitempty"`
	// Executors are asked whether they were removed.
	Executors []string `json:"executors,omitempty"`
}

// HoldersResult is the result of holders: who claimed what, ascending by task.
type HoldersResult struct {
	Holders []Holder `json:"holders,omitempty"`
	// Removed are those of the executors asked for that were removed and have
	// left nobody who could go on with their tasks.
	Removed []ExecutorRemoved `json:"removed,omitempty"`
}

// Holder says who has the open claim of a task: that of its newest dispatch.
type Holder struct {
	Task     int    `json:"t"`
	Attempt  int    `json:"a"`
	Dispatch int    `json:"d"`
	Executor string `json:"e"`
	Set      string `json:"s,omitempty"` // of the executor
}
