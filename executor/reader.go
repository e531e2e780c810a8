package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/drover-run/drover/run"
)

// maxMisses is how often frames before the first one of the environment are
// waited for, where the executor's journal was damaged and does not tell how many
// there were. They are passed over once what is queued was stored.
const maxMisses = 5

var (
	errGoBack   = errors.New("frames can be read again")
	errBrokeOff = errors.New("the frames ended without an end")
)

// reader brings the frames of a task to its shipper. One goroutine uses it.
type reader struct {
	*task
	h      Handle // nil: there is no environment
	began  bool   // a frame of the environment was read
	misses int    // how often a frame was missing
	warned bool   // the log tells that something is wrong with the journal
}

// read feeds the shipper with all frames of the task, and ends the task when
// its end is known.
func (t *task) read(ctx context.Context, h Handle) {
	if t.ship.hasAll() {
		return // an earlier process noted it
	}
	r := &reader{task: t, h: h}
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for ctx.Err() == nil {
		pass, cancel := context.WithCancelCause(ctx)
		t.ship.onRoom(func() { cancel(errGoBack) })
		from := t.ship.wanted()
		err := r.pass(pass, from)
		if err == nil && t.ship.isBehind() {
			<-pass.Done() // there is more to come back for
		}
		back := errors.Is(context.Cause(pass), errGoBack)
		cancel(nil)
		switch {
		case back:
			continue
		case err == nil:
			if ctx.Err() == nil && t.ship.lacks() {
				t.log.Error("giving up on frames that are gone with the environment", slog.Int64("from", from))
				t.ship.giveUp()
			}
			return
		case t.ship.wanted() > from:
			retry = pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
		}
		if ctx.Err() == nil {
			r.complain(err)
			retry.wait(ctx, nil)
		}
	}
}

// complain logs why reading ended before the task did. Damage is a warning, but
// one only: no retry helps until the environment ends.
func (r *reader) complain(err error) {
	if errors.Is(err, ErrDamaged) {
		r.warn(err)
	}
	r.log.Debug("reading frames broke off", slog.Any("error", err))
}

func (r *reader) warn(err error) {
	if !r.warned {
		r.warned = true
		r.log.Warn("failed to read the journal of the environment", slog.Any("error", err))
	}
}

// pass reads once from a frame on. Nil means that the end was reached.
func (r *reader) pass(ctx context.Context, from int64) error {
	for f, err := range r.frames(ctx, from) {
		if err != nil {
			return err
		}
		if f.N < from {
			continue
		}
		r.addFrame(f)
		if f.Kind == run.FrameTaskEnd {
			r.told(f)
		}
		if err := r.ship.offer(ctx, f); err != nil {
			return err
		}
		if f.Kind == run.FrameTaskEnd {
			return nil
		}
	}
	return context.Cause(ctx)
}

// frames yields the setup's frames, the environment's, and where that does not
// tell the end, those that the executor made in its place. No number is left
// out, but those that skip leaves out.
func (r *reader) frames(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		r.mu.Lock()
		setup, first := r.entry.Setup, r.entry.FirstFrame
		r.mu.Unlock()
		next := from
		for _, f := range setup {
			if f.N >= from && !yield(f, nil) {
				return
			}
			next = max(next, f.N+1)
		}
		if r.h != nil {
			var ended bool
			if next, ended = r.events(ctx, max(from, first), yield); !ended {
				return
			}
		}
		r.mu.Lock()
		tail := r.entry.Tail
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

// events yields the environment's frames from a number on. ended says that the
// environment has ended without telling the end: the next number is the first
// that it has no frame for. Where a frame is missing, the frames after it serve
// to learn of the end alone.
func (r *reader) events(ctx context.Context, from int64, yield func(run.Frame, error) bool) (next int64, ended bool) {
	next = from
	var gap error
	for f, err := range r.h.Events(ctx, next) {
		switch {
		case run.CodeOf(err) == run.CodeNotFound:
			if gap != nil {
				err = gap
			}
			r.endedSilently(err, next)
			return next, true
		case err != nil:
			yield(f, err)
			return next, false
		case gap == nil && f.N > next && !r.skip(f.N):
			lacks := fmt.Errorf("it lacks the frames %d to %d", next, f.N-1)
			if r.misses++; r.misses == 1 || r.setupLost() {
				yield(f, lacks)
				return next, false
			}
			gap = Damaged(lacks, true)
			r.warn(gap)
		}
		switch last := f.Kind == run.FrameTaskEnd; {
		case gap != nil && last:
			r.endedSilently(gap, next)
			return next, true
		case gap != nil:
			continue
		case !yield(f, nil) || last:
			return next, false
		}
		r.began = true
		next = max(next, f.N+1)
	}
	yield(run.Frame{}, errBrokeOff)
	return next, false
}

// setupLost reports whether the frames before the first one of the environment
// are not known, since the executor's own journal was damaged.
func (r *reader) setupLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entry.Damaged && !r.began
}

// skip leaves out what comes before frame n where setupLost says so. Where a
// batch in flight has some of it, the log is given up, and the result is not.
func (r *reader) skip(n int64) bool {
	if !r.setupLost() {
		return false
	}
	if r.misses >= maxMisses {
		r.log.Error("giving up on missing frames", slog.Int64("from", r.ship.wanted()))
		r.ship.giveUp()
		return true
	}
	return r.ship.skipTo(n)
}

// fill yields frames in the place of those that cannot be had any more, from
// number next on and before number end.
func (r *reader) fill(next, end int64, yield func(run.Frame, error) bool) bool {
	line := fmt.Sprintf("drover: the frames %d to %d of this log are missing", next, end-1)
	for n := next; n < end; n++ {
		f := r.systemFrame(n, line)
		if n > next {
			f.Data = nil
		}
		if !yield(f, nil) {
			return false
		}
	}
	return true
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
func (r *reader) endedSilently(why error, next int64) {
	if errors.Is(why, ErrDamaged) {
		r.warn(why)
	}
	r.mu.Lock()
	known := r.entry.State == stateEnded
	result := r.resultOf(run.StatusFailed, CauseOf(why), why.Error())
	r.mu.Unlock()
	if !known {
		r.end(r.tail(result, why.Error(), next))
		return
	}
	r.cutShort(why, next)
}

// cutShort ends the log of a task whose result is known, where the frames from
// next on cannot be had any more.
func (r *reader) cutShort(why error, next int64) {
	r.mu.Lock()
	result, last, made := r.entry.Result, r.entry.Last, len(r.entry.Tail) > 0
	r.mu.Unlock()
	if made || last < next {
		return
	}
	tail := r.tail(result, "drover: the rest of this log is missing: "+why.Error(), next)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.append(tail, Kept); err != nil {
		// The next process finds the same.
		r.log.Warn("failed to note the end of the log", slog.Any("error", err))
		r.entry.apply(tail)
	}
	r.ship.finish(tail.Last)
}
