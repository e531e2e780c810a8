package run

import (
	"strings"
	"time"
)

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
	FrameStepStart      FrameKind = "step_start" // Step, Stage
	FrameStepEnd        FrameKind = "step_end"   // Step, Status, ExitCode, TimedOut
	FrameOutputs        FrameKind = "outputs"    // Outputs
	FrameArchiveRequest FrameKind = "ask"        // Step waits for the executor to transfer an archive
	FrameTaskEnd        FrameKind = "task_end"   // Result, and Data that its driver adds to the log; the last frame of a task
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

// ServiceStream returns the stream of a service's output.
func ServiceStream(service string) Stream { return servicePrefix + Stream(service) }

const servicePrefix = "service:"

// Service returns the service whose output the stream has, "" for the streams of steps
// and of Drover.
func (s Stream) Service() string {
	name, ok := strings.CutPrefix(string(s), servicePrefix)
	if !ok {
		return ""
	}
	return name
}

// Valid reports whether there can be such a stream.
func (s Stream) Valid() bool {
	switch s {
	case StreamStdout, StreamStderr, StreamSystem:
		return true
	}
	return ValidName(s.Service())
}

// SetupStep is the step number of output that the environment's setup wrote.
const SetupStep = -1

// MaxFrameData is the most output that one frame carries, in bytes.
const MaxFrameData = 4 << 10

// Frame is one numbered record of a task's progress. Within a key the numbers
// are dense from 1, and a number always identifies the same record: frames may
// be sent and stored any number of times.
type Frame struct {
	Version int       `json:"v"`
	N       int64     `json:"n"`
	Time    time.Time `json:"t"`
	Kind    FrameKind `json:"k"`
	Step    int       `json:"s"` // from 0, or SetupStep
	// Stage of a step_start; "" means StageStep, or that an older shim wrote the frame.
	Stage    Stage             `json:"sg,omitempty"`
	Stream   Stream            `json:"o,omitempty"`
	Data     []byte            `json:"d,omitempty"` // base64 in JSON
	Status   Status            `json:"st,omitempty"`
	ExitCode *int              `json:"x,omitempty"`
	TimedOut bool              `json:"to,omitempty"`
	Outputs  map[string]string `json:"out,omitempty"`
	Result   *TaskResult       `json:"r,omitempty"`
}

// Output returns the part of the log that a frame holds.
func (f *Frame) Output() []byte {
	if f.Kind == FrameOutput || f.Kind == FrameTaskEnd {
		return f.Data
	}
	return nil
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
	// CauseAcquireTimeout is set by the records: no instance of a fleet took the
	// task in time. It is never retried.
	CauseAcquireTimeout Cause = "instance_acquire_timeout"
)

// StepResult is the state or the result of one step.
type StepResult struct {
	Status   Status    `json:"status"`
	ExitCode *int      `json:"exit_code,omitempty"`
	TimedOut bool      `json:"timed_out,omitempty"`
	Stage    Stage     `json:"stage,omitempty"` // as in the frame that began it
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
}

// Limits of what an executor sends for one task. The shim and the executor keep
// to them; the gateway rejects what exceeds them.
const (
	MaxBatchFrames = 16 << 10 // of one batch
	MaxSetupFrames = 500      // of the setup's log, and one that says that it was truncated
	MaxClaimKeys   = 10_000   // of one request for the states of claims
	// MaxServiceLogBytes is how much of the output of a task's services is kept, in bytes,
	// and MaxServiceLogFrames in how many frames.
	MaxServiceLogBytes  = 256 << 10
	MaxServiceLogFrames = 1_000
	// MaxStoredOutputBytes is the greatest size of the outputs of a task after
	// secrets in them were masked: MaxOutputBytes applies before, and masking
	// turns one byte into up to three.
	MaxStoredOutputBytes = 3 * MaxOutputBytes
)

const (
	// frameOverhead is the cost of a frame without output in a log's budget, so that
	// the number of such frames is bounded too.
	frameOverhead = 64
	// maxExecutorLines is how many lines the executor itself may add to a log after the
	// setup's, such as why the environment ended.
	maxExecutorLines = 64
	// framesPerStep is how many frames without output one step has: its start and
	// end, its outputs, and its request for an archive.
	framesPerStep = 4
	// maxStoredReason leaves room for the growth of a reason in transit: each
	// invalid byte becomes a character of three.
	maxStoredReason = 4 * MaxReason
)

// LogBudget returns what the frames of one dispatch may cost if limit bytes of
// output are kept of its steps, 0 for no bound. The lines of the setup and of
// the executor, the output of services and the frames without output are added to the
// limit.
func LogBudget(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	const more = (MaxSetupFrames+1+maxExecutorLines)*MaxFrameData + (framesPerStep*MaxSteps+maxExecutorLines)*frameOverhead + MaxServiceLogBytes + MaxStoredOutputBytes + maxStoredReason
	return limit + more
}

// LogCost returns the cost of frames in the budget of their dispatch.
func LogCost(frames []Frame) (cost int64) {
	for i := range frames {
		f := &frames[i]
		n := len(f.Data) + outputBytes(f.Outputs)
		if f.Result != nil {
			n += len(f.Result.Reason)
		}
		if f.Kind != FrameOutput || n == 0 {
			n += frameOverhead
		}
		cost += int64(n)
	}
	return cost
}

// CheckFrames checks a batch of frames of any task. Errors: invalid, too_large.
func CheckFrames(frames []Frame) error {
	switch {
	case len(frames) == 0:
		return Errorf(CodeInvalid, "the batch has no frames")
	case len(frames) > MaxBatchFrames:
		return Errorf(CodeTooLarge, "the batch has %d frames; the limit is %d", len(frames), MaxBatchFrames)
	}
	for i := range frames {
		if n := frames[0].N + int64(i); frames[i].N != n || n < 1 {
			return Errorf(CodeInvalid, "frame number %d does not follow %d", frames[i].N, n-1)
		}
		if err := frames[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// check checks one frame.
func (f *Frame) check() error {
	switch {
	case f.Version < 1 || f.Version > FrameVersion:
		return Errorf(CodeInvalid, "frame %d has version %d; this server reads versions up to %d", f.N, f.Version, FrameVersion)
	case !f.Kind.valid():
		return Errorf(CodeInvalid, "frame %d has an unknown kind", f.N)
	case f.Step < SetupStep || f.Step >= MaxSteps:
		return Errorf(CodeInvalid, "frame %d is of step %d; a task has %d steps at most", f.N, f.Step, MaxSteps)
	case f.Stream != "" && !f.Stream.Valid():
		return Errorf(CodeInvalid, "frame %d has an unknown stream", f.N)
	case f.Status != "" && !f.Status.Valid():
		return Errorf(CodeInvalid, "frame %d has an unknown status", f.N)
	case len(f.Stage) > MaxNameLength: // a newer shim may know more stages
		return Errorf(CodeTooLarge, "frame %d has a stage of %d bytes", f.N, len(f.Stage))
	case len(f.Data) > MaxFrameData:
		return Errorf(CodeTooLarge, "frame %d has more than %d bytes of output", f.N, MaxFrameData)
	case outputBytes(f.Outputs) > MaxStoredOutputBytes:
		return Errorf(CodeTooLarge, "frame %d has outputs of more than %d bytes", f.N, MaxStoredOutputBytes)
	}
	for key := range f.Outputs {
		if !ValidOutputKey(key) {
			return Errorf(CodeInvalid, "frame %d has the output %s, which is not a valid key", f.N, brief(key))
		}
	}
	if f.Result != nil {
		return f.checkResult()
	}
	return nil
}

func (f *Frame) checkResult() error {
	r := f.Result
	switch {
	case len(r.Reason) > maxStoredReason || len(r.Cause) > MaxNameLength:
		return Errorf(CodeTooLarge, "the result in frame %d has a reason of %d bytes; the limit is %d", f.N, len(r.Reason), MaxReason)
	case len(r.Steps) > MaxSteps:
		return Errorf(CodeTooLarge, "the result in frame %d has %d steps; the limit is %d", f.N, len(r.Steps), MaxSteps)
	case !r.Status.Valid():
		return Errorf(CodeInvalid, "the result in frame %d has an unknown status", f.N)
	}
	for _, s := range r.Steps {
		if s.Status != "" && !s.Status.Valid() {
			return Errorf(CodeInvalid, "the result in frame %d has a step with an unknown status", f.N)
		}
	}
	return nil
}

func (k FrameKind) valid() bool {
	switch k {
	case FrameOutput, FrameStepStart, FrameStepEnd, FrameOutputs, FrameArchiveRequest, FrameTaskEnd:
		return true
	}
	return false
}

// CheckOutputs checks the size of a task's outputs. The error has CodeTooLarge.
func CheckOutputs(outputs map[string]string) error {
	if n := outputBytes(outputs); n > MaxStoredOutputBytes {
		return Errorf(CodeTooLarge, "the outputs of the task have %d bytes; the limit is %d", n, MaxStoredOutputBytes)
	}
	return nil
}

func outputBytes(outputs map[string]string) (n int) {
	for key, value := range outputs {
		n += len(key) + len(value)
	}
	return n
}
