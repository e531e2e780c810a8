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
	Task   int        `json:"task"`
	Name   string     `json:"name"`
	Pool   string     `json:"pool"`
	Retry  run.Retry  `json:"retry,omitzero"`
	OnLost run.OnLost `json:"on_lost,omitempty"`
	// Labels identifies the labels that the executor must have itself: see run.Node.
	Labels   string `json:"labels,omitempty"`
	Attempt  int    `json:"attempt"`
	Dispatch int    `json:"dispatch"`
	// Requeued counts how often this attempt was requeued in a row.
	Requeued int `json:"requeued,omitempty"`
	// Wait is how long the task waits before it is dispatched, and Reason why.
	Wait   run.Duration `json:"wait,omitempty"`
	Reason string       `json:"reason,omitempty"`
	// Last is the result of the previous attempt.
	Last *run.TaskResult `json:"last,omitempty"`
	// Adopt says that an executor holds this dispatch, so the batch only adopts
	// the task.
	Adopt *Heartbeat `json:"adopt,omitempty"`
	// Recover says that another execution had the task and is closed: the batch
	// first reads the state of the task from the records.
	Recover bool `json:"recover,omitempty"`
	// Withdrawn says why the task must not start, or start another attempt; ""
	// if it may.
	Withdrawn string `json:"withdrawn,omitempty"`
	// Stop says that a withdrawn task is also stopped if an executor runs it.
	Stop bool `json:"stop,omitempty"`
	// Finally says that a stop of the run ends the task only if Stop.Finally is set
	// or the stop is forced.
	Finally bool `json:"finally,omitempty"`
}

// ToRecover returns the assignment for another execution after the one that had the
// task is closed. It keeps what belongs to the task; what belongs to its attempts is in
// the records.
func (a Assignment) ToRecover() Assignment {
	return Assignment{
		Task: a.Task, Name: a.Name, Pool: a.Pool, Retry: a.Retry, OnLost: a.OnLost, Labels: a.Labels, Finally: a.Finally, Recover: true,
	}
}

// BatchAddTasks is the payload of SignalBatchAddTasks. Without tasks it only checks
// whether the batch is open.
type BatchAddTasks struct {
	Tasks []Assignment `json:"tasks,omitempty"`
}

// BatchWithdrawTasks is the payload of SignalBatchWithdrawTasks: tasks that must not
// start, or start another attempt. Tasks that run already continue unless Stop is set.
type BatchWithdrawTasks struct {
	Tasks  []int  `json:"tasks"`
	Reason string `json:"reason"`
	Stop   bool   `json:"stop,omitempty"`
}

// BatchReport is the payload of SignalBatchReport. Its content is in the records too.
type BatchReport struct {
	Batch int       `json:"batch"`
	Ended []TaskEnd `json:"ended,omitempty"`
	// Returned are tasks that the batch returns because its history is long.
	Returned []Assignment `json:"returned,omitempty"`
}

// TaskEnd is the final status of a task.
type TaskEnd struct {
	Task   int        `json:"task"`
	Status run.Status `json:"status"`
}
