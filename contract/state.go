package contract

import (
	"time"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// RunState is the state of the run workflow that is carried over
// continue-as-new. The workflow continues as new only while it runs no task
// itself; its batches continue meanwhile.
type RunState struct {
	// Statuses is the state of the graph, one byte a task.
	Statuses []byte `json:"statuses"`
	// DynamicTasks has the tasks that were created from lists, in order.
	DynamicTasks []graph.DynamicTasks `json:"dynamic_tasks,omitempty"`
	// Started is when the run began; the timeout of the run counts from there.
	Started time.Time `json:"started"`
	// LastBatch is the number of the newest batch.
	LastBatch int         `json:"last_batch,omitempty"`
	Batches   []OpenBatch `json:"batches,omitempty"`
	// Ready are tasks for which no batch had room yet.
	Ready []Assignment `json:"ready,omitempty"`
	Stop  *Stop        `json:"stop,omitempty"`
	// FinallyDue is when the finally tasks of a stopped run end; zero before they may
	// begin.
	FinallyDue time.Time `json:"finally_due,omitzero"`
	// Interrupted says that the stop of the run interrupted a task.
	Interrupted bool `json:"interrupted,omitempty"`
	// FailedTask is the task whose failure made the result failed, -1 for none.
	FailedTask int `json:"failed_task"`
	// Result and Reason are the values that were written last.
	Result  run.Result        `json:"result,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Removed []ExecutorRemoved `json:"removed,omitempty"`
	// Continued counts how often the run continued as new.
	Continued int `json:"continued,omitempty"`
}

// OpenBatch is a batch that has not reported all of its tasks.
type OpenBatch struct {
	Batch    int   `json:"batch"`
	Assigned int   `json:"assigned"` // tasks assigned in total
	Tasks    []int `json:"tasks"`    // tasks that it has not reported, ascending
}

// Limits bound one execution. They are part of the input, so a history keeps
// the limits with which it began. Zero fields mean the defaults of package
// workflows.
type Limits struct {
	InlineTasks   int `json:"inline_tasks,omitempty"`   // most tasks of a run without batches
	BatchTasks    int `json:"batch_tasks,omitempty"`    // most tasks assigned to one batch in total
	OpenBatches   int `json:"open_batches,omitempty"`   // most open batches
	HistoryEvents int `json:"history_events,omitempty"` // history events after which an execution tries to end
	// IdleTimeout is how long the workflow of a change group waits for the next
	// signal.
	IdleTimeout run.Duration `json:"idle_timeout,omitempty"`
}

// RunOutput is the result of the run workflow, for operators. If the run failed,
// was stopped or was cancelled, it is the detail of the error with which the
// workflow closes. Programs that wait for a run read its record instead.
type RunOutput struct {
	Phase  run.Phase  `json:"phase"`
	Result run.Result `json:"result"`
	Reason string     `json:"reason,omitempty"`
}

// Stop is the request to stop a run, and its reason.
type Stop struct {
	Reason string `json:"reason"` // a sentence
	// TimedOut says that the run's timeout is the reason: the result is failed.
	TimedOut bool `json:"timed_out,omitempty"`
	// Force says that no task of the run cleans up any more. A later stop of a
	// stopped run may add it.
	Force bool `json:"force,omitempty"`
	// Finally says why the finally tasks end too; "" if they do not, unless the stop
	// is forced.
	Finally string `json:"finally,omitempty"`
}

// EndsFinally reports whether the stop ends finally tasks too.
func (s Stop) EndsFinally() bool { return s.Force || s.Finally != "" }

// ExecutorRemoved is the payload of SignalExecutorRemoved.
type ExecutorRemoved struct {
	Executor string `json:"executor"`
	Reason   string `json:"reason,omitempty"`
}

// StateView is the result of the query state.
type StateView struct {
	Run    run.ID             `json:"run"`
	Phase  run.Phase          `json:"phase"`
	Result run.Result         `json:"result"`
	Reason string             `json:"reason,omitempty"`
	Counts map[run.Status]int `json:"counts"`
	// Open lists tasks that are not final, ascending, at most MaxViewTasks.
	Open    []TaskView `json:"open,omitempty"`
	Failed  []string   `json:"failed,omitempty"`  // names, at most MaxViewTasks
	Batches []int      `json:"batches,omitempty"` // open batches
}

// MaxViewTasks is the greatest length of the lists of a StateView.
const MaxViewTasks = 100

// TaskView is a task in a StateView.
type TaskView struct {
	Task     int        `json:"task"`
	Name     string     `json:"name"`
	Status   run.Status `json:"status"`
	Attempt  int        `json:"attempt,omitempty"`
	Dispatch int        `json:"dispatch,omitempty"`
	// Executor is the executor that held the task when contact with it was
	// lost.
	Executor string `json:"executor,omitempty"`
}
