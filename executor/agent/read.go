package agent

import (
	"errors"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// setupCut is the last line of a setup's log that exceeds run.MaxSetupFrames: the
// log is stored in the journal.
const setupCut = "further lines of the setup are left out"

// setupLine adds a line to the setup's log. After the launch there is no frame
// number left for it.
func (t *task) setupLine(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.entry.Setup)
	if !t.states[regionProgress].launchable() || n > run.MaxSetupFrames {
		return
	}
	if n == run.MaxSetupFrames {
		line = setupCut
	}
	f := t.systemFrame(int64(n)+1, line)
	if err := t.append(record{Setup: []run.Frame{f}}, executor.Lazy); err != nil {
		t.log.Warn("failed to record a line of the setup", "error", err)
		return
	}
	t.sender.Push(f)
}

// systemFrame creates a log line of the executor itself.
func (t *task) systemFrame(n int64, line string) run.Frame {
	return run.Frame{
		Version: run.FrameOutput.Version(),
		N:       n,
		Time:    t.a.now(),
		Kind:    run.FrameOutput,
		Step:    run.SetupStep,
		Stream:  run.StreamSystem,
		Data:    []byte(truncate.String(line, run.MaxFrameData-1, "") + "\n"),
	}
}

// conclude ends a task whose environment reports no end. A non-empty line reports
// the end in the log.
func (t *task) conclude(result *run.TaskResult, line string) {
	t.mu.Lock()
	next := max(t.steps.Seen, int64(len(t.entry.Setup)), t.entry.firstUnsent()-1) + 1
	inFlight := t.entry.Flight != nil && t.entry.Flight.Last >= next
	damaged := t.entry.Damaged
	t.mu.Unlock()
	if inFlight || damaged {
		// The frames of the batch in flight are gone with the environment, and it is
		// unknown whether they were stored: their numbers can not be used again.
		t.end(record{Result: result})
		t.sender.Abandon()
		return
	}
	t.end(t.tail(result, line, next))
}

// tail creates the last frames of a task, from number next on. It skips the numbers
// of a batch in flight, whose bounds never change.
func (t *task) tail(result *run.TaskResult, line string, next int64) record {
	t.mu.Lock()
	if t.entry.Flight != nil {
		next = max(next, t.entry.Flight.Last+1)
	}
	t.mu.Unlock()
	var tail []run.Frame
	if line != "" {
		tail = append(tail, t.systemFrame(next, line))
		next++
	}
	tail = append(tail, run.Frame{
		Version: run.FrameTaskEnd.Version(),
		N:       next,
		Time:    t.a.now(),
		Kind:    run.FrameTaskEnd,
		Step:    run.SetupStep,
		Result:  result,
	})
	return record{Result: result, Last: next, Tail: tail}
}

// end records the result. Only the first call has an effect.
func (t *task) end(r record) {
	t.a.hitFailpoint(pointEnd, t.key)
	first := t.recordEnd(r)
	t.a.hitFailpoint(pointEnded, t.key)
	if first {
		close(t.over) // from here on the result is reported
	}
}

// recordEnd reports whether this was the first end.
func (t *task) recordEnd(r record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states.in(stateEnded, stateEndUnrecorded, stateClosed, keyReleased) {
		return false
	}
	if err := t.record(eventEnded, r, executor.Kept); err != nil {
		if t.states.in(keyReleased) || errors.Is(err, errIllegalTransition) {
			return false // the member that has the key finds its end
		}
		// The result is reported nevertheless; the next process would read it again.
		t.log.Warn("failed to record the end", "error", err)
		if t.a.shared != nil {
			t.applyUnrecorded(eventEndUnrecorded, r)
		} else {
			t.applyUnrecorded(eventEnded, r)
		}
	}
	t.sender.Finish(r.Last)
	t.count(string(r.Result.Status))
	t.log.Debug("task ended", "status", string(r.Result.Status), "reason", r.Result.Reason)
	return true
}

// ensureEndRecorded records an end that could not be written to a set's journal before. Until
// it is recorded, the result is not reported: the claim would be closed, and the
// member that takes over the key could not distinguish an environment that has
// ended from one that must be stopped, and would not send the remaining frames.
func (t *task) ensureEndRecorded() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.states.in(stateEndUnrecorded) {
		return nil
	}
	e := t.entry.record
	return t.record(eventEndRecorded, record{Result: e.Result, Last: e.Last, Tail: e.Tail}, executor.Kept)
}
