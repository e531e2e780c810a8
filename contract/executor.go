package contract

import (
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// ExecutorWorkflow looks after one executor: it removes a temporary one that
// stays offline past its time, and shows people how it stands. It ends when the
// executor is removed. The records know all that it knows.
const ExecutorWorkflow = "executor"

// SignalExecutor tells the workflow of an executor that it registered, or that
// a client wants something of it; no payload.
const SignalExecutor = "executor-changed"

// ActivityExpireExecutor looks at an executor, and removes it where it is
// temporary and was offline for its time.
const ActivityExpireExecutor = "expire-executor"

const executorPrefix = "executor:"

// ExecutorWorkflowID is the workflow id of an executor.
func ExecutorWorkflowID(id string) string { return executorPrefix + id }

// ExecutorOfWorkflow returns the executor of a workflow id, and whether it is
// one's.
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

// ExecutorState is the result of expire-executor, and what the query state of
// an executor's workflow returns: how the executor stood when it was looked at.
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
	// Again is when to look next, 0 where that can wait until it is told.
	Again run.Duration `json:"again,omitempty"`
}
