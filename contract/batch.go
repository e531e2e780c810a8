package contract

import "github.com/drover-run/drover/run"

// BatchInput starts a batch workflow: it runs the tasks given to it and
// reports their ends to the run workflow.
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

// Assignment is a task to be run, and how far it has come.
type Assignment struct {
	Task     int        `json:"t"`
	Name     string     `json:"n"`
	Pool     string     `json:"p"`
	Retry    run.Retry  `json:"r,omitzero"`
	OnLost   run.OnLost `json:"l,omitempty"`
	Attempt  int        `json:"a"`
	Dispatch int        `json:"d"`
	// GivenBack counts how often this attempt was given back in a row.
	GivenBack int `json:"g,omitempty"`
	// Wait is how long it waits before it is dispatched, and Reason why.
	Wait   run.Duration `json:"b,omitempty"`
	Reason string       `json:"w,omitempty"`
	// Last is how the attempt before ended.
	Last *run.TaskResult `json:"last,omitempty"`
	// Adopt says that an executor has this dispatch: it is only to be adopted.
	Adopt *Heartbeat `json:"h,omitempty"`
	// Recover says that another execution had the task and is gone: what the
	// records tell comes first.
	Recover bool `json:"c,omitempty"`
	// Withdrawn says why it must not begin, or begin anew; "" where it may.
	Withdrawn string `json:"u,omitempty"`
}

// BatchMore is the payload of SignalBatchMore. Without tasks it only finds out
// whether the batch is there.
type BatchMore struct {
	Tasks []Assignment `json:"tasks,omitempty"`
}

// BatchWithdraw is the payload of SignalBatchWithdraw: tasks that are not to
// begin, or begin anew. Those that run already go on.
type BatchWithdraw struct {
	Tasks  []int  `json:"tasks"`
	Reason string `json:"reason"`
}

// Report is the payload of SignalReport. The records have what it tells.
type Report struct {
	Batch int       `json:"n"`
	Ended []TaskEnd `json:"e,omitempty"`
	// Returned are tasks that the batch hands back, since its history is long.
	Returned []Assignment `json:"back,omitempty"`
}

// TaskEnd is the final status of a task.
type TaskEnd struct {
	Task   int        `json:"t"`
	Status run.Status `json:"s"`
}
