package shim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/drover-run/drover/run"
)

// execute runs a step, again as often as its retry policy says, and returns the
// outcome of the last attempt. The step has one start and one end in the journal;
// a line of its output reports each attempt before the last.
func (t *task) execute(n int) outcome {
	d := &t.order.Definition
	policy, most := d.Steps[n].Retry, max(1, d.Steps[n].Retry.MaxAttempts)
	before := t.outputBytes
	for attempt := 1; ; attempt++ {
		t.outputBytes = before // outputs of earlier attempts do not count
		out := t.executeOnce(n, attempt)
		// Steps of a cleanup run once: its time is short, and the task has ended already.
		failed := out.result.Status == run.StatusFailed && out.by != taskTimedOut && t.cleanup.cause == uninterrupted
		if !failed || out.final || attempt == most || !policy.Allows(out.cause, out.result.ExitCode) {
			if failed && attempt > 1 {
				out.reason += fmt.Sprintf("; it was attempted %d times", attempt)
			}
			return out
		}
		wait := policy.Delay(attempt, d.Key.String()+"/"+strconv.Itoa(n))
		line := fmt.Sprintf("drover: %s; attempt %d of %d begins", out.reason, attempt+1, most)
		if wait > 0 {
			line += " after " + wait.String()
		}
		t.print(n, []string{line})
		if by := t.pause(wait); by != uninterrupted {
			ended := t.interruptedOutcome(n, by)
			ended.result.ExitCode = out.result.ExitCode
			return ended
		}
	}
}

// pause waits, unless the task is stopped or its time is over.
func (t *task) pause(wait time.Duration) interruption {
	if by := t.interrupted(); by != uninterrupted {
		return by
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return uninterrupted
	case <-t.control.stopped:
		return wasStopped
	case <-t.deadline:
		return taskTimedOut
	}
}
