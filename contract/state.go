package contract

import (
	"time"

	"github.com/drover-run/drover/run"
)

// RunState is what the run workflow carries over continue-as-new. It does so
// only while it runs no task itself: its batches go on meanwhile.
type RunState struct {
	// Statuses is the state of the graph, one byte a task.
	Statuses []byte `json:"statuses"`
	// Grown is what tasks were made of lists, in order.
	Grown []run.Grown `json:"grown,omitempty"`
	// Started is when the run began; its timeout counts from there.
	Started time.Time `json:"started"`
	// LastBatch is the number of the newest batch.
	LastBatch int         `json:"last_batch,omitempty"`
	Batches   []OpenBatch `json:"batches,omitempty"`
	// Ready are tasks that no batch had room for yet.
	Ready []Assignment `json:"ready,omitempty"`
	Stop  *Stop        `json:"stop,omitempty"`
	// Cut says that the stop kept a task from its end.
	Cut bool `json:"cut,omitempty"`
	// Culprit is the task whose failure made the result failed, -1 for none.
	Culprit int `json:"culprit"`
	// Result and Reason as they were written last.
	Result  run.Result        `json:"result,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Removed []ExecutorRemoved `json:"removed,omitempty"`
	// Continued counts the times it continued as new.
	Continued int `json:"continued,omitempty"`
}

// OpenBatch is a batch that has not reported all of its tasks.
type OpenBatch struct {
	Batch int   `json:"n"`
	Given int   `json:"given"` // tasks, ever
	Tasks []int `json:"tasks"` // that it has not reported, ascending
}

// Limits bound one execution. They are part of the input, so that a history
// goes on by the limits it began with. Zero fields mean the defaults of
// package workflows.
type Limits struct {
	Inline int `json:"inline,omitempty"` // tasks of a run that needs no batches
	Batch  int `json:"batch,omitempty"`  // tasks given to one batch, ever
	Open   int `json:"open,omitempty"`   // batches at once
	Events int `json:"events,omitempty"` // history events after which an execution seeks its end
	// Linger is how long the workflow of a change group waits for more.
	Linger run.Duration `json:"linger,omitempty"`
}

// RunOutput is the result of the run workflow, for people: whoever waits for a
// run awaits its record.
type RunOutput struct {
	Phase  run.Phase  `json:"phase"`
	Result run.Result `json:"result"`
	Reason string     `json:"reason,omitempty"`
}

// Stop says that a run is to be stopped, and why.
type Stop struct {
	Reason string `json:"reason"` // a sentence
	// TimedOut says that it is for the run's timeout: its result is failed.
	TimedOut bool `json:"timed_out,omitempty"`
}

// ExecutorRemoved is the payload of SignalExecutorRemoved.
type ExecutorRemoved struct {
	Executor string `json:"executor"`
	Reason   string `json:"reason,omitempty"`
}

// StateView answers the query state.
type StateView struct {
	Run    run.ID             `json:"run"`
	Phase  run.Phase          `json:"phase"`
	Result run.Result         `json:"result"`
	Reason string             `json:"reason,omitempty"`
	Counts map[run.Status]int `json:"counts"`
	// Open lists tasks that are not final, ascending, at most MaxViewTasks.
	Open    []TaskView `json:"open,omitempty"`
	Failed  []string   `json:"failed,omitempty"`  // names, at most MaxViewTasks
	Batches []int      `json:"batches,omitempty"` // that are open
}

// MaxViewTasks bounds the lists of a StateView.
const MaxViewTasks = 100

// TaskView is a task in a StateView.
type TaskView struct {
	Task     int        `json:"task"`
	Name     string     `json:"name"`
	Status   run.Status `json:"status"`
	Attempt  int        `json:"attempt,omitempty"`
	Dispatch int        `json:"dispatch,omitempty"`
	// Executor is who had the task when it fell out of contact.
	Executor string `json:"executor,omitempty"`
}
