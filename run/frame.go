package run

import "time"

// FrameVersion is the newest version of the frame format that this build
// writes. Readers accept every version up to it. A frame has the version that
// introduced its kind: 1, and 2 for FrameArchiveRequest. So a reader of version
// 1 can read the frames of all tasks without archive steps.
const FrameVersion = 2

// FrameKind is the kind of a frame.
type FrameKind string

// The kinds of frame.
const (
	FrameOutput         FrameKind = "output"     // Data, of Stream, of Step
	FrameStepStart      FrameKind = "step_start" // Step
	FrameStepEnd        FrameKind = "step_end"   // Step, Status, ExitCode, TimedOut
	FrameOutputs        FrameKind = "outputs"    // Outputs
	FrameArchiveRequest FrameKind = "ask"        // Step waits for the executor to transfer an archive
	FrameTaskEnd        FrameKind = "task_end"   // Result; the last frame of a task
)

// Version returns the version of the frame format that introduced the kind.
func (k FrameKind) Version() int {
	if k == FrameArchiveRequest {
		return 2
	}
	return 1
}

// Stream is the source of output.
type Stream string

// The streams.
const (
	StreamStdout Stream = "stdout"
	StreamStderr Stream = "stderr"
	StreamSystem Stream = "system" // written by Drover itself, for example during the setup
)

// SetupStep is the step number of output that the environment's setup wrote.
const SetupStep = -1

// MaxFrameData is the most output that one frame carries, in bytes.
const MaxFrameData = 4 << 10

// Frame is one numbered record of a task's progress. Within a key the numbers
// are dense from 1, and a number always identifies the same record: frames may
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

// TaskResult is the result of a task: the outcome of the user's work, never an
// error of Drover. It crosses Temporal, so it stays small: at most MaxSteps
// steps and a reason of at most MaxReason bytes.
type TaskResult struct {
	Status Status `json:"status"` // success, failed or stopped; skipped if it never began
	// Cause is the kind of failure if Status is failed.
	Cause    Cause        `json:"cause,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	ExitCode *int         `json:"exit_code,omitempty"` // of the step that decided the result
	TimedOut bool         `json:"timed_out,omitempty"`
	Started  time.Time    `json:"started,omitzero"`
	Ended    time.Time    `json:"ended,omitzero"`
	Steps    []StepResult `json:"steps,omitempty"`
}

// MaxReason is the longest reason that is stored, in bytes.
const MaxReason = 1 << 10

// Cause is why a task failed.
type Cause string

// The causes of a failure.
const (
	CauseStep         Cause = "step"          // a step exited with a code other than 0
	CauseTimeout      Cause = "timeout"       // the task's or a step's timeout passed
	CauseStart        Cause = "start"         // the environment could not be started
	CauseInput        Cause = "input"         // an output or archive of another task is missing; never retried
	CauseOOM          Cause = "oom"           // killed because it ran out of memory
	CauseVanished     Cause = "vanished"      // the environment is gone and its result is not known
	CauseExecutorLost Cause = "executor_lost" // the executor was removed while it held the task
)

// StepResult is the state or the result of one step.
type StepResult struct {
	Status   Status    `json:"status"`
	ExitCode *int      `json:"exit_code,omitempty"`
	TimedOut bool      `json:"timed_out,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
}
