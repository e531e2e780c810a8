package shim

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

const (
	// drainQuiet is how long the pipes of a step that has ended must be silent until
	// the processes that hold them open count as background processes.
	drainQuiet = 100 * time.Millisecond
	// drainLimit bounds that wait if background processes are never silent.
	drainLimit = time.Second
	// exitNotStarted is the exit code of shells for a command that can not be run.
	exitNotStarted = 127
	// exitKilled is the exit code of shells for a child that was killed by SIGKILL.
	exitKilled = 128 + 9
)

// interruption is the reason why a step did not run to its own end.
type interruption int

const (
	uninterrupted interruption = iota
	stepTimedOut
	taskTimedOut
	wasStopped
	cleanupTimedOut // the timeout of the cleanup has passed
	wasAborted      // a stop ended the cleanup
)

// outcome is the result of a step.
type outcome struct {
	result  run.StepResult
	by      interruption
	reason  string // why it failed, a sentence; "" if it did not
	cause   run.Cause
	outputs map[string]string
	// final means that the step must not be repeated.
	final bool
}

// runStep runs one step to its end and writes its frames. failed means that the task
// has failed before.
func (t *task) runStep(n int, failed bool) outcome {
	started, stage := time.Now().UTC(), run.Stage("")
	if step := &t.order.Definition.Steps[n]; failed || t.cleanup.cause != uninterrupted {
		stage = run.StageCleanup
	} else if archive := step.ArchiveType(); archive != "" {
		stage = run.StageOfType(archive)
	}
	t.journal.Add(run.Frame{Time: started, Kind: run.FrameStepStart, Step: n, Stage: stage, Status: run.StatusRunning})
	out := t.execute(n)
	out.result.Stage, out.result.Started, out.result.Ended = stage, started, time.Now().UTC()
	if len(out.outputs) > 0 {
		t.journal.Add(run.Frame{Time: out.result.Ended, Kind: run.FrameOutputs, Step: n, Outputs: out.outputs})
	}
	t.journal.Add(stepEnd(n, out.result))
	return out
}

func stepEnd(n int, r run.StepResult) run.Frame {
	return run.Frame{Time: r.Ended, Kind: run.FrameStepEnd, Step: n, Status: r.Status, ExitCode: r.ExitCode, TimedOut: r.TimedOut}
}

// executeOnce runs a step for the attempt-th time, and returns its outcome.
func (t *task) executeOnce(n, attempt int) outcome {
	step := t.order.Definition.Steps[n]
	if step.ArchiveType() != "" {
		return t.runArchiveStep(n)
	}
	p, readers, to, fault := t.start(n, attempt)
	if fault != nil {
		return *fault
	}
	interrupted, release := t.watch(n)
	by := t.await(p, step.Timeout, interrupted)
	release()
	t.drain(readers)
	to.finish(run.StreamStdout, run.StreamStderr)

	end, lost := p.end()
	if lost != nil {
		return t.lostOutcome(n, by, lost)
	}
	t.noteOOM(n, end)
	e := end.Exit
	out := outcome{by: by, result: run.StepResult{ExitCode: &e.Code}}
	switch {
	case by == wasStopped, by == wasAborted:
		out.result.Status = run.StatusStopped
	case by == taskTimedOut, by == cleanupTimedOut:
		out.result.Status, out.result.TimedOut = run.StatusFailed, true
	case by == stepTimedOut:
		out = t.failed(n, &e.Code, "timed out after "+step.Timeout.String())
		out.by, out.cause, out.result.TimedOut = by, run.CauseTimeout, true
	case end.OOMKills > 0 && t.isMemoryFailure(e):
		out = t.failed(n, &e.Code, "ran out of memory (exit code "+strconv.Itoa(e.Code)+")")
		out.cause = run.CauseOOM
	case e.Signal != "":
		out = t.failed(n, &e.Code, fmt.Sprintf("was killed by signal %d (%s)", e.Code-128, e.Signal))
	case e.Code != 0:
		out = t.failed(n, &e.Code, "exited with code "+strconv.Itoa(e.Code)+to.hint(&t.order.Definition))
	default:
		out.result.Status = run.StatusSuccess
	}
	return t.withOutputs(out, n, end)
}

// noteOOM notes that processes were killed because of a lack of memory while a step ran,
// which the step may have survived, or before it, as processes that earlier steps left.
// The control group of an environment counts the processes of the task only; that of a
// host counts those of other tasks too.
func (t *task) noteOOM(n int, end helper.Result) {
	t.addOOM(n, oomKills{kills: end.EarlierOOMKills, limit: end.MemoryLimit, when: "before " + t.stepName(n)})
	t.addOOM(n, oomKills{kills: end.OOMKills, limit: end.MemoryLimit, when: "in " + t.stepName(n)})
}

func (t *task) addOOM(n int, k oomKills) {
	if k.kills == 0 {
		return
	}
	t.print(n, []string{k.text(t.control.host)})
	k.kills, k.when = k.kills+t.oom.kills, cmp.Or(t.oom.when, k.when)
	t.oom = k
}

// oomKills are processes that were killed because of a lack of memory.
type oomKills struct {
	kills int
	limit int64  // in bytes; 0 for none
	when  string // in or before which step; of the first of them
}

func (k oomKills) text(host bool) string {
	text := "the kernel killed 1 process because memory ran out"
	if k.kills > 1 {
		text = fmt.Sprintf("the kernel killed %d processes because memory ran out", k.kills)
	}
	if k.limit > 0 {
		text += " (limit " + memorySize(k.limit) + ")"
	}
	text += ", " + k.when
	if host {
		text += "; it may have been of another task"
	}
	return text
}

// memorySize returns bytes in the largest unit that divides them.
func memorySize(bytes int64) string {
	units, n := []string{"", "Ki", "Mi", "Gi"}, 0
	for ; n < len(units)-1 && bytes%1024 == 0; n++ {
		bytes /= 1024
	}
	return strconv.FormatInt(bytes, 10) + units[n]
}

// isMemoryFailure reports whether the failure of a step is attributed to a process
// that was killed because of a lack of memory. That may be a child of the step,
// because of which the step failed; on a host it may be a process of any other
// task.
func (t *task) isMemoryFailure(e process.Exit) bool {
	return e.Killed || e.Code == exitKilled || (e.Code != 0 && !t.control.host)
}

// withOutputs adds the outputs of the step. Invalid outputs fail a step that
// succeeded.
func (t *task) withOutputs(out outcome, n int, end helper.Result) outcome {
	if end.OutputError != "" {
		if out.result.Status == run.StatusSuccess {
			return t.failed(n, out.result.ExitCode, end.OutputError)
		}
		return out
	}
	values := end.Outputs
	for key, value := range values {
		if t.secrets.String(key) != key {
			if out.result.Status == run.StatusSuccess {
				return t.failed(n, out.result.ExitCode, "put out a key that holds a secret")
			}
			return out
		}
		t.outputBytes += len(key) + len(value)
		values[key] = t.secrets.String(value)
	}
	out.outputs = values
	return out
}

// failed is the outcome of a step that failed for the reason why.
func (t *task) failed(n int, code *int, why string) outcome {
	return outcome{
		result: run.StepResult{Status: run.StatusFailed, ExitCode: code},
		reason: t.stepName(n) + " " + why,
		cause:  run.CauseStep,
	}
}

// stepName returns the name of a step for messages, counted from 1.
func (t *task) stepName(n int) string {
	if name := t.order.Definition.Steps[n].Name; name != "" {
		return fmt.Sprintf("step %d %q", n+1, name)
	}
	return fmt.Sprintf("step %d", n+1)
}

// drain waits until all output of the step was read. Later output of background
// processes is read until the task ends.
func (t *task) drain(readers []*pipeReader) {
	open := func() (left []*pipeReader, read int64) {
		for _, p := range readers {
			select {
			case <-p.done:
			default:
				left = append(left, p)
				read += p.read.Load()
			}
		}
		return left, read
	}
	limit := time.Now().Add(drainLimit)
	left, read := open()
	for quiet := false; len(left) > 0 && !quiet && time.Now().Before(limit); {
		timer := time.NewTimer(drainQuiet)
		select {
		case <-left[0].done:
			left, read = open()
		case <-timer.C:
			before := read
			left, read = open()
			quiet = read == before
		}
		timer.Stop()
	}
	for _, p := range left {
		p.catchUp() // the reader may have been delayed for as long
	}
	t.background = append(t.background, left...)
}
