package executor

import (
	"log/slog"
	"strings"

	"github.com/drover-run/drover/run"
)

// setupCut is the last line of a setup's log of run.MaxSetupFrames: it lies in the
// journal.
const setupCut = "further lines of the setup are left out"

// setupLine adds a line to the setup's log. After the launch there is no
// number left for it.
func (t *task) setupLine(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.entry.Setup)
	if !t.entry.State.launchable() || n > run.MaxSetupFrames {
		return
	}
	if n == run.MaxSetupFrames {
		line = setupCut
	}
	f := t.systemFrame(int64(n)+1, line)
	if err := t.append(record{Setup: []run.Frame{f}}, Lazy); err != nil {
		t.log.Warn("noting a line of the setup failed", slog.Any("error", err))
		return
	}
	t.ship.push(f)
}

// systemFrame makes a line of the executor's own.
func (t *task) systemFrame(n int64, line string) run.Frame {
	return run.Frame{
		Version: run.FrameOutput.Version(),
		N:       n,
		Time:    t.a.now(),
		Kind:    run.FrameOutput,
		Step:    run.SetupStep,
		Stream:  run.StreamSystem,
		Data:    []byte(clip(line, run.MaxFrameData-1) + "\n"),
	}
}

// conclude ends a task that has no environment to tell its end. A line, where
// there is one, tells it in the log.
func (t *task) conclude(result *run.TaskResult, line string) {
	t.mu.Lock()
	next := max(t.steps.seen, int64(len(t.entry.Setup)), t.entry.unshipped()-1) + 1
	inFlight := t.entry.Flight != nil && t.entry.Flight.Last >= next
	damaged := t.entry.Damaged
	t.mu.Unlock()
	if inFlight || damaged {
		// The frames of the batch in flight are gone with the environment, and
		// nobody knows whether they were stored: their numbers are used up.
		t.end(record{Result: result})
		t.ship.giveUp()
		return
	}
	t.end(t.tail(result, line, next))
}

// tail makes the last frames of a task, from number next on. The numbers of a
// batch in flight are left to it: its bounds never change.
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

// end makes the result known. Only the first one counts.
func (t *task) end(r record) {
	t.a.at(pointEnd, t.key)
	first := t.noteEnd(r)
	t.a.at(pointEnded, t.key)
	if first {
		close(t.over) // from here on it is told
	}
}

// noteEnd reports whether this was the first end.
func (t *task) noteEnd(r record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry.State == stateEnded || t.entry.State == stateClosed || t.lost {
		return false
	}
	r.State = stateEnded
	if err := t.append(r, Kept); err != nil {
		if t.lost {
			return false // whoever has the key finds its end
		}
		// It is told nevertheless; the next process would read it again.
		t.log.Warn("noting the end failed", slog.Any("error", err))
		t.entry.apply(r)
		t.unkept = t.a.shared != nil
	}
	t.ship.finish(r.Last)
	t.count(string(r.Result.Status))
	t.log.Debug("task ended", slog.String("status", string(r.Result.Status)), slog.String("reason", r.Result.Reason))
	return true
}

// keepEnd makes up for an end that could not be noted in a set's journal. Until it
// is, the end is not told: the claim would be closed, and who takes the key over
// could not tell an environment that has ended from one that is to be stopped, and
// would not send what is left of its frames.
func (t *task) keepEnd() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.unkept {
		return nil
	}
	e := t.entry.record
	err := t.append(record{State: stateEnded, Result: e.Result, Last: e.Last, Tail: e.Tail}, Kept)
	t.unkept = err != nil
	return err
}

// clip shortens a text to n bytes, at the end of a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
