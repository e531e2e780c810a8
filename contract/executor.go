package contract

import (
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// ExecutorWorkflow manages one executor: it removes a temporary executor that
// stays offline past its time, and shows the state of the executor to
// operators. It ends when the executor is removed. All its state is in the
// records.
const ExecutorWorkflow = "executor"

// SignalExecutor notifies the workflow of an executor that the executor
// registered, or that a client changed its desired state; no payload.
const SignalExecutor = "executor-changed"

// ActivityExpireExecutor reads the state of an executor, and removes it if it
// is temporary and was offline for its time.
const ActivityExpireExecutor = "expire-executor"

const executorPrefix = "executor:"

// ExecutorWorkflowID is the workflow id of an executor.
func ExecutorWorkflowID(id string) string { return executorPrefix + id }

// ExecutorOfWorkflow returns the executor of a workflow id, and whether the id
// is that of an executor.
func ExecutorOfWorkflow(workflowID string) (id string, ok bool) {
	return strings.CutPrefix(workflowID, executorPrefix)
}

// ExecutorInput starts the workflow of an executor.
type ExecutorInput struct {
	Executor string `json:"executor"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// ExpireInput is the input of expire-executor.
type ExpireInput struct {
	Executor string `json:"executor"`
}

// ExecutorState is the result of expire-executor and of the query state of an
// executor's workflow: the state of the executor at the last check.
type ExecutorState struct {
	Executor  string            `json:"executor"`
	Pool      string            `json:"pool,omitempty"`
	Set       string            `json:"set,omitempty"`
	Temporary bool              `json:"temporary,omitempty"`
	State     run.ExecutorState `json:"state,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Version   string            `json:"version,omitempty"`
	Tasks     int               `json:"tasks,omitempty"`
	// LastContact is rounded to seconds.
	LastContact time.Time `json:"last_contact,omitzero"`
	// NextCheck is the time until the next check, 0 if the workflow can wait for a
	// signal.
	NextCheck run.Duration `json:"next_check,omitempty"`
}
