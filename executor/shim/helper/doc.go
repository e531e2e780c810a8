// Package helper runs steps in helper containers: containers of a task beside its main
// container, for steps with an image of their own.
//
// A helper container shares the volumes and the network of the task. Its only process is
// Serve, which listens on a socket in the task volume. The shim of the task connects to
// it before the first step, and Serve accepts no other connection: no script ever
// reaches the socket. The connection carries the description of the environment, and
// then one step at a time. The helper writes no journal: the shim of the task records the
// start of a step before it sends the step, and its end afterwards.
//
// The shim passes the pipes of a step as file descriptors, so the output of a step in a
// helper container is read like that of any other step. If the connection ends, which
// includes the end of either process, Serve kills all processes in its container and
// returns. The step fails then, and is not repeated.
package helper

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// Name returns the name of the i-th helper container of a task, which is also that of
// its directory in the task volume.
func Name(i int) string { return "helper-" + strconv.Itoa(i) }

// socketOf returns the path of the socket of a helper container in the task volume.
func socketOf(dir, name string) string { return filepath.Join(dir, name+".socket") }

// Step is a step to run in a helper container.
type Step struct {
	Number  int         `json:"number"` // from 0
	Attempt int         `json:"attempt"`
	Step    run.StepDef `json:"step"`
	// OutputBudget is how many bytes of outputs the task has left.
	OutputBudget int `json:"output_budget"`
}

// Result is the end of a step.
type Result struct {
	Exit process.Exit `json:"exit"`
	// OOMKills is how many processes of the container were killed because of a lack of
	// memory while the step ran. EarlierOOMKills were killed since the end of the
	// container's last step. MemoryLimit is then its limit in bytes, 0 for none.
	OOMKills        int   `json:"oom_kills,omitempty"`
	EarlierOOMKills int   `json:"earlier_oom_kills,omitempty"`
	MemoryLimit     int64 `json:"memory_limit,omitempty"`
	// Outputs are the outputs of the step; OutputError says why they are invalid.
	Outputs     map[string]string `json:"outputs,omitempty"`
	OutputError string            `json:"output_error,omitempty"`
	// NotStarted is the reason why the step could not be started; the other fields
	// have no meaning then.
	NotStarted string `json:"not_started,omitempty"`
	// NoProgram means that the program of the step could not be executed.
	NoProgram bool `json:"no_program,omitempty"`
}

// CountOOM sets the numbers of killed processes. seen is the count at the end of the
// container's last step, began at the start of this one. It returns the count of now.
func (r *Result) CountOOM(seen, began int) int {
	count := process.OOMKills()
	r.OOMKills, r.EarlierOOMKills = max(count-began, 0), max(began-seen, 0)
	if r.OOMKills+r.EarlierOOMKills > 0 {
		r.MemoryLimit = process.MemoryLimit()
	}
	return count
}

// request is a message of the shim of the task.
type request struct {
	Order  *run.ShimSpec `json:"order,omitempty"` // the first one
	Step   *Step         `json:"step,omitempty"`  // with the descriptors of stdout and stderr
	Signal signal        `json:"signal,omitempty"`
	// End requests the end of all processes: SIGTERM, and SIGKILL after this time.
	End time.Duration `json:"end,omitempty"`
}

// response is a message of the helper.
type response struct {
	Ready   bool    `json:"ready,omitempty"`   // the environment is prepared
	Fault   string  `json:"fault,omitempty"`   // it cannot be
	Started bool    `json:"started,omitempty"` // the step runs
	Result  *Result `json:"result,omitempty"`
	Ended   bool    `json:"ended,omitempty"` // no process is left
}

// signal asks the processes of the running step to end.
type signal string

const (
	terminate signal = "terminate"
	kill      signal = "kill"
)
