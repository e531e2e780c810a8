package contract

import "github.com/drover-run/drover/run"

// BatchInput starts a batch workflow, which runs the given tasks and reports
// their ends to the run workflow.
type BatchInput struct {
	Run   run.ID `json:"run"`
	Batch int    `json:"batch"` // from 1
	// Name and Group of the run.
	Name     string            `json:"name"`
	Group    string            `json:"group"`
	Priority int               `json:"priority"`
	Tasks    []Assignment      `json:"tasks"`
	Removed  []ExecutorRemoved `json:"removed,omitempty"`
	Stop     *Stop             `json:"stop,omitempty"` // the run is stopped already
	Limits   *Limits           `json:"limits,omitempty"`
}

// Assignment is a task that a batch runs, with its progress so far.
type Assignment struct {
	Task     int        `json:"t"`
	Name     string     `json:"n"`
	Pool     string     `json:"p"`
	Retry    run.Retry  `json:"r,omitzero"`
	OnLost   run.OnLost `json:"l,omitempty"`
	Attempt  int        `json:"a"`
	Dispatch int        `json:"d"`
	// Requeued counts how often this attempt was requeued in a row.
	Requeued int `json:"g,omitempty"`
	// Wait is how long the task waits before it is dispatched, and Reason why.
	Wait   run.Duration `json:"b,omitempty"`
	Reason string       `json:"w,omitempty"`
	// Last is the result of the previous attempt.
	Last *run.TaskResult `json:"last,omitempty"`
	// Adopt says that an executor holds this dispatch, so the batch only adopts
	// the task.
	Adopt *Heartbeat `json:"h,omitempty"`
	// Recover says that another execution had the task and is closed: the batch
	// first reads the state of the task from the records.
	Recover bool `json:"c,omitempty"`
	// Withdrawn says why the task must not start, or start another attempt; ""
	// if it may.
	Withdrawn string `json:"u,omitempty"`
}

// BatchMore is the payload of SignalBatchMore. Without tasks it only checks
// whether the batch is open.
type BatchMore struct {
	Tasks []Assignment `json:"tasks,omitempty"`
}

// BatchWithdraw is the payload of SignalBatchWithdraw: tasks that must not
// start, or start another attempt. Tasks that run already continue.
type BatchWithdraw struct {
	Tasks  []int  `json:"tasks"`
	Reason string `json:"reason"`
}

// Report is the payload of SignalReport. Its content is in the records too.
type Report struct {
	Batch int       `json:"n"`
	Ended []TaskEnd `json:"e,omitempty"`
	// Returned are tasks that the batch returns because its history is long.
	Returned []Assignment `json:"back,omitempty"`
}

// TaskEnd is the final status of a task.
type TaskEnd struct {
	Task   int        `json:"t"`
	Status run.Status `json:"s"`
}
