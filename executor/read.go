package executor

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"

	"github.com/drover-run/drover/run"
)

// Bounds of the setup's log: it lies in the journal.
const (
	maxSetupFrames = 500
	setupCut       = "further lines of the setup are left out"
)

// maxGaps is how often a missing frame is looked for before the frames that
// follow are given up.
const maxGaps = 5

var (
	errGoBack   = errors.New("frames can be read again")
	errGap      = errors.New("a frame is missing")
	errBrokeOff = errors.New("the frames ended without an end")
)

// setupLine adds a line to the setup's log. After the launch there is no
// number left for it.
func (t *task) setupLine(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.entry.Setup)
	if !t.entry.State.launchable() || n > maxSetupFrames {
		return
	}
	if n == maxSetupFrames {
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

// read feeds the shipper with all frames of the task, and ends the task when
// its end is told.
func (t *task) read(ctx context.Context, h Handle) {
	if t.ship.hasAll() {
		return // an earlier process noted it
	}
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for gaps := 0; ctx.Err() == nil; {
		pass, cancel := context.WithCancelCause(ctx)
		t.ship.onRoom(func() { cancel(errGoBack) })
		from := t.ship.wanted()
		err := t.pass(pass, h, from)
		if err == nil && t.ship.isBehind() {
			<-pass.Done() // there is more to come back for
		}
		back := errors.Is(context.Cause(pass), errGoBack)
		cancel(nil)
		switch {
		case back:
			continue
		case err == nil:
			if h == nil && t.ship.lacks() {
				t.log.Error("giving up on frames that are gone with the environment", slog.Int64("from", from))
				t.ship.giveUp()
			}
			return
		case errors.Is(err, errGap):
			if gaps++; gaps >= maxGaps {
				t.log.Error("giving up on missing frames", slog.Int64("from", from))
				t.ship.giveUp()
			}
		case t.ship.wanted() > from:
			retry = pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
		}
		if ctx.Err() == nil {
			t.log.Debug("reading frames broke off", slog.Any("error", err))
			retry.wait(ctx, nil)
		}
	}
}

// pass reads once from a frame on. Nil means that the end was reached.
func (t *task) pass(ctx context.Context, h Handle, from int64) error {
	expected := from
	for f, err := range t.frames(ctx, h, from) {
		if err != nil {
			return err
		}
		switch {
		case f.N < expected:
			continue
		case f.N > expected && !t.skip(f.N):
			return errGap
		}
		expected = f.N
		expected++
		t.addFrame(f)
		if f.Kind == run.FrameTaskEnd {
			t.told(f)
		}
		if err := t.ship.offer(ctx, f); err != nil {
			return err
		}
		if f.Kind == run.FrameTaskEnd {
			return nil
		}
	}
	return context.Cause(ctx)
}

// skip leaves out what comes before frame n where the journal was damaged, and
// with it the frames of the setup.
func (t *task) skip(n int64) bool {
	t.mu.Lock()
	damaged := t.entry.Damaged
	t.mu.Unlock()
	return damaged && t.ship.skipTo(n)
}

// frames yields the setup's frames, the environment's, and where that does not
// tell the end, those that the executor made in its place.
func (t *task) frames(ctx context.Context, h Handle, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		t.mu.Lock()
		setup, first := t.entry.Setup, t.entry.FirstFrame
		t.mu.Unlock()
		for _, f := range setup {
			if f.N >= from && !yield(f, nil) {
				return
			}
		}
		if h != nil {
			next, ended := max(from, first), error(nil)
			for f, err := range h.Events(ctx, next) {
				if run.CodeOf(err) == run.CodeNotFound {
					ended = err
					break
				}
				if !yield(f, err) || err != nil {
					return
				}
				next = f.N + 1
				if f.Kind == run.FrameTaskEnd {
					return
				}
			}
			if ended == nil {
				yield(run.Frame{}, errBrokeOff)
				return
			}
			t.endedSilently(ended, next)
		}
		t.mu.Lock()
		tail := t.entry.Tail
		t.mu.Unlock()
		for _, f := range tail {
			if f.N >= from && !yield(f, nil) {
				return
			}
		}
	}
}

// told ends the task by its last frame.
func (t *task) told(f run.Frame) {
	result := f.Result
	if result == nil {
		t.mu.Lock()
		result = t.resultOf(run.StatusFailed, run.CauseVanished, "the task's end has no result")
		t.mu.Unlock()
	}
	t.end(record{Result: result, Last: f.N})
}

// endedSilently ends a task whose environment ended before it told so; next is
// the number after its last frame.
func (t *task) endedSilently(why error, next int64) {
	t.mu.Lock()
	known := t.entry.State == stateEnded
	result := t.resultOf(run.StatusFailed, CauseOf(why), why.Error())
	t.mu.Unlock()
	if !known {
		t.end(t.tail(result, why.Error(), next))
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

// tail makes the last frames of a task.
func (t *task) tail(result *run.TaskResult, line string, next int64) record {
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
