package run

import "time"

// FrameVersion is the newest version of the frame format that this build
// writes. Readers accept every version up to it. A frame has the version in which
// its kind came: 1, and 2 for FrameAsk. So whoever knows no asks reads all that
// is told of tasks that have none.
const FrameVersion = 2

// FrameKind says what a frame tells.
type FrameKind string

// The kinds of frame.
const (
	FrameOutput    FrameKind = "output"     // Data, of Stream, of Step
	FrameStepStart FrameKind = "step_start" // Step
	FrameStepEnd   FrameKind = "step_end"   // Step, Status, ExitCode, TimedOut
	FrameOutputs   FrameKind = "outputs"    // Outputs
	FrameAsk       FrameKind = "ask"        // Step: it waits for the executor to move an archive
	FrameTaskEnd   FrameKind = "task_end"   // Result; the last frame of a task
)

// Version returns the version of the frame format in which the kind came.
func (k FrameKind) Version() int {
	if k == FrameAsk {
		return 2
	}
	return 1
}

// Stream is where output came from.
type Stream string

// The streams.
const (
	StreamStdout Stream = "stdout"
	StreamStderr Stream = "stderr"
	StreamSystem Stream = "system" // Drover's own lines, such as those of the setup
)

// SetupStep is the step number of output that belongs to the environment's
// setup and to no step.
const SetupStep = -1

// MaxFrameData is the most output that one frame carries, in bytes.
const MaxFrameData = 4 << 10

// Frame is one numbered fact about a task that runs. Within a key the numbers
// are dense from 1, and a number always stands for the same fact: frames may
// be sent and stored any number of times.
type Frame struct {
	Version  int               `json:"v"`
	N        int64             `json:"n"`
	Time     time.Time         `json:"t"`
	Kind     FrameKind         `json:"k"`
	Step     int               `json:"s"` // from 0, or SetupStep
	Stream   Stream            `json:"o,omitempty"`
	Data     []byte            `json:"d,omitempty"` // base64 in JSON
	Status   Status            `json:"st,omitempty"`
	ExitCode *int              `json:"x,omitempty"`
	TimedOut bool              `json:"to,omitempty"`
	Outputs  map[string]string `json:"out,omitempty"`
	Result   *TaskResult       `json:"r,omitempty"`
}

// TaskResult is how a task ended: a fact about the user's work, never an error
// of Drover. It crosses Temporal, so it stays small: at most MaxSteps steps
// and a reason of at most MaxReason bytes.
type TaskResult struct {
	Status Status `json:"status"` // success, failed or stopped; skipped where it never began
	// Cause tells kinds of failure apart where Status is failed.
	Cause    Cause        `json:"cause,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	ExitCode *int         `json:"exit_code,omitempty"` // of the step that decided
	TimedOut bool         `json:"timed_out,omitempty"`
	Started  time.Time    `json:"started,omitzero"`
	Ended    time.Time    `json:"ended,omitzero"`
	Steps    []StepResult `json:"steps,omitempty"`
}

// MaxReason is the longest reason that is kept, in bytes.
const MaxReason = 1 << 10

// Cause is why a task failed.
type Cause string

// The causes of a failure.
const (
	CauseStep         Cause = "step"          // a step exited with a code other than 0
	CauseTimeout      Cause = "timeout"       // the task's or a step's timeout passed
	CauseStart        Cause = "start"         // the environment could not be started
	CauseInput        Cause = "input"         // what it needs of other tasks is not there; never tried again
	CauseOOM          Cause = "oom"           // killed for want of memory
	CauseVanished     Cause = "vanished"      // the environment is gone and its end is not known
	CauseExecutorLost Cause = "executor_lost" // its executor was removed while it had the task
)

// StepResult is how one step stands or ended.
type StepResult struct {
	Status   Status    `json:"status"`
	ExitCode *int      `json:"exit_code,omitempty"`
	TimedOut bool      `json:"timed_out,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
}
