package executortest

import "github.com/drover-run/drover/run"

// Script describes an environment of a Scripted driver.
type Script struct {
	// Setup are lines of the setup's log.
	Setup []string
	// StartErr is the error of Start before Launch is called; no environment is left.
	StartErr error
	// LaunchedErr is the error of the first Start after Launch was called; the
	// environment is left, and has not begun.
	LaunchedErr error
	// Frames are written as soon as the task has begun; number, version and time are
	// filled in.
	Frames []run.Frame
	// Result ends the task after the frames. Without one it runs until Scripted.End, a
	// Stop, or Scripted.Vanish.
	Result *run.TaskResult
	// Vanished ends the environment after the frames, without a task_end.
	Vanished error
	// IgnoreStop makes the task ignore a stop.
	IgnoreStop bool
	// CleansUp makes the task clean up after a stop: it runs until Scripted.End, an
	// Abort, or Scripted.Vanish.
	CleansUp bool
}

// Succeeds is the script of a task with one step that prints the lines.
func Succeeds(lines ...string) Script {
	s := Script{Frames: []run.Frame{{Kind: run.FrameStepStart, Status: run.StatusRunning}}}
	for _, line := range lines {
		s.Frames = append(s.Frames, run.Frame{Kind: run.FrameOutput, Stream: run.StreamStdout, Data: []byte(line + "\n")})
	}
	code := 0
	s.Frames = append(s.Frames, run.Frame{Kind: run.FrameStepEnd, Status: run.StatusSuccess, ExitCode: &code})
	s.Result = &run.TaskResult{Status: run.StatusSuccess, ExitCode: &code, Steps: []run.StepResult{{Status: run.StatusSuccess, ExitCode: &code}}}
	return s
}

// Fails is the script of a task whose only step exits with the code.
func Fails(code int) Script {
	return Script{
		Frames: []run.Frame{
			{Kind: run.FrameStepStart, Status: run.StatusRunning},
			{Kind: run.FrameStepEnd, Status: run.StatusFailed, ExitCode: &code},
		},
		Result: &run.TaskResult{
			Status: run.StatusFailed, Cause: run.CauseStep, Reason: "step 1 exited with a code that is not 0",
			ExitCode: &code, Steps: []run.StepResult{{Status: run.StatusFailed, ExitCode: &code}},
		},
	}
}

// Hangs is the script of a task whose only step runs until it is stopped.
func Hangs() Script {
	return Script{Frames: []run.Frame{{Kind: run.FrameStepStart, Status: run.StatusRunning}}}
}
