package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// maxMisses is how many times the executor waits for frames before the first one of
// the environment, if its own journal was damaged and their number is unknown.
// After that it skips them, once the queue is stored.
const maxMisses = 5

var (
	errRewind     = errors.New("frames can be read again")
	errNoEndFrame = errors.New("the frames ended without a task_end frame")
	errFenced     = errors.New("the steps may have begun before they were prevented")
)

// reader passes the frames of a task to its frame sender. One goroutine uses it.
type reader struct {
	*execution

	h      executor.Handle // nil: there is no environment
	began  bool            // a frame of the environment was read
	misses int             // how many times a frame was missing
	warned bool            // the log has a warning about the journal
	fenced bool            // steps that have not begun cannot begin any more
}

// read passes all frames of the task to the frame sender, and ends the task when
// its result is known.
func (x *execution) read(ctx context.Context, h executor.Handle) {
	if x.sender.AllStored() {
		return // an earlier process recorded that
	}
	r := &reader{execution: x, h: h}
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for ctx.Err() == nil {
		passCtx, cancel := context.WithCancelCause(ctx)
		x.sender.OnRewind(func() { cancel(errRewind) })
		from := x.sender.NextFrame()
		err := r.readOnce(passCtx, from)
		if err == nil && x.sender.IsBehind() {
			<-passCtx.Done() // wait until more frames can be read
		}
		rewind := errors.Is(context.Cause(passCtx), errRewind)
		cancel(nil)
		switch {
		case rewind:
			continue
		case err == nil:
			if ctx.Err() == nil && x.sender.MissesFrames() {
				x.log.ErrorContext(ctx, "skipping frames that were lost with the environment", "from", from)
				x.sender.Abandon()
			}
			return
		case x.sender.NextFrame() > from:
			retry = pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
		}
		if ctx.Err() == nil {
			r.logReadError(err)
			retry.wait(ctx, nil)
		}
	}
}

// logReadError logs why reading ended before the task did. Damage is logged as a
// warning once only: no retry helps until the environment ends.
func (r *reader) logReadError(err error) {
	if errors.Is(err, executor.ErrDamaged) {
		r.warn(err)
	}
	r.log.Debug("failed to read frames, retrying", "error", err)
}

func (r *reader) warn(err error) {
	if !r.warned {
		r.warned = true
		r.log.Warn("failed to read the journal of the environment", "error", err)
	}
}

// readOnce reads once from a frame on. Nil means that it reached the end.
func (r *reader) readOnce(ctx context.Context, from int64) error {
	for f, err := range r.frames(ctx, from) {
		if err != nil {
			return err
		}
		if f.N < from {
			continue
		}
		r.seen.add(f)
		if f.Kind == run.FrameTaskEnd {
			f = r.endByFrame(f)
		}
		if err := r.sender.Offer(ctx, f); err != nil {
			return err
		}
		if f.Kind == run.FrameTaskEnd {
			return nil
		}
	}
	return context.Cause(ctx)
}

// frames yields the setup's frames, the environment's frames and, if those have no
// task_end, the frames that the executor created in their place. No number is
// missing, except those that skip leaves out.
func (r *reader) frames(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		r.mu.Lock()
		setup, first, tail := r.entry.Setup, r.entry.FirstFrame, r.entry.Tail
		r.mu.Unlock()
		next := from
		for _, f := range setup {
			if f.N >= from && !yield(f, nil) {
				return
			}
			next = max(next, f.N+1)
		}
		switch {
		case len(tail) > 0 && from > tail[0].N:
			next = max(next, from) // all frames of the environment are stored
		case r.h != nil:
			var ended bool
			if next, ended = r.events(ctx, max(from, first), yield); !ended {
				return
			}
		}
		r.mu.Lock()
		tail = r.entry.Tail
		r.mu.Unlock()
		for i, f := range tail {
			if i == 0 && !r.fill(next, f.N, yield) {
				return
			}
			if f.N >= from && !yield(f, nil) {
				return
			}
		}
	}
}

// events yields the environment's frames from a number on. ended means that the
// environment has ended without a task_end frame; next is then the first number
// without a frame. If the services left output, it replaces the task_end frame, and next
// is the number of that. After a missing frame, later frames are only read for the result.
func (r *reader) events(ctx context.Context, from int64, yield func(run.Frame, error) bool) (next int64, ended bool) {
	next = from
	var gap error
	for f, err := range r.h.Events(ctx, next) {
		switch {
		case run.CodeOf(err) == run.CodeNotFound:
			if gap != nil {
				err = gap
			}
			if r.notBegun(err, next) != nil && !r.fenced {
				if err = r.fence(ctx); err == nil {
					r.fenced, err = true, errFenced
				}
				yield(run.Frame{}, err)
				return next, false
			}
			return next, r.endedWithoutFrame(ctx, err, next)
		case err != nil:
			yield(f, err)
			return next, false
		case gap == nil && f.N > next && !r.skip(f.N):
			gapErr := fmt.Errorf("it lacks the frames %d to %d", next, f.N-1)
			if r.misses++; r.misses == 1 || r.setupLost() {
				yield(f, gapErr)
				return next, false
			}
			gap = executor.Damaged(gapErr, true)
			r.warn(gap)
		}
		switch last := f.Kind == run.FrameTaskEnd; {
		case gap != nil && last:
			return next, r.endedWithoutFrame(ctx, gap, next)
		case gap != nil:
			continue
		case last:
			replaced, err := r.endWithServices(ctx, f)
			if err != nil || !replaced {
				yield(f, err)
			}
			return f.N, replaced
		case !yield(f, nil):
			return next, false
		}
		r.began = true
		next = max(next, f.N+1)
	}
	yield(run.Frame{}, errNoEndFrame)
	return next, false
}

// setupLost reports whether the frames before the first one of the environment are
// unknown because the executor's own journal was damaged.
func (r *reader) setupLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entry.Damaged && !r.began
}

// skip leaves out the frames before frame n if setupLost. If a batch in flight
// contains some of them, the log is abandoned, but not the result.
func (r *reader) skip(n int64) bool {
	if !r.setupLost() {
		return false
	}
	if r.misses >= maxMisses {
		r.log.Error("abandoning the log after missing frames", "from", r.sender.NextFrame())
		r.sender.Abandon()
		return true
	}
	return r.sender.SkipTo(n)
}

// fill yields placeholders for lost frames, from number next up to but not
// including end.
func (r *reader) fill(next, end int64, yield func(run.Frame, error) bool) bool {
	line := fmt.Sprintf("drover: the frames %d to %d of this log are missing", next, end-1)
	for n := next; n < end; n++ {
		f := systemFrame(n, r.a.now(), line)
		if n > next {
			f.Data = nil
		}
		if !yield(f, nil) {
			return false
		}
	}
	return true
}

// endByFrame ends the task with the result of its last frame. It returns the frame with the
// notes that were recorded with the end, also if there were none: another read may find others.
func (x *execution) endByFrame(f run.Frame) run.Frame {
	result := f.Result
	if result == nil {
		x.mu.Lock()
		result = x.resultOf(run.StatusFailed, run.CauseVanished, "the task's end has no result")
		x.mu.Unlock()
	}
	x.end(record{Result: result, Last: f.N, Notes: f.Data})
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entry.Last == f.N {
		f.Stream, f.Data = "", x.entry.Notes
		if len(f.Data) > 0 {
			f.Stream = run.StreamSystem
		}
	}
	return f
}

// endedWithoutFrame ends a task whose environment ended without a task_end frame; next
// is the number after its last frame. It returns false if ctx ended before.
func (r *reader) endedWithoutFrame(ctx context.Context, why error, next int64) bool {
	if errors.Is(why, executor.ErrDamaged) {
		r.warn(why)
	}
	r.mu.Lock()
	known := r.states[regionProgress].ended()
	result := r.resultOf(run.StatusFailed, executor.CauseOf(why), why.Error())
	line := why.Error()
	r.mu.Unlock()
	if unstarted := r.notBegun(why, next); unstarted != nil {
		result, line = unstarted, unstarted.Reason
	}
	if known {
		r.truncateLog(why, next)
		return true
	}
	output := r.serviceFrames(ctx)
	if ctx.Err() != nil {
		return false
	}
	r.end(r.tail(result, line, next, output...))
	return true
}

// notBegun returns the result of a task that is not started any more, if its environment
// has no journal; nil otherwise.
func (r *reader) notBegun(why error, next int64) *run.TaskResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next > r.entry.FirstFrame || errors.Is(why, executor.ErrDamaged) {
		return nil
	}
	return r.unstarted
}

// fence prevents steps that have not begun: an earlier process, or another one of a set, may
// have sent an order that arrives late. Its shim then finds the request to end, and begins no
// step. An environment in which no shim can be reached is removed.
func (r *reader) fence(ctx context.Context) error {
	err := r.h.Abort(ctx, 0)
	if err == nil || run.CodeOf(err) == run.CodeNotFound || ctx.Err() != nil {
		return ctx.Err()
	}
	return r.h.Remove(ctx)
}

// truncateLog ends the log of a task whose result is known, if the frames from next on
// are lost.
func (r *reader) truncateLog(why error, next int64) {
	r.mu.Lock()
	result, last, made := r.entry.Result, r.entry.Last, len(r.entry.Tail) > 0
	r.mu.Unlock()
	if made || last < next {
		return
	}
	tail := r.tail(result, "drover: the rest of this log is missing: "+why.Error(), next)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.append(tail, executor.Kept); err != nil {
		// The next process does the same.
		r.log.Warn("failed to record the end of the log", "error", err)
		r.entry.apply(tail)
	}
	r.sender.Finish(tail.Last)
}
