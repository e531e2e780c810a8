package agent

import (
	"errors"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// setupCut is the last line of a setup's log that exceeds run.MaxSetupFrames: the
// log is stored in the journal.
const setupCut = "further lines of the setup are left out"

// setupLine adds a line to the setup's log. After the launch there is no frame
// number left for it.
func (l *launcher) setupLine(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.entry.Setup)
	if !l.states[regionProgress].launchable() || n > run.MaxSetupFrames {
		return
	}
	if n == run.MaxSetupFrames {
		line = setupCut
	}
	f := systemFrame(int64(n)+1, l.a.now(), line)
	if err := l.append(record{Setup: []run.Frame{f}}, executor.Lazy); err != nil {
		l.log.Warn("failed to record a line of the setup", "error", err)
		return
	}
	l.sender.Push(f)
}

// systemFrame creates a log line of the executor itself.
func systemFrame(n int64, now time.Time, line string) run.Frame {
	return run.Frame{
		Version: run.FrameOutput.Version(),
		N:       n,
		Time:    now,
		Kind:    run.FrameOutput,
		Step:    run.SetupStep,
		Stream:  run.StreamSystem,
		Data:    []byte(truncate.String(line, run.MaxFrameData-1, "") + "\n"),
	}
}

// conclude ends a task whose environment reports no end. A non-empty line reports
// the end in the log.
func (x *execution) conclude(result *run.TaskResult, line string) {
	x.mu.Lock()
	next := max(x.seen.last(), int64(len(x.entry.Setup)), x.entry.firstUnsent()-1) + 1
	inFlight := x.entry.Flight != nil && x.entry.Flight.Last >= next
	damaged := x.entry.Damaged
	x.mu.Unlock()
	if inFlight || damaged {
		// The frames of the batch in flight are gone with the environment, and it is
		// unknown whether they were stored: their numbers can not be used again.
		x.end(record{Result: result})
		x.sender.Abandon()
		return
	}
	x.end(x.tail(result, line, next))
}

// tail creates the last frames of a task, from number next on, with the output of its
// services before them. It skips the numbers of a batch in flight, whose bounds never change.
func (x *execution) tail(result *run.TaskResult, line string, next int64, output ...run.Frame) record {
	x.mu.Lock()
	if x.entry.Flight != nil {
		next = max(next, x.entry.Flight.Last+1)
	}
	x.mu.Unlock()
	tail := output
	if line != "" {
		tail = append(tail, systemFrame(next, x.a.now(), line))
	}
	tail = number(append(tail, run.Frame{
		Version: run.FrameTaskEnd.Version(),
		Time:    x.a.now(),
		Kind:    run.FrameTaskEnd,
		Step:    run.SetupStep,
		Result:  result,
	}), next)
	return record{Result: result, Last: tail[len(tail)-1].N, Tail: tail}
}

// end records the result. Only the first call has an effect.
func (x *execution) end(r record) {
	x.a.hitFailpoint(pointEnd, x.key)
	first := x.recordEnd(r)
	x.a.hitFailpoint(pointEnded, x.key)
	if first {
		close(x.over) // from here on the result is reported
	}
}

// recordEnd reports whether this was the first end.
func (x *execution) recordEnd(r record) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.states.in(stateEnded, stateEndUnrecorded, stateClosed, keyReleased) {
		return false
	}
	if !x.hasRoom(r) {
		r = r.withoutServices()
	}
	err := x.record(eventEnded, r, executor.Kept)
	if short := r.withoutServices(); err != nil && len(short.Tail) < len(r.Tail) && !x.states.in(keyReleased) && !errors.Is(err, errIllegalTransition) {
		// A journal without room for the output may have room for the end. If it has no
		// room for that either, the next process may find less output, and must not end
		// before what is in flight.
		r = short
		err = x.record(eventEnded, r, executor.Kept)
	}
	if err != nil {
		if x.states.in(keyReleased) || errors.Is(err, errIllegalTransition) {
			return false // the member that has the key finds its end
		}
		// The result is reported nevertheless; the next process would read it again.
		x.log.Warn("failed to record the end", "error", err)
		if x.a.shared != nil {
			x.applyUnrecorded(eventEndUnrecorded, r)
		} else {
			x.applyUnrecorded(eventEnded, r)
		}
	}
	x.sender.Finish(r.Last)
	x.count(string(r.Result.Status))
	x.countStages(r.Result)
	x.log.Debug("task ended", "status", string(r.Result.Status), "reason", r.Result.Reason)
	return true
}

// ensureEndRecorded records an end that could not be written to a set's journal before. Until
// it is recorded, the result is not reported: the claim would be closed, and the
// member that takes over the key could not distinguish an environment that has
// ended from one that must be stopped, and would not send the remaining frames.
func (x *execution) ensureEndRecorded() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ensureEndRecordedLocked()
}

func (x *execution) ensureEndRecordedLocked() error {
	if !x.states.in(stateEndUnrecorded) {
		return nil
	}
	e := x.entry.record
	return x.record(eventEndRecorded, record{Result: e.Result, Last: e.Last, Tail: e.Tail, Notes: e.Notes}, executor.Kept)
}
